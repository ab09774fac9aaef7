package model

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Without the cache, the schemas of all tools were read and mended with each call of a model.
func TestSchemasAreMendedOnce(t *testing.T) {
	var r Request
	for n := range 100 {
		r.Tools = append(r.Tools, ToolSpec{Parameters: json.RawMessage(fmt.Sprintf(
			`{"title":"%d","properties":{%s"$z":{"type":"array"}}}`, n, strings.Repeat(`"a":{"type":"string"},`, 20)))})
	}
	allocs := testing.AllocsPerRun(5, func() {
		for _, tool := range r.Sendable().Tools {
			tool.PlainNames()
		}
	})
	assert.Less(t, allocs, 1000.0)
}

func TestWhatIsRememberedOfSchemasIsBounded(t *testing.T) {
	var m mended
	itself := func(raw json.RawMessage) json.RawMessage { return raw }
	var all sync.WaitGroup
	for n := range 8 {
		all.Go(func() {
			for i := range 200 {
				raw := json.RawMessage(fmt.Sprintf(`{"title":"%d %d %s"}`, n, i/2, strings.Repeat("x", 10_000)))
				assert.Equal(t, string(raw), string(m.of(raw, itself)))
			}
		})
	}
	all.Wait()
	size := 0
	for raw, made := range m.known {
		size += len(raw) + len(made)
	}
	assert.Equal(t, size, m.size)
	assert.LessOrEqual(t, size, maxMended)
	assert.NotEmpty(t, m.known)
	large := json.RawMessage(strings.Repeat(" ", 70_000))
	assert.Equal(t, string(large), string(m.of(large, itself)))
	assert.Equal(t, size, m.size)
}
