package providerhttp

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Trouble is a provider's description of a failure, in any form: an error member, or the body of an answer.
type Trouble struct {
	There   bool   // there is an error
	Message string // what is wrong, in the provider's words; may be empty

	Wait time.Duration // how long to wait; 0: it does not ask for a wait

	words  []string // all texts of the description
	codes  []string // how it names the failure, in lower case: codes, types, statuses
	params []string // what of the request it names
}

// NewTrouble makes the [Trouble] of a failure that another library has decoded.
func NewTrouble(message string, codes ...string) Trouble {
	t := Trouble{There: true, Message: message, Wait: waitIn(message), words: []string{message}}
	for _, code := range codes {
		t.codes = append(t.codes, strings.ToLower(code))
	}
	return t
}

// ParseTrouble reads the body of an answer: JSON, also as an event of a stream, or a short text. It leaves out pages,
// JSON that cannot be read, and JSON with too many values.
func ParseTrouble(body []byte) (t Trouble) {
	var answer any
	err := Read(body, len(body), maxValues, &answer)
	if event := firstEvent.FindSubmatch(body); err != nil && event != nil {
		err = Read(event[1], len(body), maxValues, &answer)
	}
	if err != nil {
		if text := Line(body); text != "" {
			t.add(text)
		}
		return t
	}
	if list, is := answer.([]any); is && len(list) == 1 { // some providers send a list with one object
		answer = list[0]
	}
	if object, is := answer.(map[string]any); is {
		base, _ := object["base_resp"].(map[string]any)
		t.There = failed(object["error"]) || failed(object["errors"]) || object["object"] == "error" ||
			object["type"] == "error" || failed(object["error_code"]) || failed(object["error_type"]) ||
			failed(object["error_message"]) || failed(base["status_code"])
	}
	t.gather(answer, 0)
	return t
}

// firstEvent matches the first event of a stream that may be an object.
var firstEvent = regexp.MustCompile(`(?m)^(?:data|error): ?(\{.*\})\s*?$`)

// failed reports whether a member describes a failure.
func failed(member any) bool {
	switch member := member.(type) {
	case nil:
		return false
	case bool:
		return member
	case float64:
		return member != 0
	case string:
		return member != "" && member != "0"
	}
	return true
}

// Limits of an error response.
const (
	maxValues = 10_000  // values
	maxLine   = 1 << 10 // bytes of one that is a text
)

// Line returns a text as one line. It is empty for a long text, for JSON, for a page, and for bytes that are not text.
func Line(body []byte) string {
	text := strings.Join(strings.Fields(string(body)), " ")
	if len(body) > maxLine || text == "" || strings.ContainsRune(`<{["`, rune(text[0])) || !utf8.ValidString(text) ||
		strings.ContainsFunc(text, unicode.IsControl) {
		return ""
	}
	return text
}

// UnmarshalJSON accepts any JSON value and never fails: an object, a message, or null where there is no error.
func (t *Trouble) UnmarshalJSON(raw []byte) error {
	var member any
	if _ = json.Unmarshal(raw, &member); !failed(member) { // the decoder has read it as JSON before
		return nil
	}
	t.There = true
	t.gather(member, 0)
	return nil
}

// Members in which providers describe a failure, in the order in which they are read, and those that name it. Gateways
// also put the answer of the provider behind them into one of the first, as JSON in a string. Parts of the request that
// a refusal repeats stand in other members.
var (
	wording = []string{"error", "errors", "message", "Message", "msg", "detail", "details", "description",
		"error_message", "error_msg", "errmsg", "base_resp", "status_msg", "metadata", "raw", "external_model_error",
		"innererror", "fault", "faultstring", "violations", "provider_specific_fields"}
	naming   = []string{"code", "type", "status", "reason", "error_code", "error_type", "quotaId"}
	locating = []string{"param", "loc"}
)

// Limits of what is read of a failure.
const (
	maxNested = 8
	maxWords  = 32
	maxWord   = 8 << 10 // bytes
)

