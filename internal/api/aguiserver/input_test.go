package aguiserver

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/api/bridge"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/run/files"
	"agentplatform/internal/store/record"
)

const run = "0123456789abcdef01234567"

// input is a request with these messages.
func input(t *testing.T, messages string) RunAgentInput {
	t.Helper()
	return RunAgentInput{ThreadID: "t", RunID: "r", Messages: json.RawMessage(messages)}
}

func turnOf(t *testing.T, messages string) *turn {
	t.Helper()
	read, err := readTurn(input(t, messages))
	require.NoError(t, err)
	return &read
}

// wrong checks that an error names a field.
func wrong(t *testing.T, err error, field string) {
	t.Helper()
	p, ok := problem.As(err)
	require.True(t, ok, "%v", err)
	assert.Equal(t, problem.Invalid, p.Kind)
	require.Len(t, p.Fields, 1)
	assert.Equal(t, field, p.Fields[0].Location)
}

func withMessages(messages string) func(*RunAgentInput) {
	return func(in *RunAgentInput) { in.Messages = json.RawMessage(messages) }
}

func TestWhatIsWrongInARequestIsNamed(t *testing.T) {
	const hello = `{"id":"m","role":"user","content":"hello"}`
	many := strings.Repeat(hello+",", maxMessages) + hello
	for field, change := range map[string]func(*RunAgentInput){
		"body.threadId":              func(in *RunAgentInput) { in.ThreadID = "a b" },
		"body.runId":                 func(in *RunAgentInput) { in.RunID = strings.Repeat("r", maxRunID+1) },
		"body.messages":              withMessages("[" + many + "]"),
		"body.messages[0]":           withMessages(`["hello"]`),
		"body.messages[0].id":        withMessages(`[{"role":"user"}]`),
		"body.messages[0].role":      withMessages(`[{"id":"m"}]`),
		"body.messages[0].error":     withMessages(`[{"id":"m","error":7}]`),
		"body.context":               func(in *RunAgentInput) { in.Context = make([]AGUIContext, maxContext+1) },
		"body.resume":                func(in *RunAgentInput) { in.Resume = make([]AGUIResume, maxResume+1) },
		"body.messages[0].toolCalls": withMessages(`[{"id":"m","toolCalls":{}}]`),
	} {
		in := input(t, "["+hello+"]")
		_, err := readTurn(in)
		require.NoError(t, err)
		change(&in)
		_, err = readTurn(in)
		wrong(t, err, field)
	}
	for _, id := range []string{"a", strings.Repeat("c", 128), "A.z_0:-"} {
		in := input(t, "["+hello+"]")
		in.ThreadID = id
		_, err := readTurn(in)
		require.NoError(t, err)
	}
}

func TestContentThatNobodyCanUseIsLeftOut(t *testing.T) {
	f, err := turnOf(t, `[{"id":"m","role":"user","content":[{"type":"text","text":"see"},{"type":"smell"},
		{"type":"image","source":{"type":"data","value":"aGk=","mimeType":"image/png"}}]},
		{"id":"a","role":"activity","content":{"x":1}},{"id":"n","role":"narrator","content":7}]`).since(0)
	require.NoError(t, err)
	assert.Equal(t, "see", f.message())
	assert.Equal(t, []files.Inline{{Name: "file.png", ContentType: "image/png", Data: []byte("hi")}}, f.media.files)
	for content, field := range map[string]string{
		`7`: "", `{"a":1}`: "", `["a"]`: "[0]", `[{"type":"text","text":7}]`: "[0].text",
		`[{"type":"image","source":{"type":"data","value":"?"}}]`: "[0].source.value",
	} {
		_, err := turnOf(t, `[{"id":"m","role":"user","content":`+content+`}]`).since(0)
		wrong(t, err, "body.messages[0].content"+field)
	}
	many := strings.Repeat(`{"type":"image","source":{"type":"data","value":"aGk="}},`, 11)
	_, err = turnOf(t, `[{"id":"m","role":"user","content":[`+strings.TrimSuffix(many, ",")+`]}]`).since(0)
	wrong(t, err, "body.messages[0].content")
}

