// Package hangup tells when the other side of a connection has closed it, of connections that nobody reads.
//
// One goroutine waits for all of them, by epoll, which Linux alone has. What the other side sends is thrown away, up to
// a bound.
//
// The package must not know what is said on the connections. It imports only the standard library.
package hangup

import (
	"errors"
	"net"
)

// maxSent is how many bytes the other side may send to nobody before it counts as gone.
const maxSent = 64 << 10

// ErrClosed is the error of a watcher that is closed.
var ErrClosed = errors.New("hangup: the watcher is closed")

// Watcher watches connections. It is safe for concurrent use.
type Watcher interface {
	// Watch has gone called once, from another goroutine, when the other side has closed the connection, or only the
	// direction towards here, when the connection has failed, or when more came than anybody may send. gone must return
	// at once, and call nothing of the watcher. From now on until stop was called nobody else may read from the
	// connection or set the deadline of reads; stop must be called before it is closed. After stop gone is called no
	// more.
	Watch(c net.Conn, gone func()) (stop func(), err error)
	// Close ends the watching of all connections, of which nothing is told any more.
	Close()
}
