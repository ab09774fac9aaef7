package knowledge

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"agentplatform/internal/text/document"
)

func TestNearDuplicates(t *testing.T) {
	var policy strings.Builder
	for i := range 40 {
		fmt.Fprintf(&policy, "Rule %d says that nobody smokes in room %d. ", i, 3*i)
	}
	shouted := strings.ToUpper(strings.ReplaceAll(policy.String(), " ", "\n "))
	base := document.Chunk{Text: policy.String(), Heading: "Smoking", Context: "Rule\tRoom"}
	changed := func(old, now string) document.Chunk {
		c := base
		c.Text = strings.Replace(c.Text, old, now, 1)
		return c
	}
	under := func(heading, context string) document.Chunk {
		c := base
		c.Heading, c.Context = heading, context
		return c
	}
	text := func(s string) document.Chunk { return document.Chunk{Text: s} }
	for name, c := range map[string]struct {
		a, b document.Chunk
		same bool
	}{
		"equal":                    {base, base, true},
		"one word":                 {base, changed("nobody smokes", "no one smokes"), true},
		"white space and case":     {base, worded(base, shouted), true},
		"a number":                 {base, changed("room 57", "room 58"), false},
		"a number less":            {base, changed("in room 57", "in the room"), false},
		"a sign":                   {base, changed("room 57", "room -57"), false},
		"a decimal point":          {base, changed("room 57", "room 5.7"), false},
		"a digit of others":        {base, changed("room 57", "room ٥٧"), false},
		"a column of another year": {under("", "2018"), under("", "2019"), false},
		"under another heading":    {under("Canteen", ""), under("Garden", ""), true},
		"other words":              {text("a b c d e f"), text("a b c d e g"), false},
		"short":                    {text("Yes."), text("yes"), true},
		"short, another":           {text("Yes."), text("No."), false},
		"nothing":                  {text(""), text("…"), true},
		"without spaces":           {text("保証は二年です。"), text("保証は二年です"), true},
		"without spaces, another":  {text("保証は二年です。"), text("保証は三年です。"), false},
	} {
		assert.Equal(t, c.same, sketchOf(c.a).same(sketchOf(c.b)), name)
		assert.Equal(t, c.same, sketchOf(c.b).same(sketchOf(c.a)), name)
	}
}

func worded(c document.Chunk, text string) document.Chunk {
	c.Text = text
	return c
}
