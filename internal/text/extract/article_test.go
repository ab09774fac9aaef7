package extract

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// site is a page with content, and with the parts that each page of its site has.
func site(content string) []byte {
	links := strings.Repeat(`<li><a href="/x">Another page of the shop</a></li>`, 200)
	return []byte(`<!doctype html><html lang="en"><head><title>Delivery</title></head><body>
		<header><h1>Delivery terms</h1></header><div class="sidebar"><ul>` + links + `</ul></div>
		<div class="content"><article>` + content + `</article></div>
		<div class="footer"><ul>` + links + `</ul></div></body></html>`)
}

func TestMainContentOfAPageIsRead(t *testing.T) {
	sentence := "The goods are delivered within ten days, if the customer has paid, and not on Sundays. "
	prose := strings.Repeat("<p>"+strings.Repeat(sentence, 4)+"</p>", 6)
	text, err := documentOf(t, "text/html", "", site(prose+"<h2>Returns</h2>"+prose))
	require.NoError(t, err)
	assert.NotContains(t, text.Body, "Another page")
	assert.Equal(t, 2*6*4, strings.Count(text.Body, strings.TrimSpace(sentence)))
	assert.True(t, strings.HasPrefix(outline(text), `h1 "Delivery terms"`), outline(text)[:60])
	assert.Contains(t, outline(text), `h2 "Returns"`)
	assert.Equal(t, "Delivery", text.Title)
	assert.Equal(t, "en", text.Language)
}

// People ask for things that look like clutter.
func TestNoContentOfAPageIsLost(t *testing.T) {
	sentence := "The goods are delivered within ten days, if the customer has paid. "
	prose := strings.Repeat("<p>"+strings.Repeat(sentence, 4)+"</p>", 6)
	for name, c := range map[string]struct{ content, want string }{
		"prices": {prose + `<div class="sidebar related"><ul><li>Parcel 4.90 €<li>Pallet 89 €</ul></div>`,
			"Pallet 89 €"},
		"a table": {prose + `<table class="sidebar"><tr><td>Zone<td>Days<tr><td>North<td>3<tr><td>South<td>5</table>`,
			"South\t5"},
		"questions": {prose + `<div class="sidebar comment"><h3>Who pays for the return?</h3><p>You do.</p></div>`,
			"Who pays for the return?"},
		"answers": {prose + `<div class="comments"><details><summary>Return</summary>Within a month.</details></div>`,
			"Within a month."},
		"terms": {prose + `<div class="popup"><dl><dt>Carrier<dd>Whoever carries the goods</dl></div>`,
			"Whoever carries"},
		"a form": {prose + `<form class="sidebar"><label>Name <input></label><label>Order number <input></label>` +
			`<label>Reason of the return <input></label></form>`, "Reason of the return"},
		"most of it": {`<p>Short.</p><div class="sidebar">` +
			strings.Repeat("<div>Opening hours on Monday: 9 to 17</div>", 9) + `</div>`, "Opening hours"},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := documentOf(t, "text/html", "", site(c.content))
			require.NoError(t, err)
			assert.Contains(t, text.Body, c.want)
		})
	}
}

// A page whose tree would be large is read without one.
func TestHugePageIsReadWhole(t *testing.T) {
	var many strings.Builder
	for i := range maxNamed + 1 {
		_, _ = fmt.Fprintf(&many, " a%d=b", i)
	}
	for name, page := range map[string]string{
		"elements":   strings.Repeat("<div>a", maxNodes) + "the end",
		"attributes": "<p" + many.String() + ">the end",
		"bytes":      "<p>" + strings.Repeat("a ", maxTree/2) + "the end",
		"depth":      strings.Repeat("<div>", 600) + "the end",
	} {
		done, err := readMain(page, &builder{most: forDocuments})
		require.NoError(t, err)
		assert.False(t, done, name)
		text, err := documentOf(t, "text/html", "", []byte(page))
		require.NoError(t, err)
		assert.Contains(t, text.Body, "the end")
	}
}