// Media come as data, or by the address of a file of ours; in version 0.0.59 also as parts of type binary.
func TestMediaOfAMessage(t *testing.T) {
	w := newWorld(t)
	w.URL = "https://here.test/api/v1"
	kept, err := w.Files.TakeInline(t.Context(), w.who.Organization, w.who.User,
		[]files.Inline{{Name: "b.png", ContentType: "image/png", Data: []byte("b")}})
	require.NoError(t, err)
	ours := w.URL + "/files/" + kept[0].ID
	userMessage := func(parts string) string { return `{"id":"u1","role":"user","content":[` + parts + `]}` }
	run := w.runs("r1", userMessage(`{"type":"text","text":"see"},
		{"type":"binary","data":"aGk=","mimeType":"image/png","filename":"a.png"},
		{"type":"binary","url":"`+ours+`","mimeType":"image/png"},
		{"type":"image","source":{"type":"url","value":"`+ours+`"}}`))[0]
	in, err := w.Store.Input(t.Context(), w.run(run))
	require.NoError(t, err)
	require.Len(t, in.Files, 2)
	assert.Equal(t, kept[0].ID, in.Files[0].FileID)
	assert.Equal(t, "a.png", in.Files[1].Name)
	w.complete(run)
	for part, field := range map[string]string{
		`{"type":"image","source":{"type":"url","value":"https://example.com/a.png"}}`:       "source.value",
		`{"type":"image","source":{"type":"url","value":"` + w.URL + "/files/" + run + `"}}`: "source.value",
		`{"type":"binary","url":"https://example.com/a.png"}`:                                "url",
		`{"type":"binary","id":"x"}`:   "id",
		`{"type":"binary"}`:            "data",
		`{"type":"binary","data":"?"}`: "data",
	} {
		_, err := w.ask("r2", hello+`,{"id":"`+ofPart("msg_", run, 0)+`1","role":"assistant"},`+
			`{"id":"u3","role":"user","content":[{"type":"text","text":"see"},`+part+`]}`)
		p, ok := problem.As(err)
		require.True(t, ok, "%s: %v", part, err)
		require.Len(t, p.Fields, 1, part)
		assert.Equal(t, "body.messages[2].content[1]."+field, p.Fields[0].Location, part)
	}
	for _, part := range []string{
		`{"type":"binary","id":"x"}`, `{"type":"image","source":{"type":"url","value":"https://example.com/a.png"}}`,
	} {
		run = w.runs("r"+part[9:12], hello+`,{"id":"`+ofPart("msg_", run, 0)+`1","role":"assistant"},`+
			`{"id":"u3","role":"user","content":[{"type":"text","text":"see"},`+part+`]},`+
			`{"id":"u4","role":"user","content":"without, then"}`)[0]
		in, err = w.Store.Input(t.Context(), w.run(run))
		require.NoError(t, err, "a front end keeps the message that was refused")
		assert.Equal(t, "see\n\nwithout, then", in.Message)
		w.complete(run)
	}
	f, err := turnOf(t, "["+userMessage(`{"type":"binary","id":"x"}`)+`,{"id":"a","role":"assistant","content":"no"},
		{"id":"u2","role":"user","content":"and?"}]`).since(0)
	require.NoError(t, err, "of a conversation that began elsewhere, files come with the last messages alone")
	assert.Equal(t, "and?", f.message())
}

// A front end keeps a message that was refused for its media, and sends it with each request: it blocks nothing.
func TestRefusedMediaHoldUpNoThread(t *testing.T) {
	const inline = `,{"type":"binary","data":"aGk="}`
	for name, part := range map[string]string{
		"no such file":      `,{"type":"binary","url":"https://here.test/api/v1/files/0123456789abcdef01234567"}`,
		"no base64":         `,{"type":"binary","data":"?"}`,
		"no base64, of 1.0": `,{"type":"image","source":{"type":"data","value":"?"}}`,
		"more than ten":     strings.Repeat(inline, 11),
		"ten and one more":  strings.Repeat(inline, 10) + `,{"type":"binary"}`,
		"too large": `,{"type":"binary","data":"` +
			base64.StdEncoding.EncodeToString(make([]byte, files.MaxSize+1)) + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.URL = "https://here.test/api/v1"
			bad := `{"id":"u1","role":"user","content":[{"type":"text","text":"see"}` + part + `]}`
			_, err := w.ask("r1", bad)
			require.Error(t, err)
			runs := w.runs("r2", bad+`,{"id":"u2","role":"user","content":[{"type":"text","text":"well?"}`+inline+`]}`)
			in, err := w.Store.Input(t.Context(), w.run(runs[0]))
			require.NoError(t, err)
			assert.Equal(t, "see\n\nwell?", in.Message)
			assert.Len(t, in.Files, 1)
		})
	}
}

