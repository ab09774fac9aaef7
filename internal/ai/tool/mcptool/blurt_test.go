package mcptool_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/ai/tool/mcptool"
)

// blurt makes a server send raw text in a call.
func blurt(ctx context.Context, e tool.Endpoint, raw, result string, answers ...tool.Answer) (tool.Result, error) {
	arguments, _ := json.Marshal(map[string]string{"raw": raw, "result": result})
	return (&mcptool.Kind{Client: http.DefaultClient}).Call(ctx, e,
		tool.Definition{Binding: json.RawMessage(`{"name":"blurt"}`)},
		tool.Invocation{Name: "blurt", Arguments: arguments, Answers: answers})
}

func asksFor(params string) string {
	return `{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":` + params + `}`
}

func asksForField(field string) string {
	return asksFor(`{"message":"?","requestedSchema":` + object(`"a":`+field, ``) + `}`)
}

// refused are requests that get an error as their answer, and notifications that get none.
var refused = []string{
	`{"jsonrpc":"2.0","id":"q","method":"elicitation/create"}`,
	asksFor(`null`), asksFor(`[]`), asksFor(`{"mode":"carrier pigeon"}`), asksFor(`{"message":1}`),
	asksFor(`{"message":"?","requestedSchema":[null]}`),
	asksForField(`{"type":"string","oneOf":[null]}`),
	asksForField(`{"type":"string","oneOf":[{"const":"a","title":"A"},null]}`),
	asksForField(`{"type":"array","items":{"anyOf":[null]}}`),
	asksForField(`{"type":"array","items":null}`),
	`{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":null}`,
	`{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{"maxTokens":1,"messages":[null]}}`,
	`{"jsonrpc":"2.0","id":"q","method":"sampling/createMessage","params":{"maxTokens":1,"tools":[null],"messages":[` +
		`{"role":"user","content":[{"type":"tool_result","content":[null]}]}]}}`,
	`{"jsonrpc":"2.0","id":"q","method":"roots/list","params":null}`,
	`{"jsonrpc":"2.0","id":"q","method":"completion/complete","params":{"ref":null}}`,
	`{"jsonrpc":"2.0","id":"q","method":""}`,
	`{"jsonrpc":"2.0","id":"q","method":"notifications/cancelled","params":null}`,
	`{"jsonrpc":"2.0","method":"notifications/elicitation/complete","params":null}`,
	`{"jsonrpc":"2.0","method":"notifications/elicitation/complete"}`,
	`{"jsonrpc":"2.0","method":"notifications/progress","params":null}`,
	`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":{}}}`,
	`{"jsonrpc":"2.0","method":"notifications/message","params":null}`,
	`{"jsonrpc":"2.0","method":"notifications/cancelled","params":null}`,
	`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":{}}}`,
	`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":null}`,
	`{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":null}`,
	`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":null}`,
	`{"jsonrpc":"2.0","method":"elicitation/create","params":null}`,
	`{"jsonrpc":"2.0","id":"stray","result":null}`,
	`{"jsonrpc":"2.0","id":"stray","error":null}`,
}

// No message of a server breaks more than the call.
func TestAMessageThatIsNotOfTheProtocolBreaksNothing(t *testing.T) {
	for name, e := range askers(t) {
		for _, raw := range refused {
			t.Run(name+"/"+raw, func(t *testing.T) {
				result, err := blurt(t.Context(), e, raw, "")
				require.NoError(t, err)
				var replies []struct {
					ID     string
					Result json.RawMessage
					Error  *struct{ Code int }
				}
				require.NoError(t, json.Unmarshal([]byte(result.Text), &replies), result.Text)
				got := map[string]bool{}
				for _, one := range replies {
					got[one.ID] = true
					assert.Equal(t, one.ID == "q", one.Error != nil, result.Text)
				}
				assert.True(t, got["p"], "the line works")
				assert.Equal(t, strings.Contains(raw, `"id":"q"`), got["q"])
			})
		}
	}
}

// A schema may be unusable for checking an answer. Its question is still asked of a human.
func TestAFormThatRefersToItselfIsAnswered(t *testing.T) {
	raw := asksFor(`{"message":"?","requestedSchema":{"type":"object","$ref":"#",` +
		`"properties":{"a":{"type":"string"},"n":{"type":"integer","default":7}},"required":["a"]}}`)
	for name, e := range askers(t) {
		t.Run(name, func(t *testing.T) {
			_, err := blurt(t.Context(), e, raw, "")
			var q *tool.Question
			require.ErrorAs(t, err, &q)
			result, err := blurt(t.Context(), e, raw, "", tool.Answer{Question: q.ID, Text: `{"a":"b"}`})
			require.NoError(t, err)
			assert.Contains(t, result.Text, `"content":{"a":"b","n":7}`)
		})
	}
}

