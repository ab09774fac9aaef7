package scenario

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// A redirect to an address of another port, such as a store on the same machine, is followed without the key. The
// response is that of the new address.
func TestAPresignedAddressIsReadWithoutTheKey(t *testing.T) {
	bucket := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "" || r.URL.RawQuery != "signed" {
			w.WriteHeader(http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Disposition", "attachment")
		_, _ = io.WriteString(w, "the bytes")
	}))
	t.Cleanup(bucket.Close)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		assert.Equal(t, "Bearer key", r.Header.Get("Authorization"))
		http.Redirect(w, r, bucket.URL+"/key?signed", http.StatusTemporaryRedirect)
	}))
	t.Cleanup(api.Close)
	x := &Actor{T: t, world: World{URL: api.URL}, Key: "key"}
	a := x.get("/content").is(200)
	require.Equal(t, "the bytes", a.raw)
	assert.Equal(t, "attachment", a.header.Get("Content-Disposition"))
}
