package httpapi

import (
	"errors"
	"net/http"
	"time"
)

// watcher remembers the status that was answered, and gives the client its time to take each piece of the answer.
type watcher struct {
	http.ResponseWriter
	refuse   func() // is called before a refusal goes out
	room     func(n int) (give func(), err error)
	instead  func(error) // writes that there is no room
	status   int
	waits    bool // the head has not gone out yet: it does with the first bytes
	full     bool // there was no room for the answer
	stall    time.Duration
	deadline func(time.Time) error // not every writer has one
}

func (w *watcher) WriteHeader(status int) {
	if w.status >= 200 {
		return // it has been answered, and the answer broke off
	}
	if status < 200 {
		w.status = status
		w.ResponseWriter.WriteHeader(status)
		return
	}
	w.status, w.waits = status, true
}

// begin sends the head of the answer, once.
func (w *watcher) begin() {
	if w.status < 200 {
		w.WriteHeader(http.StatusOK)
	}
	if !w.waits {
		return
	}
	if w.waits = false; w.status >= 400 {
		w.refuse()
	}
	_ = w.deadline(time.Now().Add(w.stall))
	w.ResponseWriter.WriteHeader(w.status)
}

// FlushError sends what there is. Until the next write there is no deadline then: over HTTP/2 it would end a silent
// stream.
func (w *watcher) FlushError() error {
	w.begin()
	if err := http.NewResponseController(w.ResponseWriter).Flush(); err != nil {
		return err
	}
	_ = w.deadline(time.Time{})
	return nil
}

// pieceSize is how much of an answer a client must take within its time.
const pieceSize = 256 << 10

var errFull = errors.New("httpapi: there is no room for the answer")

func (w *watcher) Write(b []byte) (n int, err error) {
	if w.full {
		return 0, errFull
	}
	give, err := w.room(len(b)) // it is held until the client has taken it
	if err != nil {
		w.giveUp(err)
		return 0, errFull
	}
	defer give()
	w.begin()
	for first := true; err == nil && (first || len(b) > 0); first = false {
		piece := b[:min(len(b), pieceSize)]
		b = b[len(piece):]
		_ = w.deadline(time.Now().Add(w.stall))
		var taken int
		taken, err = w.ResponseWriter.Write(piece)
		n += taken
	}
	return n, err
}

// giveUp ends an answer for which there is no room; where nothing of it has gone out, the client is answered why.
func (w *watcher) giveUp(why error) {
	if w.waits || w.status < 200 {
		w.status, w.waits = 0, false
		for _, name := range []string{"Content-Length", "Content-Disposition", "Etag"} {
			w.Header().Del(name)
		}
		w.instead(why)
	}
	w.full = true
}

// Unwrap lets http.ResponseController through.
func (w *watcher) Unwrap() http.ResponseWriter { return w.ResponseWriter }
