package httpapi

import (
	"errors"
	"net/http"
	"time"
)

// answer is the answer to a request. Its head goes out with its first bytes: until then the answer can still become an
// error. The client must go on reading it, and it ends when there is no room for it. A refusal closes the connection if
// the request's body has not come.
type answer struct {
	http.ResponseWriter

	server *Server
	call   *Call
	to     *http.ResponseController

	status  int  // 0: not known yet
	held    bool // the head has not gone out
	full    bool // there was no room for a piece of it
	refused bool // the client has the reason
}

func (w *answer) writeBy(t time.Time) { _ = w.server.writeBy(w.call, w.to, t) } // not every writer has a deadline

func (w *answer) WriteHeader(status int) {
	if w.status >= 200 {
		return // it has been answered, and the answer broke off
	}
	if w.status, w.held = status, status >= 200; !w.held {
		w.ResponseWriter.WriteHeader(status)
	}
}

// send sends the head of the answer, once.
func (w *answer) send() {
	if w.status < 200 {
		w.WriteHeader(http.StatusOK)
	}
	if !w.held {
		return
	}
	w.held = false
	if w.status >= 400 && w.call.body.isComing() {
		w.call.body.hangUp(w)
	}
	w.writeBy(time.Now().Add(w.server.Stall))
	w.ResponseWriter.WriteHeader(w.status)
}

// retract withdraws an answer that has not gone out, so that another one can take its place. It reports whether it has.
func (w *answer) retract() bool {
	if !w.held && w.status >= 200 {
		return false
	}
	w.status, w.held = 0, false
	for _, name := range []string{"Content-Length", "Content-Disposition", "Etag"} {
		w.Header().Del(name)
	}
	return true
}

var errFull = errors.New("httpapi: there is no room for the answer")

// pieceSize is how much of an answer a client must take within its time.
const pieceSize = 256 << 10

// Write takes room for b until the client has read it. Where there is no room, and nothing of the answer has gone out,
// the client receives the reason.
func (w *answer) Write(b []byte) (n int, err error) {
	if w.full {
		return 0, errFull
	}
	give, err := w.server.roomFor(w.call, len(b))
	if err != nil {
		if w.refused = w.retract(); w.refused {
			fail(w.server.Log, w, w.call, err)
		}
		w.full = true
		return 0, errFull
	}
	defer give()
	w.send()
	for first := true; err == nil && (first || len(b) > 0); first = false {
		piece := b[:min(len(b), pieceSize)]
		b = b[len(piece):]
		w.writeBy(time.Now().Add(w.server.Stall))
		var taken int
		taken, err = w.ResponseWriter.Write(piece)
		n += taken
	}
	return n, err
}

// FlushError sends the bytes so far. Until the next write there is no deadline then: over HTTP/2 a deadline would end a
// silent stream.
func (w *answer) FlushError() error {
	w.send()
	if err := w.to.Flush(); err != nil {
		return err
	}
	w.writeBy(time.Time{})
	return nil
}

// Unwrap lets http.ResponseController through.
func (w *answer) Unwrap() http.ResponseWriter { return w.ResponseWriter }
