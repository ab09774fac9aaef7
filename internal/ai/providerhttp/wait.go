package providerhttp

import (
	"cmp"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"agentplatform/internal/platform/egress"
)

// maxWait limits the wait that a provider may ask for.
const maxWait = 5 * time.Minute

// RetryAfter is the wait that a provider asks for in an answer's headers, at most five minutes; 0 where it asks
// for none. A date counts from the answer's own.
func RetryAfter(h http.Header) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return within(ms / 1000)
	}
	if wait := waitOf(waitValue.FindStringSubmatch(h.Get("Retry-After"))); wait > 0 {
		return wait
	}
	return max(0, min(egress.RetryAfter(h.Get("Retry-After"), sentAt(h)), maxWait))
}

// sentAt is the time of an answer by the clock of its server.
func sentAt(h http.Header) time.Time {
	at, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		return time.Now()
	}
	return at
}

// resets is the longest wait until a limit that is used up is available again. Providers send the rest of a limit and
// its reset under similar names: X-Ratelimit-Remaining-Tokens, Anthropic-Ratelimit-Requests-Remaining,
// Ratelimit-Remaining.
func resets(h http.Header) (wait time.Duration) {
	for name := range h {
		if !strings.Contains(name, "Ratelimit") || !strings.Contains(name, "Remaining") {
			continue
		}
		if left, err := strconv.ParseFloat(h.Get(name), 64); err == nil && left <= 0 {
			wait = max(wait, until(h.Get(strings.Replace(name, "Remaining", "Reset", 1)), sentAt(h)))
		}
	}
	return wait
}

// until reads a wait, or the time at which it ends: as a date, or in seconds or milliseconds since 1970.
func until(text string, now time.Time) time.Duration {
	if at, err := time.Parse(time.RFC3339, text); err == nil {
		return within(at.Sub(now).Seconds())
	}
	at, err := strconv.ParseFloat(text, 64)
	if err != nil || at < 1e9 {
		return duration(text)
	}
	if at > 1e12 {
		at /= 1000
	}
	return within(at - float64(now.Unix()))
}

// within is a number of seconds between nothing and the longest wait.
func within(seconds float64) time.Duration {
	if !(seconds > 0) { // NaN, too
		return 0
	}
	return time.Duration(min(seconds, maxWait.Seconds()) * float64(time.Second))
}

// duration reads the forms of providers: 1.5s, 6m0s, 250ms, or a number of seconds.
func duration(text string) time.Duration {
	if s, err := strconv.ParseFloat(text, 64); err == nil {
		return within(s)
	}
	d, _ := time.ParseDuration(text)
	return max(0, min(d, maxWait))
}

// waitIn is the wait that words ask for: "Please try again in 1m2.5s", "retry after 20 seconds".
func waitIn(words string) time.Duration {
	return waitOf(waitWords.FindStringSubmatch(words))
}

// waitOf is a wait from its parts: hours and minutes, a number, and its unit.
func waitOf(found []string) time.Duration {
	if found == nil {
		return 0
	}
	unit := cmp.Or(found[3], "s")
	if len(unit) > 2 {
		unit = unit[:1]
	}
	return duration(strings.ToLower(found[1] + found[2] + unit))
}

const waitParts = `((?:\d+h)?(?:\d+m)?)(\d+(?:\.\d+)?) ?(ms|seconds?|secs?|minutes?|mins?|hours?|s|m|h)?\b`

var (
	waitWords = regexp.MustCompile(`(?i)\b(?:(?:try again|retry|retrying) (?:in|after)|please wait(?: for)?) ` +
		waitParts)
	waitValue = regexp.MustCompile(`(?i)^\s*` + waitParts + `\s*(?:,|$)`) // some send a unit, or a list
)
