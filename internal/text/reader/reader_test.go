package reader_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/platform/host"
	"agentplatform/internal/store/blob"
	"agentplatform/internal/store/blob/memblob"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table/memtable"
	"agentplatform/internal/text/extract"
	"agentplatform/internal/text/reader"
)

// bucket is a store whose bytes have addresses.
type bucket struct {
	*memblob.Store

	url  string
	lost bool         // its bytes are missing for every request
	busy atomic.Int64 // requests that it refuses for the moment
}

func (b *bucket) PresignPut(
	context.Context, string, string, int64, time.Duration,
) (string, map[string]string, error) {
	return "", nil, errors.New("not here")
}

func (b *bucket) PresignGet(_ context.Context, key, _, _ string, _ time.Duration) (string, error) {
	return b.url + "/" + key + "?signature=secret", nil
}

func (b *bucket) Size(context.Context, string) (int64, error) { return 0, errors.New("not here") }

func (b *bucket) Get(ctx context.Context, key string) (io.ReadCloser, error) {
	if b.lost {
		return nil, blob.ErrMissing
	}
	return b.Store.Get(ctx, key)
}

// ServeHTTP answers as a bucket does.
func (b *bucket) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Query().Get("signature") != "secret" || strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	if b.busy.Add(-1) >= 0 {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	body, err := b.Get(r.Context(), strings.TrimPrefix(r.URL.Path, "/"))
	if err != nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	_, _ = io.Copy(w, body)
}

type stage struct {
	store  *record.Store
	bucket *bucket
	ways   map[string]reader.Text
}

func newStage(t *testing.T) *stage {
	machine := host.System()
	s := &stage{bucket: &bucket{Store: &memblob.Store{}}}
	served := httptest.NewServer(s.bucket)
	t.Cleanup(served.Close)
	s.bucket.url = served.URL
	s.store = record.New(memtable.New(machine.Now), s.bucket, machine)
	client := &reader.Client{Store: s.store, Invoke: invoke(&reader.Reader{HTTP: served.Client()})}
	s.ways = map[string]reader.Text{"here": reader.Here(s.store), "elsewhere": client.Text}
	return s
}

// invoke does what Lambda does with a function.
func invoke(r *reader.Reader) func(context.Context, []byte) ([]byte, error) {
	return func(ctx context.Context, ask []byte) ([]byte, error) {
		var request reader.TextRequest
		if err := json.Unmarshal(ask, &request); err != nil {
			return nil, err
		}
		answer, err := r.Read(ctx, request)
		if err != nil {
			return nil, err
		}
		return json.Marshal(answer)
	}
}

func (s *stage) file(t *testing.T, id, name, kind string, data []byte) record.FileRef {
	f := s.store.NewFile("o", "u", name, kind)
	f.ID = id
	_, err := record.Create(t.Context(), s.store, f, id)
	require.NoError(t, err)
	if data == nil {
		return f.Ref()
	}
	f, err = s.store.FillFile(t.Context(), record.Of("o"), id, bytes.NewReader(data), int64(len(data)))
	require.NoError(t, err)
	return f.Ref()
}

// Text and errors are the same for every reader.
func TestBothWaysReadTheSame(t *testing.T) {
	s := newStage(t)
	word, err := os.ReadFile("../extract/testdata/terms.docx")
	require.NoError(t, err)
	for name, c := range map[string]struct {
		file record.FileRef
		text string
		err  error
	}{
		"text": {file: s.file(t, "1", "a.txt", "text/plain", []byte("ünï <b>&</b> \u2028")),
			text: "ünï <b>&</b> \u2028"},
		"an empty file": {file: s.file(t, "2", "a.txt", "text/plain", []byte{})},
		"a long file": {file: s.file(t, "3", "a.txt", "text/plain", bytes.Repeat([]byte("a"), extract.MaxText+1)),
			text: strings.Repeat("a", extract.MaxText) + "\n[cut: the text is longer]"},
		"a Word document": {file: s.file(t, "4", "a.docx", "application/octet-stream", word), text: "Delivery"},
		"no document": {file: s.file(t, "5", "a.docx", "application/octet-stream", []byte("no document")),
			err: extract.Fault{Code: extract.Unreadable,
				Reason: "it is not a valid Word document: zip: not a valid zip file"}},
		"no text": {file: s.file(t, "6", "a.png", "image/png", []byte("\x89PNG\r\n\x1a\n\x00")),
			err: extract.ErrKind},
		"no such file": {file: record.FileRef{FileID: "9", Name: "a.txt"}, err: blob.ErrMissing},
		"no bytes yet": {file: s.file(t, "7", "a.txt", "text/plain", nil), err: blob.ErrMissing},
	} {
		for way, text := range s.ways {
			t.Run(name+" "+way, func(t *testing.T) {
				got, err := text(t.Context(), "o", c.file)
				require.ErrorIs(t, err, c.err)
				if c.text == "Delivery" {
					assert.Contains(t, got, c.text)
				} else {
					assert.Equal(t, c.text, got)
				}
			})
		}
	}
	s.bucket.lost = true
	for way, text := range s.ways {
		_, err := text(t.Context(), "o", record.FileRef{FileID: "1", Name: "a.txt"})
		require.ErrorIs(t, err, blob.ErrMissing, way)
	}
}

// A bucket that is busy for a moment does not cost an attempt.
func TestAFileIsFetchedAgain(t *testing.T) {
	s := newStage(t)
	f := s.file(t, "1", "a.txt", "text/plain", []byte("text"))
	s.bucket.busy.Store(3)
	text, err := s.ways["elsewhere"](t.Context(), "o", f)
	require.NoError(t, err)
	assert.Equal(t, "text", text)
	s.bucket.busy.Store(100)
	_, err = s.ways["elsewhere"](t.Context(), "o", f)
	require.ErrorContains(t, err, "503")
	assert.EqualValues(t, 96, s.bucket.busy.Load())
}

// An attempt that could not decide about the file may be repeated. Its error does not have the file's address.
func TestWhatFailsElsewhereIsTemporary(t *testing.T) {
	s := newStage(t)
	f := s.file(t, "1", "a.txt", "text/plain", []byte("text"))
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
	}))
	defer refusing.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for name, url := range map[string]string{"refused": refusing.URL, "unreachable": gone.URL, "none": "http://[::1"} {
		s.bucket.url = url
		_, err := s.ways["elsewhere"](t.Context(), "o", f)
		require.Error(t, err, name)
		require.NotErrorIs(t, err, blob.ErrMissing, name)
		_, is := errors.AsType[extract.Fault](err)
		assert.False(t, is, "%s: %v", name, err)
		assert.NotContains(t, err.Error(), "signature", name)
	}
	for _, answer := range []string{"", "[]", `{"text":1}`} {
		c := reader.Client{Store: s.store, Invoke: func(context.Context, []byte) ([]byte, error) {
			return []byte(answer), nil
		}}
		_, err := c.Text(t.Context(), "o", f)
		require.ErrorContains(t, err, "its answer is none", answer)
	}
}

// Files of a store without addresses, as on a laptop, cannot be read by another process.
func TestAStoreWithoutAddressesIsRefused(t *testing.T) {
	machine := host.System()
	s := &stage{store: record.New(memtable.New(machine.Now), &memblob.Store{}, machine)}
	c := reader.Client{Store: s.store}
	_, err := c.Text(t.Context(), "o", s.file(t, "1", "a.txt", "text/plain", []byte("text")))
	require.ErrorContains(t, err, "no addresses")
}
