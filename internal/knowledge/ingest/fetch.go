package ingest

import (
	"context"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"path"
	"time"

	"agentplatform/internal/core/docstate"
	"agentplatform/internal/knowledge/knowledge"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/egress"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/record"
	"agentplatform/internal/text/document"
)

// Limits of fetching a document.
const (
	fetchTime    = 30 * time.Second
	maxRedirects = 5
)

// Fetch gets documents from addresses that clients give. It checks each address, also those of redirects.
type Fetch struct {
	Policy egress.Policy
	Client interface { // of the policy; it follows no redirects
		Do(r *http.Request) (*http.Response, error)
	}
}

// get requests a document from its address, unless it is unchanged.
func (f Fetch) get(ctx context.Context, s catalog.Source) (*http.Response, error) {
	address := s.URL
	for range maxRedirects + 1 {
		u, err := knowledge.ParseURL(address)
		if err != nil {
			return nil, final(docstate.FetchFailed, "the address %s", err)
		}
		if f.Policy.CheckURL(u) != nil {
			return nil, final(docstate.URLForbidden, "the address, or a redirect from it, is not allowed")
		}
		response, err := f.ask(ctx, u, s)
		if err != nil {
			return nil, err
		}
		location := response.Header.Get("Location")
		if response.StatusCode < 300 || response.StatusCode == http.StatusNotModified || response.StatusCode > 399 ||
			location == "" {
			return response, nil
		}
		_ = response.Body.Close()
		next, err := u.Parse(location)
		if err != nil {
			return nil, final(docstate.FetchFailed, "the server redirects to an address that is not valid")
		}
		address = next.String()
	}
	return nil, final(docstate.FetchFailed, "the server redirects more than %d times", maxRedirects)
}

func (f Fetch) ask(ctx context.Context, u *url.URL, s catalog.Source) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, err
	}
	r.Header.Set("User-Agent", "agent-platform/1")
	r.Header.Set("Accept", "*/*")
	if s.ETag != "" {
		r.Header.Set("If-None-Match", s.ETag)
	}
	if s.Modified != "" {
		r.Header.Set("If-Modified-Since", s.Modified)
	}
	response, err := f.Client.Do(r)
	if errors.Is(err, egress.ErrForbidden) {
		return nil, final(docstate.URLForbidden, "the address, or a redirect from it, is not allowed")
	}
	if err != nil {
		failure, _ := egress.Plain(err)
		return nil, &trouble{code: docstate.FetchFailed, message: "the document could not be fetched: " +
			failure.Error(),
			cause: err}
	}
	return response, nil
}

// fetch gets the bytes of a document from its address.
func (w *work) fetch(ctx context.Context) error {
	ctx, cancel := w.Host.WithTimeout(ctx, fetchTime)
	defer cancel()
	known := w.d.Source
	if w.d.Ready.Number == 0 {
		known.ETag, known.Modified = "", ""
	}
	response, err := w.Fetch.get(ctx, known)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	switch code := response.StatusCode; {
	case code == http.StatusNotModified && w.d.Ready.Number > 0:
		return w.step(ctx, docstate.Unchanged{Claim: w.claim}, nil)
	case code == http.StatusOK:
		return w.receive(ctx, response)
	case code == http.StatusTooManyRequests || code >= 500:
		text := fmt.Sprintf("the document's server returned status %d", code)
		return &trouble{code: docstate.FetchFailed, message: text}
	default:
		return final(docstate.FetchFailed, "the document's server returned status %d; check the address", code)
	}
}

// receive stores the bytes of an answer.
func (w *work) receive(ctx context.Context, response *http.Response) error {
	received, err := w.Receive(ctx, w.d.Organization, w.d.ID, response.Body)
	if p, is := problem.As(err); is && p.Kind == problem.TooLarge {
		return final(docstate.TooLarge, "the document has more than %d MiB", knowledge.MaxBytes>>20)
	}
	if err != nil {
		return &trouble{code: docstate.FetchFailed, message: "the document could not be fetched completely", cause: err}
	}
	contentType := response.Header.Get("Content-Type")
	if !record.IsMediaType(contentType) {
		contentType = "application/octet-stream"
	}
	name := nameOf(response)
	return w.step(ctx, docstate.Advance{Claim: w.claim, To: docstate.Extracting},
		func(d *catalog.Document, tx *record.Tx) error {
			d.ContentType = contentType
			d.Source.Name = name
			d.Source.ETag = header(response, "ETag")
			d.Source.Modified = header(response, "Last-Modified")
			return w.TakeBytes(ctx, tx, d, received)
		})
}

// header is a header of an answer that is sent back later; empty when it is too long.
func header(r *http.Response, name string) string {
	if v := r.Header.Get(name); len(v) <= 200 {
		return v
	}
	return ""
}

// nameOf is the name of the file that an answer is.
func nameOf(r *http.Response) string {
	if _, params, err := mime.ParseMediaType(r.Header.Get("Content-Disposition")); err == nil &&
		params["filename"] != "" {
		return document.Cut(path.Base(params["filename"]), knowledge.MaxTitle)
	}
	if name := path.Base(r.Request.URL.Path); name != "." && name != "/" {
		return document.Cut(name, knowledge.MaxTitle)
	}
	return ""
}
