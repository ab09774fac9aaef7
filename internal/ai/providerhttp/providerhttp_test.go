package providerhttp_test

import (
	"encoding/json"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/providerhttp"
)

func TestTheWaitThatAProviderAsksForIsLimited(t *testing.T) {
	for value, want := range map[string]time.Duration{"": 0, "2": 2 * time.Second, "0.5": 500 * time.Millisecond,
		"-1": 0, "soon": 0, "99999": 5 * time.Minute} {
		assert.Equal(t, want, providerhttp.RetryAfter(http.Header{"Retry-After": {value}}), value)
	}
	assert.Equal(t, 250*time.Millisecond,
		providerhttp.RetryAfter(http.Header{"Retry-After-Ms": {"250"}, "Retry-After": {"9"}}))
}

func TestAPathIsAppendedToABaseURL(t *testing.T) {
	for base, want := range map[string]string{
		"https://a/v1": "https://a/v1/chat", "https://a/v1/": "https://a/v1/chat", "https://a": "https://a/chat",
		"https://a/d?version=1": "https://a/d/chat?version=1",
	} {
		assert.Equal(t, want, providerhttp.Join(base, "/chat"))
	}
}

func TestValuesOfUnexpectedTypesAreRead(t *testing.T) {
	for raw, want := range map[string]providerhttp.Count{
		"7": 7, "-7": -7, "7.9": 7, "1e3": 1000, "1e99": math.MaxInt64, "-1e99": math.MinInt64,
		"1e999999": math.MaxInt64, "9223372036854775808": math.MaxInt64,
		"null": 0, `"7"`: 7, `"7.9"`: 7, `" 7 "`: 7, `""`: 0, `"x"`: 0, "[]": 0, "{}": 0, "true": 0,
	} {
		var c struct{ N providerhttp.Count }
		require.NoError(t, json.Unmarshal([]byte(`{"N":`+raw+`}`), &c), raw)
		assert.Equal(t, want, c.N, raw)
	}
	for raw, want := range map[string]providerhttp.Text{`"x"`: "x", "null": "", "7": "", `["x"]`: "",
		`"\u00e9\n\/\"\\\ud83d\ude00"`: "é\n/\"\\😀", `"\ud83d"`: "\xed\xa0\xbd", `"\ude00x"`: "\xed\xb8\x80x",
		`"\ud83d\u0041"`: "\xed\xa0\xbdA", "\"\xf0\x9f\"": "\xf0\x9f", `"\ud83d\ud83d\ude00"`: "\xed\xa0\xbd😀",
		`[{"type":"thinking","text":"a"},{"type":"text","text":"b"},{"type":"text","text":"c"}]`: "bc"} {
		var c struct{ T providerhttp.Text }
		require.NoError(t, json.Unmarshal([]byte(`{"T":`+raw+`}`), &c), raw)
		assert.Equal(t, want, c.T, raw)
	}
}

func TestTheMessageOfAnErrorResponseIsFound(t *testing.T) {
	for body, want := range map[string]string{
		`{"error":{"message":"no"}}`: "no", `{"error":"no"}`: "no", `{"message":"no"}`: "no", `{"detail":"no"}`: "no",
		`[{"error":{"message":"no"}}]`: "no", `{"error":null,"message":"no"}`: "no", `{"error":7}`: "", `<html>`: "",
		"": "", `{"error":`: "", `{"error":{"message":7},"message":{}}`: "",
		`{"error_code":1,"error_msg":"no"}`: "no", `{"errmsg":"no"}`: "no", `{"Message":"no"}`: "no", `"no"`: "no",
		`{"base_resp":{"status_code":1,"status_msg":"no"}}`: "no", " not\n here \r\n": "not here",
		"\x1f\x8b\x08": "", "\xff": "", "a\x00b": "", strings.Repeat("x", 2000): "", ` <!DOCTYPE html>`: "", `"no`: "",
	} {
		assert.Equal(t, want, providerhttp.ParseTrouble([]byte(body)).Message, body)
	}
}

func TestAnAnswerWithTooManyValuesIsNotDecoded(t *testing.T) {
	var into any
	require.NoError(t, providerhttp.Read([]byte(`[1,2]`), 10, 10, &into))
	require.Error(t, providerhttp.Read([]byte(`[1,2,3,4,5,6,7]`), 100, 5, &into))
	require.Error(t, providerhttp.Read([]byte(`[1,2,3,4,5,6,7]`), 5, 100, &into))
}
