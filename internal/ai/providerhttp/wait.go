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
	now, err := http.ParseTime(h.Get("Date"))
	if err != nil {
		now = time.Now()
	}
	return max(0, min(egress.RetryAfter(h.Get("Retry-After"), now), maxWait))
}

// resets is the wait until a limit that is used up is there again. OpenAI and those that imitate it send a limit of
// requests and one of tokens with every answer.
func resets(h http.Header) (wait time.Duration) {
	for _, of := range []string{"Requests", "Tokens"} {
		if h.Get("X-Ratelimit-Remaining-"+of) == "0" {
			wait = max(wait, duration(h.Get("X-Ratelimit-Reset-"+of)))
		}
	}
	return wait
}

// within is a number of seconds between nothing and the longest wait.
func within(seconds float64) time.Duration {
	if !(seconds > 0) { // NaN, too
		return 0
	}
	return time.Duration(min(seconds, maxWait.Seconds()) * float64(time.Second))
}

// duration reads what providers write: 1.5s, 6m0s, 250ms, or a number of seconds.
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
