package service_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/api/httpapi/httpapitest"
)

// A message as each entry point takes it.
type words struct{ chat, text, key string }

// entrances are the entry points for a message. Each reports whether it accepted the message, or else its refusal. The
// refusal must have the form that this entry point has for errors of its clients.
var entrances = map[string]func(t *testing.T, e httpapitest.API, w words) (accepted bool, why string){
	"REST": func(t *testing.T, e httpapitest.API, w words) (bool, string) {
		kind, body := e.Form(
			"message", w.text, "chat_id", w.chat, "idempotency_key", w.key, "wait", "false", "on_conflict", "enqueue",
		)
		r := httptest.NewRequest(http.MethodPost, httpapi.Base+"/chat", bytes.NewReader(body))
		r.Header.Set("Content-Type", kind)
		answer := e.Do(r)
		httpapitest.Sane(t, answer)
		if answer.Code == http.StatusBadRequest {
			return false, answer.Body.String()
		}
		return true, ""
	},
	"Open Responses": func(t *testing.T, e httpapitest.API, w words) (bool, string) {
		request := object{"model": e.Agent, "input": w.text, "background": true}
		if w.chat != "" {
			request["conversation"] = w.chat
		}
		raw, err := json.Marshal(request)
		if err != nil {
			t.Fatal(err)
		}
		r := httptest.NewRequest(http.MethodPost, httpapi.Base+"/responses", bytes.NewReader(raw))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Idempotency-Key", w.key)
		answer := e.Do(r)
		httpapitest.Sane(t, answer)
		if answer.Code == http.StatusBadRequest {
			return false, answer.Body.String()
		}
		return true, ""
	},
	"AG-UI": func(t *testing.T, e httpapitest.API, w words) (bool, string) {
		if w.chat == "" {
			return true, "" // its threads always have names
		}
		exchange := cmp.Or(w.key, strconv.Itoa(rand.Int()))
		raw, err := json.Marshal(object{"threadId": w.chat, "runId": exchange, "messages": []object{
			{"id": exchange, "role": "user", "content": w.text},
		}})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		r := httptest.NewRequestWithContext(ctx, http.MethodPost, httpapi.Base+"/agui/"+e.Agent, bytes.NewReader(raw))
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Authorization", "Bearer "+e.Key)
		answer := leaving{httptest.NewRecorder(), cancel}
		e.ServeHTTP(answer, r)
		if answer.Code == http.StatusBadRequest {
			return false, answer.Body.String()
		}
		return true, ""
	},
	"MCP": func(t *testing.T, e httpapitest.API, w words) (bool, string) {
		return rpc(t, e, "/mcp", object{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": object{
			"name": "Demo", "arguments": object{"message": w.text, "chat_id": w.chat},
		}})
	},
	"A2A 0.3": func(t *testing.T, e httpapitest.API, w words) (bool, string) {
		return rpc(
			t,
			e,
			"/a2a/"+e.Agent,
			object{"jsonrpc": "2.0", "id": 1, "method": "message/send", "params": object{"message": object{
				"kind":      "message",
				"role":      "user",
				"messageId": w.key,
				"contextId": w.chat,
				"parts":     []object{{"kind": "text", "text": w.text}},
			}}},
		)
	},
	"A2A 1.0": func(t *testing.T, e httpapitest.API, w words) (bool, string) {
		return rpc(
			t,
			e,
			"/a2a/"+e.Agent,
			object{"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": object{"message": object{
				"role": "ROLE_USER", "messageId": w.key, "contextId": w.chat, "parts": []object{{"text": w.text}},
			}}},
		)
	},
}

// leaving is a client that leaves with the first words of an answer.
type leaving struct {
	*httptest.ResponseRecorder

	leave context.CancelFunc
}

func (l leaving) Write(p []byte) (int, error) {
	defer l.leave()
	return l.ResponseRecorder.Write(p)
}

type object = map[string]any

var invalid = regexp.MustCompile(`^(message|chat_id): `)

