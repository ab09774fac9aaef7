package providerhttp

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Trouble is what a provider says of a failure, in whatever form: an error member, or the body of an answer.
type Trouble struct {
	There   bool   // there is an error
	Message string // what is wrong, in the provider's words; empty where it does not say

	words []string // all that it says in words
	codes []string // how it names the failure, in lower case: codes, types, statuses
}

// Says is the [Trouble] of a failure that somebody else has decoded.
func Says(message string, codes ...string) Trouble {
	t := Trouble{There: true, Message: message, words: []string{message}}
	for _, code := range codes {
		t.codes = append(t.codes, strings.ToLower(code))
	}
	return t
}

// Said is what the body of an answer says: JSON, or a short text. A page and JSON that cannot be read say nothing, and
// neither does JSON with too many values.
func Said(body []byte) (t Trouble) {
	var answer any
	if Read(body, len(body), maxSaid, &answer) != nil {
		if t.Message = line(body); t.Message != "" {
			t.words = []string{t.Message}
		}
		return t
	}
	if list, is := answer.([]any); is && len(list) == 1 { // some providers send a list with one object
		answer = list[0]
	}
	if object, is := answer.(map[string]any); is {
		base, _ := object["base_resp"].(map[string]any)
		t.There = object["error"] != nil || object["errors"] != nil || object["object"] == "error" ||
			failed(object["error_code"]) || failed(base["status_code"])
	}
	t.gather(answer, 0)
	return t
}

// failed says whether a code is one of a failure.
func failed(code any) bool { return code != nil && code != float64(0) && code != "" && code != "0" }

// Limits of an error response.
const (
	maxSaid = 10_000  // values
	maxLine = 1 << 10 // bytes of one that is a text
)

// line is a text as one line; empty for a long one, for JSON, for a page, and for what is no text.
func line(body []byte) string {
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
	if _ = json.Unmarshal(raw, &member); member == nil { // the decoder has read it as JSON before
		return nil
	}
	t.There = true
	t.gather(member, 0)
	return nil
}

// Members in which providers say what is wrong, in the order in which they are read, and those that name it.
// Gateways put the answer of the provider behind them into one of the first, as JSON in a string, too. What a refusal
// repeats of the request stands in other members.
var (
	wording = []string{"error", "errors", "message", "Message", "msg", "detail", "details", "description",
		"error_message", "error_msg", "errmsg", "base_resp", "status_msg", "metadata", "raw", "external_model_error"}
	naming = []string{"code", "type", "status", "reason", "error_code", "error_type"}
)

// Limits of what is read of a failure.
const (
	maxNested = 8
	maxWords  = 32
	maxWord   = 8 << 10 // bytes
)

// gather adds what a value says.
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
	case []any:
		for _, one := range v {
			t.gather(one, depth+1)
		}
	case string:
		if v == "" || t.within(v, depth) {
			return
		}
		if t.Message == "" {
			t.Message = v
		}
		t.words = append(t.words, clip(v))
	}
}

// within reads a text that is JSON, and says whether it says something.
func (t *Trouble) within(text string, depth int) bool {
	raw := bytes.TrimSpace([]byte(text))
	if len(raw) == 0 || raw[0] != '{' && raw[0] != '[' {
		return false
	}
	var inner any
	before := len(t.words)
	if Read(raw, len(raw), maxSaid, &inner) == nil {
		t.gather(inner, depth+1)
	}
	return len(t.words) > before
}

func clip(text string) string { return text[:min(len(text), maxWord)] }

// status is the HTTP status that a failure within an answer names; 0: none.
func (t Trouble) status() int {
	for _, code := range t.codes {
		if status, err := strconv.Atoi(code); err == nil && status >= http.StatusBadRequest && status < 600 {
			return status
		}
	}
	return 0
}
