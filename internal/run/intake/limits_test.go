package intake_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/run/intake"
	"agentplatform/internal/store/record"
)

// about returns the field that an error names; empty for none, and for errors of other kinds.
func about(err error) string {
	p, ok := problem.As(err)
	if !ok || p.Kind != problem.Invalid || len(p.Fields) != 1 {
		return ""
	}
	return p.Fields[0].Location
}

// Each text of a client is accepted at its greatest length and refused one beyond.
func TestTextsBeyondTheirLimitsAreRefused(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	post := func(change func(m *intake.Message)) error {
		m := intake.Message{AgentID: "none", Text: "x"}
		change(&m)
		_, err := w.Post(ctx, w.who, m)
		require.Error(t, err)
		return err
	}
	resume := func(by string, d record.Decision) error {
		_, err := w.Resume(ctx, w.who, "none", by, []record.Decision{{InterruptID: "i", Decision: "approve"}, d}, nil,
			nil)
		require.Error(t, err)
		return err
	}
	for field, c := range map[string]struct {
		most int
		send func(n int) error
	}{
		"message": {intake.MaxMessage, func(n int) error {
			return post(func(m *intake.Message) { m.Text = strings.Repeat("x", n) })
		}},
		"chat_id": {128, func(n int) error {
			return post(func(m *intake.Message) { m.ChatID = strings.Repeat("x", n) })
		}},
		"title": {200, func(n int) error {
			return post(func(m *intake.Message) { m.Title = strings.Repeat("ü", n) })
		}},
		"files": {10, func(n int) error {
			return post(func(m *intake.Message) { m.Files = make([]record.FileRef, n) })
		}},
		"idempotency_key": {255, func(n int) error {
			return post(func(m *intake.Message) { m.Key = strings.Repeat("x", n) })
		}},
		"body.reason": {1000, func(n int) error {
			return second(w.Cancel(ctx, w.who, "none", strings.Repeat("ü", n)))
		}},
		"body.decided_by": {200, func(n int) error {
			return resume(strings.Repeat("ü", n), record.Decision{InterruptID: "j", Decision: "reject"})
		}},
		"body.decisions[1].message": {intake.MaxMessage, func(n int) error {
			return resume("", record.Decision{InterruptID: "j", Decision: "answer", Message: strings.Repeat("x", n)})
		}},
		"body.decisions": {intake.MaxFiles, func(n int) error {
			return resume("", record.Decision{
				InterruptID: "j", Decision: "reject", Files: make([]record.FileRef, n),
			})
		}},
		"body.message": {intake.MaxMessage, func(n int) error {
			return second(w.Followup(ctx, w.who, "none", strings.Repeat("x", n), ""))
		}},
		"metadata": {16, func(n int) error {
			return post(func(m *intake.Message) {
				m.Metadata = map[string]string{}
				for i := range n {
					m.Metadata[fmt.Sprint(i)] = ""
				}
			})
		}},
		"metadata ": {64, func(n int) error {
			return post(func(m *intake.Message) { m.Metadata = map[string]string{strings.Repeat("ü", n): ""} })
		}},
		"metadata  ": {1024, func(n int) error {
			return post(func(m *intake.Message) { m.Metadata = map[string]string{"": strings.Repeat("ü", n)} })
		}},
	} {
		assert.Empty(t, about(c.send(c.most)), "%s of %d", field, c.most)
		assert.Equal(t, strings.TrimSpace(field), about(c.send(c.most+1)), "%s of %d", field, c.most+1)
	}
	for name, c := range map[string]struct {
		err   error
		field string
	}{
		"nothing":              {post(func(m *intake.Message) { m.Text = "" }), "message"},
		"a file alone":         {post(func(m *intake.Message) { m.Text, m.Files = "", make([]record.FileRef, 1) }), ""},
		"no UTF-8":             {post(func(m *intake.Message) { m.Text = "\xff" }), "message"},
		"no UTF-8 in a title":  {post(func(m *intake.Message) { m.Title = "\xff" }), "title"},
		"all of ASCII":         {post(func(m *intake.Message) { m.Key = " ~" }), ""},
		"a control character":  {post(func(m *intake.Message) { m.Key = "\x1f" }), "idempotency_key"},
		"what cannot be shown": {post(func(m *intake.Message) { m.Key = "\x7f" }), "idempotency_key"},
		"a followup's key":     {second(w.Followup(ctx, w.who, "none", "x", "\n")), "body.idempotency_key"},
		"nobody's interrupt":   {resume("", record.Decision{Decision: "approve"}), "body.decisions[1].interrupt_id"},
		"an unknown decision": {
			resume("", record.Decision{InterruptID: "j", Decision: "perhaps"}), "body.decisions[1].decision",
		},
		"no arguments": {
			resume("", record.Decision{InterruptID: "j", Decision: "edit"}), "body.decisions[1].arguments",
		},
		"arguments": {
			resume("", record.Decision{InterruptID: "j", Decision: "edit", Arguments: json.RawMessage(`{}`)}), "",
		},
		"no answer": {
			resume("", record.Decision{InterruptID: "j", Decision: "answer"}), "body.decisions[1].message",
		},
		"a silent rejection": {resume("", record.Decision{InterruptID: "j", Decision: "reject"}), ""},
	} {
		assert.Equal(t, c.field, about(c.err), name)
	}
}