// rpc makes a JSON-RPC call. The only possible refusal is that of invalid params. In MCP that is a result of the tool,
// which names the field.
func rpc(t *testing.T, e httpapitest.API, path string, body object) (bool, string) {
	t.Helper()
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	r := httptest.NewRequest(http.MethodPost, httpapi.Base+path, bytes.NewReader(raw))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "application/json, text/event-stream")
	answer := e.Do(r)
	httpapitest.Sane(t, answer)
	var reply struct {
		Error *struct {
			Code    int
			Message string
		}
		Result *struct {
			IsError bool
			Content []struct{ Text string }
		}
	}
	if answer.Code != http.StatusOK || json.Unmarshal(answer.Body.Bytes(), &reply) != nil {
		t.Fatalf("%s: %d %s", path, answer.Code, answer.Body)
	}
	switch {
	case reply.Error != nil && reply.Error.Code == -32602:
		return false, reply.Error.Message
	case strings.Contains(answer.Body.String(), "the chat is busy"):
		return true, "" // with a message of the test's
	case reply.Result != nil && reply.Result.IsError && invalid.MatchString(reply.Result.Content[0].Text):
		return false, reply.Result.Content[0].Text
	case reply.Error != nil || reply.Result == nil || reply.Result.IsError:
		t.Fatalf("%s: %.2000s", path, answer.Body)
	}
	return true, ""
}

func validChat(id string) bool {
	return len(id) <= 128 && (id == "" || strings.Trim(id, ".") != "") &&
		strings.Trim(id, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-") == "" // empty: a new one
}

func TestEveryEntranceChecksAMessageAlike(t *testing.T) {
	e := httpapitest.New(t)
	long := strings.Repeat("x", 256<<10)
	for name, c := range map[string]struct {
		words
		accepted bool
	}{
		"plain":                   {words{"chat-1", "hello", "k1"}, true},
		"no chat":                 {words{"", "hello", ""}, true},
		"every character":         {words{"Az09._:-", "hello", "k2"}, true},
		"128 characters":          {words{strings.Repeat("c", 128), "hello", "k3"}, true},
		"129 characters":          {words{strings.Repeat("c", 129), "hello", "k4"}, false},
		"100,000 characters":      {words{strings.Repeat("c", 100_000), "hello", "k5"}, false},
		"a blank in the chat":     {words{"trip to Paris", "hello", "k6"}, false},
		"a blank around the chat": {words{" chat", "hello", "k6"}, false},
		"a line break":            {words{"chat\n", "hello", "k6"}, false},
		"a slash":                 {words{"a/b", "hello", "k7"}, false},
		"a zero byte":             {words{"a\x00b", "hello", "k8"}, false},
		"a percent sign":          {words{"%41", "hello", "k8"}, false},
		"letters of others":       {words{"ünï", "hello", "k9"}, false},
		"a blank alone":           {words{" ", "hello", "k10"}, false},
		"the longest message":     {words{"chat-2", long, "k11"}, true},
		"a blank message":         {words{"chat-5", "   ", "k13"}, true},
		"a message of line ends":  {words{"chat-6", "\r\n\t", "k14"}, true},
		"no message":              {words{"chat-7", "", "k15"}, false},
		"a message too long":      {words{"chat-3", long + "x", "k12"}, false},
	} {
		for entrance, post := range entrances {
			if entrance == "REST" && len(c.chat) > 16<<10 {
				continue // the form refuses the part before
			}
			accepted, why := post(t, e, c.words)
			assert.Equal(t, c.accepted, accepted, "%s: %s: %s", entrance, name, why)
			assert.Less(t, len(why), 1000, "%s: %s", entrance, name)
		}
	}
	for _, key := range []string{"schlüssel", "a\nb", "\x00", strings.Repeat("k", 256)} {
		for entrance, post := range entrances {
			if accepted, why := post(t, e, words{"chat-4", "x", key}); entrance != "MCP" { // which has no keys
				assert.False(t, accepted, "%s: a key %q", entrance, key)
				assert.Less(t, len(why), 1000, entrance)
			}
		}
	}
}

// FuzzChatIDs holds every entrance to the same check of a chat's id.
func FuzzChatIDs(f *testing.F) {
	e := httpapitest.Shared(f)
	for _, id := range []string{
		"", "c", "a b", "a/b", "%00", "\x00", "ü", "..", strings.Repeat("x", 129), "{}", `"`, "null", "\u2028",
		"\xff",
	} {
		f.Add(id)
	}
	f.Fuzz(func(t *testing.T, id string) {
		id = strings.ToValidUTF8(id, "?") // JSON has no other texts
		for entrance, post := range entrances {
			if accepted, why := post(t, e, words{id, "x", ""}); accepted != validChat(id) {
				t.Fatalf("%s: %q: accepted: %v (%s)", entrance, id, accepted, why)
			}
		}
	})
}
