// Package providerhttp has the parts that calls of model providers over HTTP share: the client, and the reading of
// failures. It reads the cause of a failure, the wait before the next attempt, and values whose types differ from the
// documented ones. It removes the parts of a failure that must not be shown.
//
// The package must not know the contents of requests, nor the ports that make them. It imports egress, strictjson and
// trace.
package providerhttp

import (
	"encoding/json"
	"math"
	"net/url"
	"strconv"
	"strings"

	"agentplatform/internal/platform/strictjson"
)

// Join appends a path to a base URL and keeps the URL's query. A base that cannot be parsed is returned unchanged;
// the request to it fails.
func Join(base, path string) string {
	u, err := url.Parse(base)
	if err != nil {
		return base // the request fails with it
	}
	return u.JoinPath(path).String()
}

// Read decodes JSON of a provider that has at most so many bytes and values.
func Read(data []byte, size, values int, into any) error {
	err := strictjson.Within(data, strictjson.Limits{Bytes: size, Depth: maxDepth}, values)
	if err != nil {
		return err
	}
	return json.Unmarshal(data, into)
}

const maxDepth = 128

// Count is a number that a provider claims, also as a text. Another value counts as 0, and a number that is too large
// as the largest int64.
type Count int64

// UnmarshalJSON accepts any JSON value and never fails.
func (c *Count) UnmarshalJSON(raw []byte) error {
	text := strings.Trim(string(raw), `" `) // some send numbers as texts
	if n, err := strconv.ParseInt(text, 10, 64); err == nil {
		*c = Count(n)
		return nil
	}
	switch f, _ := strconv.ParseFloat(text, 64); { // infinite where the number is too large
	case f >= math.MaxInt64:
		*c = math.MaxInt64
	case f <= math.MinInt64:
		*c = math.MinInt64
	case !math.IsNaN(f):
		*c = Count(f)
	}
	return nil
}
