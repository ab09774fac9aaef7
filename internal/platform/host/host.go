// Package host is what a use case needs from its machine: time, identifiers, randomness and goroutines.
//
// Use cases take a Host. They use neither the clock of package time nor the go statement. So the simulator can run them
// in virtual time with exactly one goroutine awake. The package must not know what a run is. It imports the standard
// library, and errgroup for adapters.
package host

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Host is the machine as a use case sees it. It is safe for concurrent use.
type Host interface {
	// Now is the wall clock in UTC, truncated to milliseconds. So a stored time equals the time in memory.
	Now() time.Time
	// Elapsed is a monotonic clock. Only differences are meaningful; adjustments of the wall clock do not change it.
	Elapsed() time.Duration
	// Sleep waits for d, or until ctx ends: then it returns ctx's error.
	Sleep(ctx context.Context, d time.Duration) error
	// WithTimeout is context.WithTimeout on this host's clock.
	WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc)
	// Go starts f in a goroutine that the caller owns: wait returns when f has returned. If f panics, wait panics
	// with a [*Panic].
	Go(f func()) (wait func())
	// Gate makes a gate: wait returns once open was called. open may be called more than once.
	Gate() (open, wait func())
	// NewID makes an identifier: 24 lower-case hex digits, of which the first 8 are the creation time in seconds.
	// Identifiers ascend within a process.
	NewID() string
	// Int64N returns a random number in [0, n).
	Int64N(n int64) int64
}

// All runs the functions in parallel and returns when all have returned. If any panicked, it then panics with the
// first [*Panic].
func All(h Host, fs ...func()) {
	waits := make([]func(), 0, len(fs))
	for _, f := range fs {
		waits = append(waits, h.Go(f))
	}
	Wait(waits...)
}

// Wait waits for goroutines by the functions that Go returned. If any panicked, it then panics with the first
// [*Panic].
func Wait(waits ...func()) {
	var died *Panic
	for _, wait := range waits {
		if p := Catch(wait); died == nil {
			died = p
		}
	}
	died.Again()
}

// Panic is a recovered panic, usually of a goroutine, for its owner. It is an error.
type Panic struct {
	Value any
	Stack []byte
}

func (p *Panic) Error() string { return fmt.Sprintf("panic: %v", p.Value) }

// Again panics with p in the owner's goroutine. It does nothing if p is nil.
func (p *Panic) Again() {
	if p != nil {
		panic(p)
	}
}

// Catch calls f and returns its panic, or nil. A [*Panic] of another goroutine keeps its stack.
func Catch(f func()) (p *Panic) {
	defer func() {
		switch v := recover().(type) {
		case nil:
		case *Panic:
			p = v
		default:
			p = &Panic{Value: v, Stack: debug.Stack()}
		}
	}()
	f()
	return nil
}

// OutOfTime reports whether a context of WithTimeout has ended by its own limit, and not because its parent ended. The
// limited one is checked first, since the parent may end at any moment, and ends both.
func OutOfTime(limited, outer context.Context) bool {
	return limited.Err() != nil && outer.Err() == nil
}

// Trusted is the part of a lease or claim that its holder may rely on: five sixths. The lease ends by the clock of the
// process that checks it. That clock may be ahead of the holder's by the rest (5 s of 30 s).
func Trusted(d time.Duration) time.Duration { return d - d/6 }

// Jitter returns a random duration in [0, d), for back-off with full jitter; 0 if d is not positive.
func Jitter(h Host, d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	return time.Duration(h.Int64N(int64(d)))
}

// ValidID reports whether s has the form of an identifier.
func ValidID(s string) bool {
	return len(s) == 24 && strings.Trim(s, "0123456789abcdef") == ""
}

// TimeOf is the creation time of an identifier, in seconds, or the zero time if id is not an identifier.
func TimeOf(id string) time.Time {
	if !ValidID(id) {
		return time.Time{}
	}
	seconds, _ := strconv.ParseUint(id[:8], 16, 32)
	return time.Unix(int64(seconds), 0).UTC() //nolint:gosec // 32 bits fit
}

// After returns an identifier that ends with the last twelve digits of another one, which are random. A search for
// those digits in logs and traces finds both. An id without such digits is returned unchanged.
func After(id, other string) string {
	if !ValidID(id) || !ValidID(other) {
		return id
	}
	return id[:12] + other[12:]
}

// FormatID encodes an identifier: seconds in 4 bytes, their fraction in 2, then the lower 48 bits of tail.
func FormatID(at time.Time, tail uint64) string {
	var b [14]byte
	binary.BigEndian.PutUint32(b[0:], uint32(at.Unix()))
	binary.BigEndian.PutUint16(b[4:], uint16(uint64(at.Nanosecond())<<16/1e9))
	binary.BigEndian.PutUint64(b[6:], tail<<16)
	var text [24]byte
	hex.Encode(text[:], b[:12])
	return string(text[:])
}

// Sequence makes ascending identifiers. The zero value is ready; it is safe for concurrent use.
type Sequence struct {
	mu   sync.Mutex
	last string
}

// Next is the identifier for at and tail. If the last one is not lower, it is the successor of the last one.
func (s *Sequence) Next(at time.Time, tail uint64) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := FormatID(at, tail)
	if id <= s.last {
		id = successor(s.last)
	}
	s.last = id
	return id
}

func successor(id string) string {
	b, _ := hex.DecodeString(id)
	for i := len(b) - 1; i >= 0; i-- {
		b[i]++
		if b[i] != 0 {
			break
		}
	}
	return hex.EncodeToString(b)
}

// System returns the host of the real machine.
func System() Host { return &system{began: time.Now()} }

type system struct {
	began time.Time
	ids   Sequence
}

func (s *system) Now() time.Time         { return time.Now().UTC().Truncate(time.Millisecond) }
func (s *system) Elapsed() time.Duration { return time.Since(s.began) }

func (s *system) Sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

func (s *system) WithTimeout(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	return context.WithTimeout(ctx, d)
}

func (s *system) Go(f func()) func() {
	var ended sync.WaitGroup
	var died *Panic
	ended.Go(func() { died = Catch(f) })
	return func() {
		ended.Wait()
		died.Again()
	}
}

func (s *system) Gate() (open, wait func()) {
	opened := make(chan struct{})
	return sync.OnceFunc(func() { close(opened) }), func() { <-opened }
}

func (s *system) NewID() string { return s.ids.Next(time.Now(), s.random()) }

func (s *system) Int64N(n int64) int64 { return int64(s.random() % uint64(n)) }

func (s *system) random() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // crypto/rand never fails; it ends the process instead
	return binary.BigEndian.Uint64(b[:])
}
