package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

const (
	callTime    = 2 * time.Minute  // of one request
	maxAnswer   = 32 << 20         // bytes of an answer
	maxAttempts = 6                // attempts of a request that is refused for now
	maxWait     = 30 * time.Second // between two attempts
	maxPages    = 1000             // of a list, of 100 rows each
	inForm      = 3 << 20          // bytes of a file in a form: a gateway takes 4 MiB with all other fields
)

// client calls the API with a key.
type client struct {
	base string
	key  string
	http *http.Client
}

func newClient(base, key string) *client {
	return &client{
		base: strings.TrimRight(base, "/"), key: key,
		http: &http.Client{Timeout: callTime, CheckRedirect: func(*http.Request, []*http.Request) error {
			return http.ErrUseLastResponse // the key goes nowhere else
		}},
	}
}

// refusal is a response of the API without a success status.
type refusal struct {
	status  int
	Code    string `json:"code"`
	Message string `json:"message"`
	Fields  []struct {
		Location string `json:"location"`
	} `json:"errors"` // of the request that are wrong
	wait time.Duration
}

func (r *refusal) Error() string {
	if r.Message == "" {
		return fmt.Sprintf("the API answered %d", r.status)
	}
	return fmt.Sprintf("%s (%d %s)", r.Message, r.status, r.Code)
}

// passing reports whether nothing was done and another attempt may succeed. It is false for a proxy's response, which
// has no code of the API: then that is not known.
func (r *refusal) passing() bool {
	return r.Code != "" && (r.status == http.StatusTooManyRequests || r.status == http.StatusServiceUnavailable)
}

// wrongField returns the field for which a request was refused. It is empty if the field is not known, or if there is
// no such error.
func wrongField(err error) string {
	r, refused := errors.AsType[*refusal](err)
	if !refused || r.status != http.StatusBadRequest || len(r.Fields) == 0 {
		return ""
	}
	return r.Fields[0].Location
}

// call sends JSON and decodes the response into into, if that is not nil. A request that is refused for now is sent
// again, at most maxAttempts times in all, until the context ends. The error is a *refusal if the API answered.
// Otherwise the API could not be reached, and it is not known whether it did the request.
func (c *client) call(ctx context.Context, method, path string, body, into any) error {
	var raw []byte
	if body != nil {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			return err
		}
	}
	return c.send(ctx, method, c.base+path, map[string]string{"Content-Type": "application/json"}, raw, into)
}

func (c *client) send(
	ctx context.Context, method, address string, header map[string]string, body []byte, into any,
) error {
	for attempt := 1; ; attempt++ {
		err := c.once(ctx, method, address, header, body, into)
		r, refused := errors.AsType[*refusal](err)
		if !refused || !r.passing() || attempt == maxAttempts {
			return err
		}
		timer := time.NewTimer(min(max(r.wait, time.Second), maxWait))
		select {
		case <-ctx.Done():
			timer.Stop()
			return fmt.Errorf("%w, and the time limit has passed", err)
		case <-timer.C:
		}
	}
}

func (c *client) once(
	ctx context.Context, method, address string, header map[string]string, body []byte, into any,
) error {
	r, err := http.NewRequestWithContext(ctx, method, address, bytes.NewReader(body))
	if err != nil {
		return err
	}
	for name, value := range header {
		r.Header.Set(name, value)
	}
	if strings.HasPrefix(address, c.base+"/") { // other addresses are signed ones, of the store
		r.Header.Set("Authorization", "Bearer "+c.key)
	}
	answer, err := c.http.Do(r)
	if outer, is := errors.AsType[*url.Error](err); is { // it has the address, which may be a signed one
		err = outer.Err
	}
	if err != nil {
		return fmt.Errorf("the API cannot be reached: %w", err)
	}
	defer func() { _ = answer.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer+1))
	if err != nil || len(raw) > maxAnswer {
		return errors.New("the API's response is incomplete or too long")
	}
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		refused := &refusal{status: answer.StatusCode}
		_ = json.Unmarshal(raw, refused) // the body of a proxy may be anything
		if seconds, err := strconv.Atoi(answer.Header.Get("Retry-After")); err == nil && seconds > 0 {
			refused.wait = time.Duration(min(seconds, int(maxWait.Seconds()))) * time.Second
		}
		return refused
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(raw, into); err != nil {
		return fmt.Errorf("the response of %s is not from this API: %w", method, err)
	}
	return nil
}

// list reads all pages of a list whose rows are in the member name.
func list[T any](ctx context.Context, c *client, path, name string) ([]T, error) {
	var all []T
	cursor := ""
	for range maxPages {
		query := url.Values{"limit": {"100"}}
		if cursor != "" {
			query.Set("cursor", cursor)
		}
		var page map[string]json.RawMessage
		if err := c.call(ctx, http.MethodGet, path+"?"+query.Encode(), nil, &page); err != nil {
			return nil, err
		}
		var rows []T
		if err := json.Unmarshal(page[name], &rows); err != nil {
			return nil, fmt.Errorf("the list of %s is not from this API: %w", name, err)
		}
		all = append(all, rows...)
		var next *string
		if err := json.Unmarshal(page["next_cursor"], &next); err != nil || next == nil {
			return all, err
		}
		cursor = *next
	}
	return nil, fmt.Errorf("there are more than %d %s", maxPages*100, name)
}

// document is a document as the API returns it.
type document struct {
	ID     string `json:"document_id"`
	Status string `json:"status"` // pending, processing, ready or failed
	Error  string `json:"error"`
}

// upload adds a document to a knowledge base. If the same content is there already, it returns that document.
func (c *client) upload(
	ctx context.Context, base, name, title string, metadata map[string]any, content []byte,
) (made document, err error) {
	path := "/knowledge-bases/" + base + "/documents"
	if len(content) > inForm {
		var id string
		if id, err = c.file(ctx, name, content); err != nil {
			return made, err
		}
		return made, c.call(ctx, http.MethodPost, path,
			map[string]any{"file_id": id, "title": title, "metadata": metadata}, &made)
	}
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	encoded, err := json.Marshal(metadata)
	if err != nil {
		return made, err
	}
	err = errors.Join(form.WriteField("title", title), form.WriteField("metadata", string(encoded)))
	part, failed := form.CreateFormFile("file", name)
	if err = errors.Join(err, failed); err == nil {
		_, err = part.Write(content)
	}
	if err = errors.Join(err, form.Close()); err != nil {
		return made, err
	}
	return made, c.send(ctx, http.MethodPost, c.base+path,
		map[string]string{"Content-Type": form.FormDataContentType()}, body.Bytes(), &made)
}

// file sends a large file to the address that the API returns, and returns its id.
func (c *client) file(ctx context.Context, name string, content []byte) (string, error) {
	var made struct {
		ID     string `json:"file_id"`
		Upload *struct {
			URL     string            `json:"url"`
			Method  string            `json:"method"`
			Headers map[string]string `json:"headers"`
		} `json:"upload"`
	}
	if err := c.call(ctx, http.MethodPost, "/files", map[string]any{
		"name": name, "size": len(content), "purpose": "document",
	}, &made); err != nil {
		return "", err
	}
	if made.Upload == nil {
		return "", errors.New("the API returned no upload address for the file")
	}
	address := made.Upload.URL
	own := "/files/" + made.ID + "/content"
	if u, err := url.Parse(address); err == nil && u.RawQuery == "" && strings.HasSuffix(u.Path, own) {
		address = c.base + own // it is the API's, which may be reached from here by another address than it knows
	}
	return made.ID, c.send(ctx, made.Upload.Method, address, made.Upload.Headers, content, nil)
}