func second[T any](_ T, err error) error { return err }

func TestChatIDHasLimitedCharacters(t *testing.T) {
	const allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._:-"
	for c := range 256 {
		text := string([]byte{'x', byte(c), 'x'})
		assert.Equal(t, strings.IndexByte(allowed, byte(c)) >= 0, intake.ValidChatID(text), "%q", text)
	}
	assert.False(t, intake.ValidChatID(""))
	assert.True(t, intake.ValidChatID("x"))
}

// A chat's title is the requested one, or the first line of the first message, shortened.
func TestChatTitleDefaultsToTheFirstLine(t *testing.T) {
	w := newWorld(t)
	long := strings.Repeat("ü", 81)
	for _, c := range []struct{ title, text, want string }{
		{"", "one line", "one line"}, {"", "one\ntwo\nthree", "one"}, {"asked for", "text", "asked for"},
		{"", long[:160], long[:160]}, {"", long, long[:158] + "…"}, {"", "\nx", ""},
	} {
		posted, err := w.Post(t.Context(), w.who, intake.Message{AgentID: w.agent, Text: c.text, Title: c.title})
		require.NoError(t, err)
		chat, err := w.Chat(t.Context(), w.who, posted.Run.Chat)
		require.NoError(t, err)
		assert.Equal(t, c.want, chat.Value.Title)
		_, err = w.Cancel(t.Context(), w.who, posted.Run.ID(), "")
		require.NoError(t, err)
	}
}

// Each stored member of a message comes from the message, also if the message is parked before its run starts.
func TestNothingOfAMessageIsLostOnTheWayToItsRun(t *testing.T) {
	w := newWorld(t)
	message := func(key string) intake.Message {
		return intake.Message{
			Text: "x", ChatID: "c", Files: []record.FileRef{{FileID: w.file()}}, Metadata: map[string]string{"a": "b"},
			CallbackURL: "https://example.com", Key: key, Enqueue: true, Context: &record.Context{Instructions: "i"},
		}
	}
	started, parked := w.post(message("1")), w.post(message("2"))
	require.NotNil(t, parked.Parked)
	w.complete(started.Run.ID())
	for _, run := range []string{started.Run.ID(), parked.Parked.ParkedID} {
		in, err := w.Store.Input(t.Context(), w.run(run))
		require.NoError(t, err)
		stored := reflect.ValueOf(in)
		for i := range stored.NumField() {
			name := stored.Type().Field(i).Name
			assert.False(t, stored.Field(i).IsZero(), "%s: Input.%s is not the message's", run, name)
		}
	}
}

