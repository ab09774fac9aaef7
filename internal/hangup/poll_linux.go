package hangup

import (
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"
)

// New makes a watcher. The caller must close it.
func New() (Watcher, error) { return newPoll() }

// poll waits for all connections by one epoll instance, beside the one of the Go runtime, which itself waits for this
// one: an epoll instance can be read from when one of its connections can be.
type poll struct {
	epoll *os.File
	raw   syscall.RawConn
	ended chan struct{}

	mu   sync.Mutex
	last uint64
	of   map[uint64]*watched // nil when it is closed
}

// watched is a connection that is watched for one more event.
type watched struct {
	raw  syscall.RawConn
	gone func()
	sent int
}

func newPoll() (*poll, error) {
	fd, err := syscall.EpollCreate1(syscall.EPOLL_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("hangup: %w", err)
	}
	if err := syscall.SetNonblock(fd, true); err != nil { // for the runtime to wait for it
		_ = syscall.Close(fd)
		return nil, fmt.Errorf("hangup: %w", err)
	}
	p := &poll{epoll: os.NewFile(uintptr(fd), "epoll"), of: map[uint64]*watched{}, ended: make(chan struct{})}
	if p.raw, err = p.epoll.SyscallConn(); err != nil {
		_ = p.epoll.Close()
		return nil, fmt.Errorf("hangup: %w", err)
	}
	go p.wait()
	return p, nil
}

// once waits for one event: who has handled it asks for the next.
const once = syscall.EPOLLIN | syscall.EPOLLRDHUP | syscall.EPOLLONESHOT

func (p *poll) Watch(c net.Conn, gone func()) (stop func(), err error) {
	of, is := c.(syscall.Conn)
	if !is {
		return nil, errors.New("hangup: the connection has no file descriptor")
	}
	raw, err := of.SyscallConn()
	if err != nil {
		return nil, fmt.Errorf("hangup: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of == nil {
		return nil, ErrClosed
	}
	p.last++
	id := p.last
	p.of[id] = &watched{raw: raw, gone: gone}
	if err := p.control(syscall.EPOLL_CTL_ADD, raw, id); err != nil {
		delete(p.of, id)
		return nil, fmt.Errorf("hangup: %w", err)
	}
	return func() { p.forget(id, raw) }, nil
}

// control adds, changes or removes a connection. The caller holds the lock.
func (p *poll) control(op int, raw syscall.RawConn, id uint64) (failed error) {
	e := syscall.EpollEvent{Events: once}
	e.Fd, e.Pad = int32(uint32(id)), int32(uint32(id>>32)) //nolint:gosec // they are bits, for handle
	err := p.raw.Control(func(epoll uintptr) {
		err := raw.Control(func(fd uintptr) {
			failed = syscall.EpollCtl(int(epoll), op, int(fd), &e) //nolint:gosec // descriptors are small
		})
		failed = errors.Join(failed, err)
	})
	return errors.Join(failed, err)
}

func (p *poll) forget(id uint64, raw syscall.RawConn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.of[id] == nil {
		return
	}
	delete(p.of, id)
	_ = p.control(syscall.EPOLL_CTL_DEL, raw, id)
}

func (p *poll) Close() {
	p.mu.Lock()
	p.of = nil
	p.mu.Unlock()
	_ = p.epoll.Close()
	<-p.ended
}

// wait handles events until the epoll instance is closed.
func (p *poll) wait() {
	defer close(p.ended)
	var events [64]syscall.EpollEvent
	for {
		var n int
		var failed error
		err := p.raw.Read(func(fd uintptr) bool { // where none is left, the runtime tells of the next
			n, failed = syscall.EpollWait(int(fd), events[:], 0) //nolint:gosec // it is one
			return n != 0
		})
		if err == nil && errors.Is(failed, syscall.EINTR) {
			continue // there may be some: to wait for the next would be to miss them
		}
		if err != nil || failed != nil {
			return // it is closed
		}
		for _, e := range events[:n] {
			p.handle(uint64(uint32(e.Fd)) | uint64(uint32(e.Pad))<<32) //nolint:gosec // bits
		}
	}
}

// handle looks what has happened to a connection.
func (p *poll) handle(id uint64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.of[id]
	if w == nil { // it is not watched any more
		return
	}
	if w.stays() && p.control(syscall.EPOLL_CTL_MOD, w.raw, id) == nil {
		return
	}
	delete(p.of, id)
	_ = p.control(syscall.EPOLL_CTL_DEL, w.raw, id)
	w.gone()
}

// stays reads what there is, and reports whether the other side is still there.
func (w *watched) stays() bool {
	var b [512]byte
	var n int
	var failed error
	err := w.raw.Read(func(fd uintptr) bool {
		n, failed = syscall.Read(int(fd), b[:]) //nolint:gosec // it is one
		return true
	})
	switch {
	case err != nil:
		return false
	case errors.Is(failed, syscall.EAGAIN), errors.Is(failed, syscall.EINTR):
		return true
	case failed != nil, n == 0:
		return false
	}
	w.sent += n
	return w.sent <= maxSent
}
