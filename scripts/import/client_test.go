package main

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// answers is a transport that returns these statuses in turn, then the last one for ever. It counts the requests.
type answers struct {
	statuses []int
	requests int
	keys     []string
}

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	status := a.statuses[min(a.requests, len(a.statuses)-1)]
	a.requests++
	a.keys = append(a.keys, r.Header.Get("Authorization"))
	return &http.Response{
		StatusCode: status, Header: http.Header{"Retry-After": {"7"}}, Request: r,
		Body: io.NopCloser(strings.NewReader(`{"code":"c","message":"m"}`)),
	}, nil
}

func TestWhatIsRefusedForNowIsSentAgain(t *testing.T) {
	for name, c := range map[string]struct {
		statuses []int
		requests int
		waited   time.Duration
		wantErr  string
	}{
		"once busy":      {[]int{503, 429, 200}, 3, 14 * time.Second, ""},
		"busy for good":  {[]int{429}, maxAttempts, 35 * time.Second, "m (429 c)"},
		"wrong":          {[]int{400}, 1, 0, "m (400 c)"},
		"leads away":     {[]int{307}, 1, 0, "m (307 c)"},
		"outcome unsure": {[]int{500}, 1, 0, "m (500 c)"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				api := &answers{statuses: c.statuses}
				client := newClient("http://api.example/api/v1/", "k")
				client.http.Transport = api
				began := time.Now()
				err := client.call(t.Context(), http.MethodPost, "/agents", map[string]any{}, nil)
				assert.Equal(t, c.waited, time.Since(began))
				assert.Equal(t, c.requests, api.requests)
				if c.wantErr == "" {
					require.NoError(t, err)
				} else {
					require.EqualError(t, err, c.wantErr)
				}
				assert.Equal(t, "Bearer k", api.keys[0])
			})
		})
	}
}

func TestWaitingEndsWithTheTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client := newClient("http://api.example/api/v1", "k")
		client.http.Transport = &answers{statuses: []int{503}}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		assert.ErrorContains(t, client.call(ctx, http.MethodGet, "/agents", nil, nil), "the time limit has passed")
	})
}

// The key is for the API alone. The store for large files, and servers with a similar name, do not receive it.
func TestTheKeyGoesToTheAPIAlone(t *testing.T) {
	for address, want := range map[string]string{
		"http://api.example/api/v1/files/1/content": "Bearer k",
		"http://bucket.example/api/v1/files/1":      "",
		"http://api.example/api/v1.evil.example/":   "",
	} {
		api := &answers{statuses: []int{200}}
		client := newClient("http://api.example/api/v1", "k")
		client.http.Transport = api
		require.NoError(t, client.send(t.Context(), http.MethodPut, address, nil, nil, nil))
		assert.Equal(t, []string{want}, api.keys, address)
	}
}

// uploads is a transport of an API that returns an address for a file's content.
type uploads struct {
	at   string
	sent []string // address and key of each content
}

func (u *uploads) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method == http.MethodPut {
		u.sent = append(u.sent, r.URL.String()+" "+r.Header.Get("Authorization"))
	}
	return &http.Response{StatusCode: http.StatusOK, Request: r, Body: io.NopCloser(strings.NewReader(
		`{"file_id":"f1","upload":{"method":"PUT","url":"` + u.at + `"}}`))}, nil
}

// The API builds its own addresses for clients from outside. A client that reaches it at another address goes on there.
// A signed address of a store is used unchanged.
func TestContentGoesWhereTheClientReachesTheAPI(t *testing.T) {
	const signed = "https://bucket.example/o/files/f1/content?X-Amz-Signature=1"
	const own = "http://127.0.0.1:8080/api/v1/files/f1/content Bearer k"
	for at, want := range map[string]string{
		"https://agents.example/api/v1/files/f1/content":       own,
		"https://agents.example/below/api/v1/files/f1/content": own,
		"https://agents.example/api/v1/files/f2/content":       "https://agents.example/api/v1/files/f2/content ",
		signed: signed + " ",
	} {
		api := &uploads{at: at}
		client := newClient("http://127.0.0.1:8080/api/v1", "k")
		client.http.Transport = api
		_, err := client.file(t.Context(), "a.txt", []byte("x"))
		require.NoError(t, err)
		assert.Equal(t, []string{want}, api.sent)
	}
}
