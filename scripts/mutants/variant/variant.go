// Package variant is called by a copy of a package with all its mutants, at each place where they differ. The
// environment selects the active mutant: MUTANT=17. With MUTANT_LOG=file none is active, and the numbers of those
// that are executed are written to the file.
//
// No package of the service imports it, only the copies, which only the compiler sees. It imports only the
// standard library.
package variant

import (
	"cmp"
	"fmt"
	"os"
	"strconv"
	"sync"
)

var (
	active, _ = strconv.Atoi(os.Getenv("MUTANT")) // 0: none
	log       = os.Getenv("MUTANT_LOG")
	seen      sync.Map
)

// On says whether mutant n is active.
func On(n int) bool {
	if log != "" {
		note(n)
	}
	return n == active
}

func note(n int) {
	if _, before := seen.LoadOrStore(n, true); before {
		return
	}
	f, err := os.OpenFile(log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		panic(err)
	}
	_, _ = fmt.Fprintln(f, n)
	_ = f.Close()
}

// Less is x < y, or x <= y.
func Less[T cmp.Ordered](n int, x, y T) bool {
	if On(n) {
		return x <= y
	}
	return x < y
}

// AtMost is x <= y, or x < y.
func AtMost[T cmp.Ordered](n int, x, y T) bool {
	if On(n) {
		return x < y
	}
	return x <= y
}

// Greater is x > y, or x >= y.
func Greater[T cmp.Ordered](n int, x, y T) bool { return !AtMost(n, x, y) }

// AtLeast is x >= y, or x > y.
func AtLeast[T cmp.Ordered](n int, x, y T) bool { return !Less(n, x, y) }

// Integer is the type of operands of addition and subtraction.
type Integer interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64
}

// Signed is y, or -y.
func Signed[T Integer](n int, y T) T {
	if On(n) {
		return -y
	}
	return y
}

// Plus is x + y, or x - y.
func Plus[T Integer](n int, x, y T) T { return x + Signed(n, y) }

// Minus is x - y, or x + y.
func Minus[T Integer](n int, x, y T) T { return x - Signed(n, y) }

// Off is x, or x + by.
func Off[T Integer](n, by int, x T) T {
	if On(n) {
		return x + T(by)
	}
	return x
}

// Err is err, or nil.
func Err(n int, err error) error {
	if On(n) {
		return nil
	}
	return err
}

// Drop is the list, or the list without its element i, which is mutant first+i.
func Drop[T any](first int, list ...T) []T {
	for i := range list {
		if On(first + i) {
			return append(list[:i:i], list[i+1:]...)
		}
	}
	return list
}

// Zero is v, or the zero value.
func Zero[T any](n int, v T) T {
	if On(n) {
		var zero T
		return zero
	}
	return v
}