func (t *Trouble) gather(v any, depth int) {
	if depth > maxNested || len(t.words)+len(t.codes) > maxWords {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		for _, name := range wording {
			t.gather(v[name], depth+1)
		}
		for _, name := range naming {
			switch code := v[name].(type) {
			case string:
				t.codes = append(t.codes, strings.ToLower(clip(code)))
			case float64:
				raw, _ := json.Marshal(code) // it was read from JSON
				t.codes = append(t.codes, string(raw))
			}
		}
		for _, name := range locating {
			t.param(v[name])
		}
		if wait, is := v["retryDelay"].(string); is { // google.rpc.RetryInfo
			t.Wait = max(t.Wait, duration(wait))
		}
	case []any:
		for _, one := range v {
			t.gather(one, depth+1)
		}
	case string:
		if v != "" && !t.within(v, depth) {
			t.add(v)
		}
	}
}

func (t *Trouble) add(words string) {
	t.Message = cmp.Or(t.Message, words)
	t.Wait = cmp.Or(t.Wait, waitIn(clip(words)))
	t.words = append(t.words, clip(words))
}

// param adds the part of the request that a failure names: a name, or a path of names.
func (t *Trouble) param(v any) {
	if path, is := v.([]any); is && len(path) > 0 {
		v = path[len(path)-1]
	}
	if name, is := v.(string); is && len(t.params) < maxWords {
		t.params = append(t.params, clip(name))
	}
}

// Refuses reports whether a failure means that the provider does not know or take a parameter of the request.
func (t Trouble) Refuses(parameter string) bool {
	return (t.named(unknownParameter) || t.worded(unknownParameter)) && t.Names(parameter)
}

// Names reports whether a failure names a parameter of the request.
func (t Trouble) Names(parameter string) bool {
	name := regexp.MustCompile(`\b` + regexp.QuoteMeta(parameter) + `\b`)
	if slices.Contains(t.params, parameter) {
		return true
	}
	return slices.ContainsFunc(t.words, func(words string) bool {
		at := name.FindStringIndex(words)
		return at != nil && !instead.MatchString(words[:at[0]]) // "use 'max_completion_tokens' instead"
	})
}

var (
	unknownParameter = anyOf(`un(supported|recogni[sz]ed|known|expected)`, `extra_?(forbidden|inputs|fields)`,
		`not (supported|permitted|allowed|recogni[sz]ed)`, `does ?n[o']t support`, `no such (parameter|field)`)
	instead = regexp.MustCompile(`(?i)\buse\W+$`)
)

// within reads a text that is JSON, and reports whether it has a description.
func (t *Trouble) within(text string, depth int) bool {
	raw := bytes.TrimSpace([]byte(text))
	if len(raw) == 0 || raw[0] != '{' && raw[0] != '[' {
		return false
	}
	var inner any
	before := len(t.words)
	if Read(raw, len(raw), maxValues, &inner) == nil {
		t.gather(inner, depth+1)
	}
	return len(t.words) > before
}

func clip(text string) string { return text[:min(len(text), maxWord)] }

// status is the HTTP status that a failure within an answer names, as a number or by an error name of OpenAI or
// Anthropic; 0: none.
func (t Trouble) status() int {
	for _, code := range t.codes {
		if status, err := strconv.Atoi(code); err == nil && status >= http.StatusBadRequest && status < 600 {
			return status
		}
	}
	for _, code := range t.codes {
		if status, is := statuses[code]; is {
			return status
		}
	}
	return 0
}

// statuses are the HTTP statuses that failures of these names have before a stream has begun.
var statuses = map[string]int{
	"invalid_request_error": http.StatusBadRequest, "badrequesterror": http.StatusBadRequest,
	"validationexception": http.StatusBadRequest, "authentication_error": http.StatusUnauthorized,
	"permission_error": http.StatusForbidden, "accessdeniedexception": http.StatusForbidden,
	"not_found_error": http.StatusNotFound, "model_not_found": http.StatusNotFound,
	"resourcenotfoundexception": http.StatusNotFound,
	"rate_limit_error":          http.StatusTooManyRequests, "rate_limit_exceeded": http.StatusTooManyRequests,
	"throttlingexception": http.StatusTooManyRequests, "modelnotreadyexception": http.StatusTooManyRequests,
	"server_error": http.StatusInternalServerError, "api_error": http.StatusInternalServerError,
	"overloaded_error": http.StatusServiceUnavailable,
}

// Title is that of a page.
func Title(page io.Reader) string {
	raw, _ := io.ReadAll(io.LimitReader(page, maxRefusal))
	if found := title.FindSubmatch(raw); found != nil {
		return Line(found[1])
	}
	return ""
}

var title = regexp.MustCompile(`(?is)<title[^>]*>(.*?)</title`)
