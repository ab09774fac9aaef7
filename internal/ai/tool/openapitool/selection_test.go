package openapitool_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/ai/tool/openapitool"
)

const shop = `
openapi: 3.0.3
info: {title: Shop, version: "1"}
servers: [{url: "https://shop.example.com"}]
paths:
  /customers:
    get: {operationId: customers/list, tags: [customers]}
    post: {operationId: customers/create, tags: [customers, writes]}
  /customers/{id}:
    delete: {operationId: customers/delete, tags: [customers, writes]}
  /orders:
    get: {operationId: listOrders, tags: [orders]}
    post: {tags: [orders, writes]}
  /broken:
    get: {operationId: broken, parameters: [{$ref: "other.yaml#/x"}]}
`

func names(found []tool.Definition) string {
	var all []string
	for _, one := range found {
		all = append(all, one.Name)
	}
	return strings.Join(all, " ")
}

func TestASelectionChoosesOperations(t *testing.T) {
	for _, c := range []struct {
		include, exclude []string
		want             string
	}{
		{[]string{"tag:customers"}, nil, "customers_list customers_create customers_delete"},
		{[]string{"tag:*"}, []string{"tag:writes"}, "customers_list listOrders"},
		{[]string{"path:/customers*"}, []string{"customers/delete"}, "customers_list customers_create"},
		{[]string{"path:/customers"}, nil, "customers_list customers_create"},
		{[]string{"customers_list", "listOrders"}, nil, "customers_list listOrders"},
		{[]string{"customers/*"}, []string{"*delete"}, "customers_list customers_create"},
		{[]string{"*l*e*t*"}, nil, "customers_delete"},
		{[]string{"post/orders"}, nil, "post_orders"},
		{nil, []string{"broken", "path:/o*"}, "customers_list customers_create customers_delete"},
	} {
		found, err := (&openapitool.Kind{}).Discover(t.Context(), tool.Endpoint{Document: []byte(shop),
			Selection: tool.Selection{Include: c.include, Exclude: c.exclude},
			Requested: &tool.Selection{Include: c.include, Exclude: c.exclude}})
		require.NoError(t, err, "what is not chosen is not read")
		assert.ElementsMatch(t, strings.Fields(c.want), strings.Fields(names(found)), "%v %v", c.include, c.exclude)
	}
}

func TestAnEntryThatMatchesNothingIsNamed(t *testing.T) {
	for _, c := range []struct {
		include, exclude []string
		field, want      string
	}{
		{[]string{"tag:orders", "tag:order"}, nil, "include[1]", "there are customers, writes, orders"},
		{[]string{"tag:orders"}, []string{"path:/order"}, "exclude[0]", "there are /customers*, /orders*"},
		{[]string{"listorders"}, nil, "include[0]", `"listorders" matches nothing`},
		{[]string{"tag:"}, nil, "include[0]", "must be the id of an operation"},
		{[]string{"a", " b"}, nil, "include[1]", "must be the id of an operation"},
		{nil, []string{strings.Repeat("x", 301)}, "exclude[0]", "at most 300 bytes"},
		{make([]string, 101), nil, "include", "at most 100 entries"},
		{[]string{"tag:orders"}, []string{"*"}, "exclude", "leaves nothing"},
	} {
		_, err := (&openapitool.Kind{}).Discover(t.Context(), tool.Endpoint{Document: []byte(shop),
			Selection: tool.Selection{Include: c.include, Exclude: c.exclude},
			Requested: &tool.Selection{Include: c.include, Exclude: c.exclude}})
		var failure *tool.Error
		require.ErrorAs(t, err, &failure)
		assert.Equal(t, c.field, failure.Field)
		assert.Contains(t, failure.Message, c.want)
	}
}

// For a document with more operations than a toolkit may have, the error names ways to choose a part. The part is
// imported.
func TestAPartOfALargeDocumentIsImported(t *testing.T) {
	large := func(tags bool) []byte {
		tag := func(int) string { return "" }
		if tags {
			tag = func(i int) string { return fmt.Sprintf(`,"tags":["t%d"]`, i%20) }
		}
		var paths []string
		for i := range 1_200 {
			paths = append(paths, fmt.Sprintf(`"/v1/n%d/p%d":{"get":{"operationId":"o%d"%s}}`, i%30, i, i, tag(i)))
		}
		return []byte(`{"openapi":"3.1.0","servers":[{"url":"https://x"}],"paths":{` + strings.Join(paths, ",") + `}}`)
	}
	for want, raw := range map[string][]byte{`"tag:t0"`: large(true), `"path:/v1/n0*"`: large(false)} {
		_, err := (&openapitool.Kind{}).Discover(t.Context(), tool.Endpoint{Document: raw})
		require.ErrorContains(t, err, "over 500 operations (1200): choose some with include, for example")
		require.ErrorContains(t, err, want)
		found, err := (&openapitool.Kind{}).Discover(t.Context(), tool.Endpoint{Document: raw,
			Selection: tool.Selection{Include: []string{strings.Trim(want, `"`)}}})
		require.NoError(t, err, "the proposal works")
		assert.NotEmpty(t, found)
		assert.LessOrEqual(t, len(found), tool.MaxOffered)
		_, err = (&openapitool.Kind{}).Discover(t.Context(), tool.Endpoint{Document: raw,
			Selection: tool.Selection{Include: []string{"o*"}}})
		require.ErrorContains(t, err, "over 500 operations (1200)", "a part may be too large, too")
	}
}

// Servers of a path or an operation come before those of the document.
func TestAnOperationIsCalledAtItsOwnServer(t *testing.T) {
	found, err := (&openapitool.Kind{}).Discover(t.Context(), tool.Endpoint{Document: []byte(`{"openapi":"3.0.0",` +
		`"servers":[{"url":"https://a.example.com/v1"}],"paths":{"/x":{"servers":[{"url":"https://b.example.com"}],` +
		`"get":{},"put":{"servers":[{"url":"https://c.example.com"}]},"post":{"servers":[{"url":"{host}"}]}},` +
		`"/y":{"get":{}}}}`)})
	require.NoError(t, err)
	got := map[string]string{}
	for _, one := range found {
		got[one.Name] = one.Origin()
		assert.Equal(t, one.Name == "post_x", one.Problem != "", one.Problem)
	}
	assert.Equal(t, map[string]string{"get_x": "https://b.example.com", "put_x": "https://c.example.com",
		"post_x": "https://b.example.com", "get_y": "https://a.example.com"}, got)
}