// Answers with members that are null are failures of the server.
func TestAnswersWithNullMembersAreFailures(t *testing.T) {
	begun := func(capabilities string) func(json.RawMessage) string {
		return always(`{"protocolVersion":"2025-06-18","serverInfo":null` + capabilities + `}`)
	}
	for name, answers := range map[string]map[string]func(json.RawMessage) string{
		"resources": {"resources/list": always(`{"resources":[null]}`)},
		"prompts":   {"resources/list": always(`{}`), "prompts/list": always(`{"prompts":[null]}`)},
		"an argument": {"resources/list": always(`{}`),
			"prompts/list": always(`{"prompts":[{"arguments":[null]}]}`)},
		"no capabilities":      {"initialize": begun(``)},
		"null as capabilities": {"initialize": begun(`,"capabilities":null`)},
		"null as a list":       {"resources/list": always(`[]`)},
		"null to begin with":   {"initialize": always(`null`)},
		"a list to begin with": {"initialize": always(`[]`)},
	} {
		t.Run(name, func(t *testing.T) {
			address, _ := scripted(t, answers)
			_, err := (&mcptool.Kind{Client: http.DefaultClient}).Browse(t.Context(), tool.Endpoint{URL: address})
			var failure *tool.Error
			require.ErrorAs(t, err, &failure)
			t.Log(err)
		})
	}
}

// A result that cannot be read fails its call alone.
func TestAResultThatCannotBeReadEndsNoSession(t *testing.T) {
	for name, e := range askers(t) {
		for result, want := range map[string]string{
			`{"content":[{"type":"image","mimeType":"a/b","data":"data:a/b;base64,AAAA"}]}`: "base64",
			`{"content":[{"type":"text","text":5}]}`:                                        "does not follow MCP",
			`{"content":{"type":"text","text":"bare"}}`:                                     "does not follow MCP",
			`{"content":[{"type":"video","data":"AAAA"}]}`:                                  "video",
			`{"content":[null]}`:                                      "",
			`{"content":[],"isError":true}`:                           "gave no reason",
			`{"content":[{"type":"text","text":" "}],"isError":true}`: "gave no reason",
		} {
			t.Run(name+"/"+result, func(t *testing.T) {
				s := (&mcptool.Kind{Client: http.DefaultClient}).Session(e)
				defer s.End()
				_, err := ask(t.Context(), s, "blurt", func(i *tool.Invocation) {
					i.Arguments, _ = json.Marshal(map[string]string{"raw": refused[len(refused)-1], "result": result})
				})
				var failure *tool.Error
				require.ErrorAs(t, err, &failure)
				assert.Contains(t, err.Error(), want)
				assert.NotContains(t, err.Error(), "Go struct")
				got, err := ask(t.Context(), s, "told", resumed)
				require.NoError(t, err)
				assert.NotContains(t, got, "opened again")
				assert.Contains(t, got, "blurt", "it is the same session")
			})
		}
	}
}

// FuzzMessage makes a server send arbitrary text in a call, and answer the call with it.
func FuzzMessage(f *testing.F) {
	for _, seed := range refused {
		f.Add(seed, "")
	}
	for _, seed := range []string{
		`null`, `[]`, `[null]`, `{}`, `{"jsonrpc":"2.0"}`, `{"jsonrpc":"2.0","id":{},"method":"ping"}`, `{"jsonrpc"`,
		`[{"jsonrpc":"2.0","id":"q","method":"ping"},{"jsonrpc":"2.0","method":"ping"}]`, asksForField(`{"$ref":"#"}`),
		`{"jsonrpc":"2.0","id":1,"result":null}`, `{"jsonrpc":"2.0","id":1,"error":{"code":1,"data":[null]}}`,
	} {
		f.Add(seed, "")
	}
	for _, seed := range []string{
		`null`, `[]`, `{"content":null}`, `{"content":[null]}`, `{"content":[{"type":"resource","resource":null}]}`,
		`{"content":[{"type":"resource_link"}]}`, `{"structuredContent":[null]}`,
		`{"resultType":"input_required","inputRequests":{"a":null}}`,
		`{"resultType":"input_required","inputRequests":{"a":{"method":"elicitation/create","params":` +
			`{"requestedSchema":{"type":"object","properties":{"a":{"oneOf":[null]}}}}}}}`,
	} {
		f.Add(`{"jsonrpc":"2.0","method":"notifications/message"}`, seed)
	}
	f.Fuzz(func(t *testing.T, raw, result string) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := blurt(ctx, askers(t)["http"], strings.NewReplacer("\n", " ", "\r", " ").Replace(raw), result)
		var failure *tool.Error
		var q *tool.Question
		if err != nil && !errors.As(err, &failure) {
			require.ErrorAs(t, err, &q)
		}
	})
}

// A server that has sent an unreadable result is alive: the call's time is not spent on a ping.
func TestAServerThatHasAnsweredGetsNoPing(t *testing.T) {
	for _, result := range []string{
		`{"content":[{"type":"text","text":5}]}`, `{"content":[{"type":"video","data":"AAAA"}]}`,
		`{"content":[{"type":"image","mimeType":"a/b","data":"no base64"}]}`,
	} {
		t.Run(result, func(t *testing.T) {
			var pings atomic.Int64
			address, requests := scripted(t, map[string]func(json.RawMessage) string{
				"tools/call": always(result),
				"ping": func(json.RawMessage) string {
					pings.Add(1)
					return `{}`
				},
			})
			s := (&mcptool.Kind{Client: http.DefaultClient}).Session(tool.Endpoint{URL: address})
			defer s.End()
			for n := range 3 {
				_, err := ask(t.Context(), s, "act")
				var failure *tool.Error
				require.ErrorAs(t, err, &failure)
				assert.Equal(t, int64(3+n), requests.Load(), "it is the same session")
			}
			assert.Zero(t, pings.Load())
		})
	}
}