// Media of several messages are sent together, as long as they are not too many.
func TestMediaOfSeveralMessages(t *testing.T) {
	for n, all := range map[int]int{4: 10, 5: 6} {
		userMessage := func(id string, n int) string {
			return `{"id":"` + id + `","role":"user","content":[` +
				strings.TrimSuffix(strings.Repeat(`{"type":"binary","data":"aGk="},`, n), ",") + `]}`
		}
		f, err := turnOf(t, "["+userMessage("u1", n)+","+userMessage("u2", 6)+"]").since(0)
		require.NoError(t, err)
		assert.Len(t, f.media.files, all)
	}
}

// A conversation that began elsewhere is sent to the model. A fault in it is reported with the message's place.
func TestAConversationThatBeganElsewhere(t *testing.T) {
	read := turnOf(t, `[{"id":"s","role":"system","content":"be kind"},{"id":"u","role":"user","content":"first"},
		{"id":"a","role":"assistant","toolCalls":[{"id":"c","function":{"name":"f","arguments":""}}]},
		{"id":"c1","role":"tool","toolCallId":"c","content":"out","error":"late"},
		{"id":"u2","role":"user","content":"second"},{"id":"d","role":"developer","content":"be short"},
		{"id":"u3","role":"user","content":"third"}]`)
	read.Context = []AGUIContext{{Description: "page", Value: "start"}}
	read.Tools = []AGUITool{{Name: "paint"}}
	f, err := read.since(0)
	require.NoError(t, err)
	assert.Equal(t, "second\n\nthird", f.message())
	c, err := read.runContext(f)
	require.NoError(t, err)
	assert.Equal(t, []record.ContextMessage{
		{Role: record.RoleUser, Text: "first"},
		{Role: record.RoleAssistant,
			Calls: []record.ContextCall{{ID: "c", Name: "f", Arguments: json.RawMessage(`{}`)}}},
		{Role: record.RoleTool, Call: "c", Text: "error: late\nout"},
	}, c.Before)
	assert.Equal(t, "be kind\n\nbe short\n\n"+
		"Context that the application provides about this conversation:\npage: start",
		c.Instructions)
	assert.JSONEq(t, `{"agui_run":"r","agui_message":"u3"}`, string(c.Echo))
	assert.Equal(t, json.RawMessage(`{"type":"object","properties":{}}`), c.Functions[0].Parameters)
	for ours, theirs := range map[string]string{
		"context.before[1].calls[0].id": "body.messages[2].toolCalls[0].id", "message": "body.messages",
		"context.before[2].text": "body.messages[3].content", "context.functions[0].name": "body.tools[0].name",
		"context.before[7]": "body.messages", "chat_id": "body.threadId", "body.decisions[0].message": "body.resume",
	} {
		wrong(t, bridge.Named(problem.InvalidField(ours, "is bad"), f.requestField), theirs)
	}
	read.Tools = []AGUITool{{Name: "ask_user"}}
	_, err = read.runContext(f)
	wrong(t, err, "body.tools[0].name")
	for at, messages := range map[string]string{
		"[0].toolCallId": `[{"id":"c1","role":"tool","toolCallId":"c","content":"out"}]`,
		"[0].toolCalls[0].function.arguments": `[{"id":"a","role":"assistant",
			"toolCalls":[{"function":{"arguments":"{"}}]}]`,
	} {
		_, err := turnOf(t, messages).since(0)
		wrong(t, err, "body.messages"+at)
	}
}

