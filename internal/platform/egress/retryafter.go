package egress

import (
	"net/http"
	"strconv"
	"time"
)

// RetryAfter parses the header Retry-After: seconds, or a date. The result is 0 or less when it requests no wait.
func RetryAfter(value string, now time.Time) time.Duration {
	if n, err := strconv.Atoi(value); err == nil {
		return time.Duration(min(max(n, 0), 1<<20)) * time.Second
	}
	if at, err := http.ParseTime(value); err == nil {
		return at.Sub(now)
	}
	return 0
}