// A retry with a different request is marked, unless one of the requests has no digest, like those of earlier versions.
func TestARetryWithAnotherDigestIsMarked(t *testing.T) {
	for digests, want := range map[[2]string]bool{
		{"a", "a"}: false, {"a", "b"}: true, {"", "a"}: false, {"a", ""}: false,
	} {
		w := newWorld(t)
		post := func(digest string) intake.Posted {
			return w.post(intake.Message{Text: "x", Key: "k", Digest: digest})
		}
		first, again := post(digests[0]), post(digests[1])
		assert.Equal(t, []any{false, false, true, want},
			[]any{first.Replayed, first.Mismatch, again.Replayed, again.Mismatch}, "%q", digests)
		replayed, _, err := w.Replay(t.Context(), w.who, "k", digests[1])
		require.NoError(t, err)
		assert.Equal(t, want, replayed.Mismatch)
	}
}

// A retry to a chat that its sender may no longer see is refused. Nothing of the earlier request is returned.
func TestARetryToAChatOutOfSightReturnsNothing(t *testing.T) {
	w := newWorld(t)
	colleague := w.who
	colleague.User, colleague.Level, colleague.Shared = "colleague", tenant.LevelRun, true
	w.post(intake.Message{Text: "x", ChatID: "c"})
	again := intake.Message{AgentID: w.agent, Text: "y", ChatID: "c", Key: "k", Digest: "a", Enqueue: true}
	_, err := w.Post(t.Context(), colleague, again)
	require.NoError(t, err)
	colleague.Shared = false
	again.Digest = "b"
	posted, err := w.Post(t.Context(), colleague, again)
	assert.Equal(t, "insufficient_permission", code(err))
	assert.Equal(t, intake.Posted{}, posted)
	posted, found, err := w.Replay(t.Context(), colleague, "k", "b")
	assert.True(t, found)
	assert.Equal(t, "insufficient_permission", code(err))
	assert.Equal(t, intake.Posted{}, posted)
}

// For a deleted chat a member gets "not found", not that it belongs to another user.
func TestAMessageToADeletedChatIsNotFound(t *testing.T) {
	w := newWorld(t)
	member := w.who
	member.User, member.Level, member.Shared = "member", tenant.LevelRun, false
	message := intake.Message{AgentID: w.agent, Text: "x"}
	posted, err := w.Post(t.Context(), member, message)
	require.NoError(t, err)
	message.ChatID = posted.Run.Chat
	_, err = w.DeleteChat(t.Context(), member, message.ChatID)
	require.NoError(t, err)
	_, err = w.Post(t.Context(), member, message)
	assert.Equal(t, "not_found", code(err))
}

// Clients cannot write dots alone in a path: they mean a folder.
func TestAChatIDOfDotsAloneIsRefused(t *testing.T) {
	for id, valid := range map[string]bool{
		".": false, "..": false, "....": false, strings.Repeat(".", 128): false, "": false,
		".a": true, "a..": true, ".-.": true, ":": true, "._": true,
	} {
		assert.Equal(t, valid, intake.ValidChatID(id), id)
	}
}

// Libraries write the members of one value in any order.
func TestEqualRequestsHaveOneDigest(t *testing.T) {
	of := func(raw string) string { return intake.Digest(map[string]any{"input": json.RawMessage(raw), "n": 1}) }
	assert.Equal(t, of(`[{"role":"user","content":"x"}]`), of(`[ {"content": "x", "role": "user"} ]`))
	assert.NotEqual(t, of(`[{"role":"user","content":"x"}]`), of(`[{"role":"user","content":"y"}]`))
	assert.NotEqual(t, of(`[9007199254740993]`), of(`[9007199254740992]`))
	assert.NotEqual(t, of(`["a","b"]`), of(`["b","a"]`))
}