func TestWhatAThreadKnowsIsNotSentAgain(t *testing.T) {
	answerID, called := ofPart("msg_", run, 0)+"1", nameOf("call_", run, run)
	for name, c := range map[string]struct {
		ids   string // of the messages; a @ stands before those of the assistant, a # before outputs of a call of ours
		known string
		first int
	}{
		"the agent's last message":   {"u1 @" + answerID + " u2", "u1", 2},
		"the message that was taken": {"u1 u2", "u1", 1},
		"the output of a call":       {"u1 @" + answerID + " #t u2", "u1", 3},
		"all of it":                  {"u1 @" + answerID, "u1", 2},
		"a message of the page":      {"u1 @" + answerID + " @card u2", "u1", 2},
		"nothing":                    {"x1 @x2 x3 x4", "u1", 2},
		"not in order":               {"@" + answerID + " u1 u2", "u1", 2},
	} {
		b := &beginning{known: []string{c.known}, last: &record.Run{}}
		b.last.RunID = run
		for id := range strings.FieldsSeq(c.ids) {
			m := message{ID: strings.TrimLeft(id, "@#"), Role: "user"}
			switch id[0] {
			case '@':
				m.Role = "assistant"
			case '#':
				m.Role, m.ToolCallID = "tool", called
			}
			b.turn.list = append(b.turn.list, m)
		}
		assert.Equal(t, c.first, b.firstUnknown(), name)
	}
	for _, id := range []string{"", "msg_", "msg_" + run, "call_" + run + "_1", "msg_../_1", "res_1_2_3"} {
		assert.False(t, isOurs(id), id)
	}
}

func TestWhatAnEntryOfResumeDecides(t *testing.T) {
	for payload, want := range map[string]record.Decision{
		`true`:                             {Decision: "approve"},
		`false`:                            {Decision: "reject"},
		`{"approved":false,"reason":"no"}`: {Decision: "reject", Message: "no"},
		`{"approved":true,"editedArgs":{ "a":1 }}`: {Decision: "edit", Arguments: json.RawMessage(`{"a":1}`)},
	} {
		d, err := AGUIResume{Status: "resolved", Payload: json.RawMessage(payload)}.decision("at", true)
		require.NoError(t, err, payload)
		assert.Equal(t, want, d, payload)
	}
	for payload, field := range map[string]string{
		`null`: "", ``: "", `7`: "", `{}`: ".approved", `{"approved":"yes"}`: ".approved", `"yes"`: "",
		`{"approved":true,"editedArgs":[]}`: ".editedArgs",
	} {
		_, err := AGUIResume{Status: "resolved", Payload: json.RawMessage(payload)}.decision("at", true)
		wrong(t, err, "at.payload"+field)
	}
	for payload, want := range map[string]string{
		`"Paris"`: "Paris", `{"answer":"Rome"}`: "Rome", `{"city":1}`: `{"city":1}`,
	} {
		d, err := AGUIResume{Status: "resolved", Payload: json.RawMessage(payload)}.decision("at", false)
		require.NoError(t, err)
		assert.Equal(t, record.Decision{Decision: "answer", Message: want}, d)
	}
	for _, approval := range []bool{true, false} {
		d, err := AGUIResume{Status: "cancelled"}.decision("at", approval)
		require.NoError(t, err)
		assert.Contains(t, d.Message, "dismissed")
		_, err = AGUIResume{Status: "perhaps"}.decision("at", approval)
		wrong(t, err, "at.status")
	}
	_, err := AGUIResume{Status: "resolved", Payload: json.RawMessage(`""`)}.decision("at", false)
	wrong(t, err, "at.payload")
}

func FuzzATurn(f *testing.F) {
	f.Add(`[{"id":"m","role":"user","content":[{"type":"text","text":"x"}]}]`)
	f.Add(fmt.Sprintf(
		`[{"id":"msg_%s_0_1","role":"assistant","toolCalls":[{"id":"c"}]},{"id":"t","role":"tool"}]`, run))
	f.Fuzz(func(t *testing.T, messages string) {
		read, err := readTurn(input(t, messages))
		if err != nil {
			return
		}
		if f, err := read.since(0); err == nil {
			assert.LessOrEqual(t, len(f.text), len(f.each))
			assert.Len(t, f.at, len(f.before))
		}
	})
}
