package httpapi

import (
	"io"
	"net/http"
	"strconv"

	"github.com/danielgtaylor/huma/v2"
)

// Content is bytes of others, or where they are.
type Content struct {
	URL         string        // an address at which the client reads them itself; empty: they are Bytes
	Bytes       io.ReadCloser // Send closes it
	Size        int64         // of Bytes
	Type        string
	Disposition string // attachment: a browser saves it as a file; empty: none
}

// Send answers with a redirect to the address, or with the bytes. A browser does not interpret the bytes as anything
// except their declared type. A client that goes away meanwhile is not an error.
func (c Content) Send(w http.ResponseWriter, r *http.Request) error {
	if c.URL != "" { // a function's answer is small, and its gateway garbles binary data
		http.Redirect(w, r, c.URL, http.StatusTemporaryRedirect)
		return nil
	}
	defer func() { _ = c.Bytes.Close() }()
	header := w.Header()
	header.Set("Content-Type", c.Type)
	header.Set("Content-Length", strconv.FormatInt(c.Size, 10))
	if c.Disposition != "" {
		header.Set("Content-Disposition", c.Disposition)
	}
	header.Set("X-Content-Type-Options", "nosniff")
	_, _ = io.Copy(w, c.Bytes)
	return nil
}

// Elsewhere is the redirect of [Content.Send] as the document has it.
func Elsewhere() *huma.Response {
	return &huma.Response{
		Description: "The same content at an address that is valid for some minutes and needs no Authorization",
		Headers: map[string]*huma.Param{
			"Location": {Required: true, Schema: &huma.Schema{Type: "string", Format: "uri"}},
		},
	}
}

// AnyBytes is the content of [Content.Send] as the document has it: bytes of any type. Makers of clients know
// application/octet-stream, and not every one of them knows */*.
func AnyBytes() map[string]*huma.MediaType {
	kinds := map[string]*huma.MediaType{}
	for _, kind := range []string{"*/*", "application/octet-stream"} {
		kinds[kind] = &huma.MediaType{Schema: &huma.Schema{Type: "string", Format: "binary"}}
	}
	return kinds
}
