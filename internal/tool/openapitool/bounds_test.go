package openapitool_test

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"agentplatform/internal/tool"
	"agentplatform/internal/tool/openapitool"
)

// told is the size of the tools found, in bytes.
func told(found []tool.Definition) (bytes int) {
	for _, one := range found {
		bytes += len(one.Name) + len(one.Description) + len(one.Parameters) + len(one.Binding)
	}
	return bytes
}

// repeated formats each number below n, separated by commas.
func repeated(n int, format string) string {
	all := make([]string, n)
	for i := range all {
		all[i] = strings.ReplaceAll(format, "@", fmt.Sprint(i))
	}
	return strings.Join(all, ",")
}

// operated is a document with the given number of paths, all with the same operation, and the given servers and
// components.
func operated(paths int, operation, server, components string) []byte {
	return []byte(
		`{"openapi":"3.1.0","info":{},"servers":[` + server + `],` +
			`"components":{` + components + `,"pathItems":{"P":{"post":` + operation + `}}},
		"paths":{` + repeated(
			paths,
			`"/p@":{"$ref":"#/components/pathItems/P"}`,
		) + `}}`,
	)
}

// A short document may expand to a thousand times its size: the size of what is found is limited whatever the
// document, and so is the memory that finding it takes.
func TestTheSizeOfToolsIsLimitedWhateverTheDocument(t *testing.T) {
	long := strings.Repeat("x", 150_000)
	bodyOf := func(schema string) string {
		return `{"requestBody":{"content":{"application/json":{"schema":` + schema + `}}}}`
	}
	properties := bodyOf(
		`{"type":"object","properties":{` + repeated(1_900, `"p@":{"$ref":"#/components/schemas/B"}`) + `}}`,
	)
	home := `{"url":"https://example.com"}`
	with := func(schema string) []byte { return operated(10, properties, home, `"schemas":{"B":`+schema+`}`) }
	parameters := func(name, in string) string {
		return `{"parameters":[` + repeated(200, `{"name":"`+name+`","in":"`+in+`"}`) + `]}`
	}
	for name, raw := range map[string][]byte{
		"a type that is long":             with(`{"type":"` + long + `"}`),
		"one type of a list that is long": with(`{"type":["` + long + `"]}`),
		"a type that is a tree":           with(`{"type":["string",{"a":["` + long + `"]}]}`),
		"a type that is nullable": with(`{"type":["string"` + strings.Repeat(`,"x"`, 30_000) +
			`],"nullable":true}`),
		"a format that is long":       with(`{"format":"` + long + `"}`),
		"a minimum that is long":      with(`{"minimum":` + strings.Repeat("1", 150_000) + `}`),
		"what is required of nothing": with(`{"required":[` + repeated(1_000, `"p@"`) + `]}`),
		"what only the server says":   with(`{"properties":{` + repeated(1_000, `"p@":{"readOnly":true}`) + `}}`),
		"a property with a long name": with(`{"properties":{"` + long + `":{}}}`),
		"a place that is long":        operated(400, parameters("body", long[:1_000]), home, `"schemas":{}`),
		"parameters with long names":  operated(400, parameters(long[:1_500]+"@", "query"), home, `"schemas":{}`),
		"a body of a long kind": operated(400, `{"requestBody":{"content":{"a/`+long+`+json":{}}}}`, home,
			`"schemas":{}`),
		"an operation with a long name": operated(400, `{"operationId":"`+strings.Repeat("-.", 500_000)+`"}`, home,
			`"schemas":{}`),
		"a long description of all": operated(400, `{"summary":"`+long+`","description":"`+long+`y"}`, home,
			`"schemas":{}`),
		"schemas that are all large": operated(400,
			bodyOf(`{"properties":{`+repeated(200, `"p@":{"description":"`+long[:200]+`"}`)+`}}`), home,
			`"schemas":{}`),
		"a path that grows": []byte(`{"openapi":"3.1.0","info":{},"servers":[` + home + `],"paths":{"/` +
			strings.Repeat("{x}", 600) + `":{"get":{"parameters":[` +
			`{"name":"x","in":"query"},{"name":"x","in":"path"},` +
			repeated(190, `{"name":"`+"path_!"+`x","in":"path"}`) + `]}}}}`),
		"a server that grows": operated(1, `{}`,
			`{"url":"`+strings.Repeat("{a}", 600)+`","variables":{"a":{"default":"`+long+`"}}}`, `"schemas":{}`),
		"a server that doubles": operated(1, `{}`, `{"url":"{v100}","variables":{`+
			strings.Join(doubling(24), ",")+`}}`, `"schemas":{}`),
	} {
		t.Run(name, func(t *testing.T) {
			raw := []byte(grown(string(raw)))
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			found, err := (&openapitool.Kind{}).Discover(t.Context(), tool.Endpoint{Document: raw})
			runtime.ReadMemStats(&after)
			if err != nil {
				var refused *tool.Error
				assert.ErrorAs(t, err, &refused)
				assert.Less(t, len(err.Error()), 2*tool.EnoughText)
			}
			assert.LessOrEqual(t, told(found), openapitool.MaxTold)
			if !raced() { // under the race detector, sync.Pool drops values
				allocated := int(after.TotalAlloc - before.TotalAlloc)
				assert.Less(t, allocated, 10*openapitool.MaxTold, "bytes that reading %d bytes took", len(raw))
			}
		})
	}
}

func raced() bool {
	info, _ := debug.ReadBuildInfo()
	return slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// doubling makes server variables each of which contains the next one twice.
func doubling(n int) (list []string) {
	for i := range n {
		list = append(list, fmt.Sprintf(`"v%d":{"default":"{v%d}{v%d}"}`, 100+i, 101+i, 101+i))
	}
	return list
}

// grown gives each parameter of a path the name that the previous one was renamed to.
func grown(document string) string {
	for n := 1; strings.Contains(document, "path_!"); n++ {
		document = strings.Replace(document, "path_!", strings.Repeat("path_", n), 1)
	}
	return document
}
