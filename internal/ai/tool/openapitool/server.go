package openapitool

import (
	"cmp"
	"maps"
	"net/url"
	"slices"
	"strings"

	"agentplatform/internal/ai/tool"
)

// baseOf returns the base URL of operations: the toolkit's, or else that of the servers that level names. level is the
// document, a path or an operation. The URL may be relative to the address of the document.
func baseOf(e tool.Endpoint, d *document, level map[string]any) (string, error) {
	at := e.BaseURL
	if at == "" {
		var ok bool
		at, ok = d.server(e, level)
		if fault := d.cleared(); fault != nil {
			return "", fault
		}
		if !ok {
			return "", tool.Fail("the document's server is not a URL")
		}
	}
	at = cmp.Or(at, "/") // the standard's default where a document names no server
	u, err := url.Parse(at)
	if err != nil {
		return "", tool.Fail("the document's server %q is not a URL", tool.Clip(at, 100))
	}
	if !u.IsAbs() {
		from, err := url.Parse(e.URL)
		if err != nil || !from.IsAbs() {
			return "", tool.Fail("base_url is required: the document has no absolute server URL")
		}
		u = from.ResolveReference(u)
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return "", tool.Fail("the document's server must be an http or https URL")
	}
	if u.Host == "" || u.User != nil || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" ||
		strings.ContainsAny(at, `{}\`) {
		return "", tool.Fail("the document's server must be a URL of a host and a path, without open variables: " +
			"set it in base_url")
	}
	return strings.TrimSuffix(u.String(), "/"), nil
}

// server is the first server, with its variables filled in; empty where there is none.
func (d *document) server(e tool.Endpoint, level map[string]any) (at string, ok bool) {
	if d.swagger {
		return d.host(e)
	}
	servers := list(level["servers"])
	if len(servers) == 0 {
		return "", true
	}
	server := d.object(servers[0])
	at = text(server["url"])
	variables := d.object(server["variables"])
	if len(at) > maxAddress || len(variables) > maxVariables {
		return "", false
	}
	for _, name := range slices.Sorted(maps.Keys(variables)) {
		open, means := "{"+name+"}", text(d.object(variables[name])["default"])
		if len(at)+strings.Count(at, open)*len(means) > maxAddress {
			return "", false
		}
		at = strings.ReplaceAll(at, open, means)
	}
	return at, true
}
