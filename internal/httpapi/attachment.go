package httpapi

import (
	"io"
	"net/http"
	"strconv"
)

// SendBytes answers with bytes of others, as a file that a browser saves and does not interpret. A client that goes
// away meanwhile is no error.
func SendBytes(w http.ResponseWriter, contentType, disposition string, size int64, bytes io.Reader) error {
	header := w.Header()
	header.Set("Content-Type", contentType)
	header.Set("Content-Length", strconv.FormatInt(size, 10))
	header.Set("Content-Disposition", disposition)
	header.Set("X-Content-Type-Options", "nosniff")
	_, err := io.Copy(w, bytes)
	return IgnoreGone(err)
}
