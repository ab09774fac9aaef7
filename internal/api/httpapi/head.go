package httpapi

import "net/http"

// headHeld keeps the head of an answer until its first bytes: until then the answer can still become an error.
func headHeld(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		out := &heldHead{ResponseWriter: w}
		callOf(r.Context()).answer = out
		next.ServeHTTP(out, r)
		out.send()
	})
}

// heldHead is an answer whose head goes out with its first bytes.
type heldHead struct {
	http.ResponseWriter

	status int  // 0: not known yet
	held   bool // the head has not gone out
}

func (w *heldHead) WriteHeader(status int) {
	if w.status >= 200 {
		return // it has been answered, and the answer broke off
	}
	if w.status, w.held = status, status >= 200; !w.held {
		w.ResponseWriter.WriteHeader(status)
	}
}

// send sends the head of the answer, once.
func (w *heldHead) send() {
	if w.status < 200 {
		w.WriteHeader(http.StatusOK)
	}
	if w.held {
		w.held = false
		w.ResponseWriter.WriteHeader(w.status)
	}
}

func (w *heldHead) Write(b []byte) (int, error) {
	w.send()
	return w.ResponseWriter.Write(b)
}

// FlushError sends what there is.
func (w *heldHead) FlushError() error {
	w.send()
	return http.NewResponseController(w.ResponseWriter).Flush()
}

// retract takes back an answer that has not gone out, so that another one can take its place. It reports whether it
// has.
func (w *heldHead) retract() bool {
	if !w.held && w.status >= 200 {
		return false
	}
	w.status, w.held = 0, false
	for _, name := range []string{"Content-Length", "Content-Disposition", "Etag"} {
		w.Header().Del(name)
	}
	return true
}

// Unwrap lets http.ResponseController through.
func (w *heldHead) Unwrap() http.ResponseWriter { return w.ResponseWriter }
