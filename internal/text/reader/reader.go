// Package reader reads the text of the files of messages for the process that executes runs. It reads them in that
// process ([Here]) or, on AWS, in a function of its own ([Client] asks it, [Reader] answers).
//
// A reader of a hostile file may take hundreds of megabytes and a CPU. The function has them for the seconds that it
// takes. The worker, which waits for a model most of its time, needs a quarter of them. An attacker who takes over the
// reader by a file gets a program whose only right in AWS is to write logs. It reads one file after another, by
// presigned addresses.
//
// Both ways have the same results and errors; a suite checks that. Reading has no effects: it may be repeated.
//
// The package must not know runs, models or Lambda. It imports extract, problem, the port blob, and record for its
// files.
package reader

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/blob"
	"agentplatform/internal/store/record"
	"agentplatform/internal/text/extract"
)

// Text reads the text of a file of an organization, at most [extract.MaxText] bytes and a note. The error is an
// [extract.Fault] if the file has no text, and [blob.ErrMissing] if the file or its bytes are missing. Any other error
// is temporary: a retry may succeed.
type Text func(ctx context.Context, organization string, f record.FileRef) (string, error)

// Here reads files in child processes of this process. An organization's files wait for each other.
func Here(s *record.Store) Text {
	return func(ctx context.Context, organization string, f record.FileRef) (string, error) {
		return extract.Text(ctx, organization, extract.File{
			ContentType: f.ContentType, Name: f.Name,
			Open: func(ctx context.Context) (io.ReadCloser, error) {
				r, err := s.OpenFile(ctx, record.System(), f.FileID)
				return r, missing(err)
			},
		})
	}
}

// missing returns the error of missing bytes for a file that does not exist.
func missing(err error) error {
	if problem.Is(err, "not_found") {
		return blob.ErrMissing
	}
	return err
}

const (
	// Longest is how long a [Reader] takes for one file at most, including the compilation of the reader of PDFs.
	Longest = 90 * time.Second
	// patience is how long a [Client] waits: for a turn of its file, and then for the answer.
	patience = 2 * Longest
)

// TextRequest is a request of a [Client] for the text of a file.
type TextRequest struct {
	URL         string `json:"url"` // of its bytes, good for some minutes: it is all the right that the reader has
	ContentType string `json:"content_type"`
	Name        string `json:"name"`
}

// FileText is the answer: one of text, fault and missing. The text is bounded by [extract.MaxText].
type FileText struct {
	Text    string         `json:"text,omitempty"`
	Fault   *extract.Fault `json:"fault,omitempty"`
	Missing bool           `json:"missing,omitempty"` // there are no bytes
}

// Client reads files by a [Reader] in another process. Its store's bytes must have addresses ([blob.Direct]).
type Client struct {
	Store *record.Store
	// Invoke carries an [TextRequest] to the reader as JSON, and the [FileText] back. It may repeat it.
	Invoke func(ctx context.Context, ask []byte) (answer []byte, err error)
}

// Text is a [Text].
func (c *Client) Text(ctx context.Context, _ string, f record.FileRef) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	address, err := c.address(ctx, f)
	if err != nil {
		return "", err
	}
	ask, err := json.Marshal(TextRequest{URL: address, ContentType: f.ContentType, Name: f.Name})
	if err != nil {
		return "", err
	}
	raw, err := c.Invoke(ctx, ask)
	if err != nil {
		return "", fmt.Errorf("reader: %w", err)
	}
	var answer FileText
	if err := json.Unmarshal(raw, &answer); err != nil {
		return "", fmt.Errorf("reader: its answer is none: %w", err)
	}
	switch {
	case answer.Missing:
		return "", blob.ErrMissing
	case answer.Fault != nil:
		return "", *answer.Fault
	}
	return answer.Text, nil
}

func (c *Client) address(ctx context.Context, f record.FileRef) (string, error) {
	e, err := c.Store.File(ctx, record.System(), f.FileID)
	if err != nil {
		return "", missing(err)
	}
	if !e.Value.Uploaded {
		return "", blob.ErrMissing
	}
	at, is := c.Store.Blobs().(blob.Direct)
	if !is {
		return "", errors.New("reader: the store's bytes have no addresses")
	}
	return at.PresignGet(ctx, e.Value.BlobPrefix(), "", e.Value.ContentType, patience)
}

// Reader answers the requests of a [Client]. It is safe for concurrent use.
type Reader struct {
	HTTP *http.Client // fetches the bytes; it should follow no redirect
}

// Read reads one file. The error is temporary.
func (r *Reader) Read(ctx context.Context, request TextRequest) (FileText, error) {
	ctx, cancel := context.WithTimeout(ctx, Longest)
	defer cancel()
	text, err := extract.Text(ctx, "", extract.File{
		ContentType: request.ContentType, Name: request.Name,
		Open: func(ctx context.Context) (io.ReadCloser, error) { return r.open(ctx, request.URL) },
	})
	if errors.Is(err, blob.ErrMissing) {
		return FileText{Missing: true}, nil
	}
	if fault, is := errors.AsType[extract.Fault](err); is {
		return FileText{Fault: &fault}, nil
	}
	return FileText{Text: text}, err
}

// How often a file that cannot be fetched at the moment is requested, and the first pause, which doubles.
const (
	fetches = 4
	pause   = 100 * time.Millisecond
)

// open fetches a file.
func (r *Reader) open(ctx context.Context, address string) (io.ReadCloser, error) {
	for attempt := 0; ; attempt++ {
		body, again, err := r.fetch(ctx, address)
		if !again || attempt == fetches-1 {
			return body, err
		}
		select {
		case <-time.After(pause << attempt):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// fetch tries to fetch a file. again reports whether another attempt may succeed. Its errors do not have the address,
// which is a right to read the file.
func (r *Reader) fetch(ctx context.Context, address string) (body io.ReadCloser, again bool, err error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, false, errors.New("reader: the file's address is none")
	}
	q.Header.Set("Accept-Encoding", "identity") // its bytes as they are stored
	answer, err := r.HTTP.Do(q)
	if failed, is := errors.AsType[*url.Error](err); is {
		err = failed.Err
	}
	if err != nil {
		return nil, true, fmt.Errorf("reader: the file cannot be fetched: %w", err)
	}
	if answer.StatusCode == http.StatusOK {
		return answer.Body, false, nil
	}
	_ = answer.Body.Close()
	if answer.StatusCode == http.StatusNotFound {
		return nil, false, blob.ErrMissing
	}
	again = answer.StatusCode >= 500 || answer.StatusCode == http.StatusTooManyRequests
	return nil, again, fmt.Errorf("reader: the file's address answers %s", answer.Status)
}
