package responses

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/platform/problem"
	"agentplatform/internal/run/files"
	"agentplatform/internal/run/intake"
	"agentplatform/internal/store/record"
)

func nothingKnown(id string) (ResponseItem, error) {
	return ResponseItem{}, problem.Missing("item " + id)
}

// The items of a client keep their order: instructions, the conversation before, the message.
func TestInputIsReadInItsOrder(t *testing.T) {
	in, err := readInput(json.RawMessage(`[
		{"role":"system","content":"Be brief."},
		{"role":"user","content":[{"type":"input_text","text":"one"},{"type":"input_text","text":"two"}]},
		{"type":"reasoning","id":"rs_1","summary":[]},
		{"role":"assistant","content":[{"type":"output_text","text":"I look."},{"type":"refusal","refusal":"No."}]},
		{"type":"function_call","call_id":"c","name":"f","arguments":"{\"a\":1}"},
		{"type":"function_call","call_id":"d","name":"g","arguments":""},
		{"type":"function_call_output","call_id":"c","output":"out"},
		{"type":"function_call_output","call_id":"d","output":[{"type":"input_text","text":"more"}]},
		{"role":"developer","content":"Be kind."},
		{"role":"user","content":"three"},{"role":"user","content":"four"}]`), nothingKnown)
	require.NoError(t, err)
	assert.Equal(t, []spoken{{"system", "Be brief."}, {"developer", "Be kind."}}, in.system)
	assert.Equal(t, []record.ContextMessage{
		{Role: record.RoleUser, Text: "one\ntwo"},
		{Role: record.RoleAssistant, Text: "I look.\nNo.", Calls: []record.ContextCall{
			{
				ID:        "c",
				Name:      "f",
				Arguments: json.RawMessage(`{"a":1}`),
			}, {ID: "d", Name: "g", Arguments: json.RawMessage(`{}`)},
		}},
		{Role: record.RoleTool, Call: "c", Text: "out"}, {Role: record.RoleTool, Call: "d", Text: "more"},
	}, in.before)
	assert.Equal(t, "three\n\nfour", in.message())
	assert.Empty(t, in.outputs, "what was answered is the conversation's")
}

// Outputs with no message after them may answer a run that waits. Outputs of calls that are not in the request can
// serve no other purpose.
func TestOutputsAtTheEndMayAnswer(t *testing.T) {
	const call = "call_65f0a1b2c3d4e5f601234567_65f0a1b2c3d4e5f601234568"
	in, err := readInput(json.RawMessage(`[{"type":"function_call","call_id":"`+call+`","name":"f","arguments":"{}"},
		{"type":"function_call_output","call_id":"`+call+`","output":"x"}]`), nothingKnown)
	require.NoError(t, err)
	require.Len(t, in.outputs, 1)
	assert.False(t, in.outputs[0].alone)
	assert.Equal(t, "65f0a1b2c3d4e5f601234568", in.outputs[0].interrupt)
	in, err = readInput(json.RawMessage(`[{"type":"function_call_output","call_id":"`+call+`","output":"x"},
		{"role":"user","content":"and more"}]`), nothingKnown)
	require.NoError(t, err)
	require.Len(t, in.outputs, 1)
	assert.True(t, in.outputs[0].alone)
	assert.Empty(t, in.before)
}

// Files come as data URLs of either kind, or as bare base64.
func TestFilesOfARequest(t *testing.T) {
	for data, want := range map[string]files.Inline{
		"data:text/plain;base64,aGk=":               {Name: "n", ContentType: "text/plain", Data: []byte("hi")},
		"data:text/plain;charset=utf-8;base64,aGk=": {Name: "n", ContentType: "text/plain", Data: []byte("hi")},
		"data:text/html,%3Cb%3Ehi":                  {Name: "n", ContentType: "text/html", Data: []byte("<b>hi")},
		"data:,hi": {
			Name: "n", ContentType: "application/octet-stream", Data: []byte("hi"),
		},
		"aGk=": {
			Name: "n", ContentType: "application/octet-stream", Data: []byte("hi"),
		},
	} {
		f, err := fileOf("f", "n", data)
		require.NoError(t, err, data)
		assert.Equal(t, want, f, data)
	}
	for _, data := range []string{
		"data:text/plain;base64", "data:text/plain;base64,?", "data:,", "data:,%zz", "http://a/b", "file:///etc/passwd",
		"aGk", "?",
	} {
		_, err := fileOf("f", "n", data)
		p, ok := problem.As(err)
		require.True(t, ok, data)
		assert.Equal(t, "f", p.Fields[0].Location, data)
	}
}

// Ids are read only as they are written.
func TestIdsAreReadAsTheyAreWritten(t *testing.T) {
	for _, r := range []ref{{run: run}, {run: run, part: 1}, {run: run, part: 12}} {
		read, ok := parseRef(r.String())
		assert.True(t, ok)
		assert.Equal(t, r, read)
	}
	for _, id := range []string{
		"", "resp_", "resp_x", "resp_" + run + "_", "resp_" + run + "_0", "resp_" + run + "_01", "resp_" + run + "_-1",
		"resp_" + run + "_1_2", "resp_" + run + "_99999999999999999999", run, "msg_" + run,
	} {
		_, ok := parseRef(id)
		assert.False(t, ok, id)
	}
}

// Any input of a client is read, or refused with a name within it. Input that is read stays within its bounds.
func FuzzInput(f *testing.F) {
	for _, seed := range []string{
		`"hello"`, `[]`, `[{"role":"user","content":"x"}]`, `[{"type":"item_reference","id":"msg_x"}]`, `[{"id":"x"}]`,
		`[{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},` +
			`{"type":"function_call_output","call_id":"c","output":""}]`,
		`[{"type":"mcp_approval_response","approve":true,` +
			`"approval_request_id":"mcpr_65f0a1b2c3d4e5f601234567_65f0a1b2c3d4e5f601234568"}]`,
		`[{"role":"user","content":[{"type":"input_file","file_data":"data:,x"}]}]`,
		`[null]`, `[{"content":null}]`, `7`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) {
			return // the framework refuses it before
		}
		in, err := readInput(raw, nothingKnown)
		if err != nil {
			p, ok := problem.As(err)
			require.True(t, ok, "%v", err)
			require.Equal(t, problem.Invalid, p.Kind)
			require.NotEmpty(t, p.Fields)
			return
		}
		assert.LessOrEqual(t, len(in.before), maxItems)
		assert.LessOrEqual(t, len(in.files)+len(in.fileIDs), 10)
		for _, o := range in.outputs {
			assert.Equal(t, o.run == "", o.interrupt == "")
		}
	})
}

// An item of ours that a request only names is read as if it had been sent whole.
func TestItemsOfOursAreReadBack(t *testing.T) {
	const other = "65f0a1b2c3d4e5f601234568"
	yes, no := true, "no"
	for _, item := range []ResponseItem{
		message("msg_"+run, "assistant", completed, outputText("said", nil)),
		message("msg_"+run+"_in", "user", completed, inputText("asked")),
		callItem(run, other, "f", `{"a":1}`),
		{Type: "mcp_approval_request", ID: nameOf("mcpr_", run, other), Name: "f", Arguments: new("{}")},
		{Type: "mcp_approval_response", ID: nameOf("mcpa_", run, other), Request: nameOf("mcpr_", run, other),
			Approve: &yes, Reason: &no},
		{Type: "function_call_output", ID: nameOf("fco_", run, other), CallID: nameOf("call_", run, other),
			Output: new("out")},
	} {
		whole, err := json.Marshal([]ResponseItem{item})
		require.NoError(t, err)
		sent, err := readInput(whole, nothingKnown)
		require.NoError(t, err, "%s", whole)
		named, err := readInput(json.RawMessage(`[{"type":"item_reference","id":"`+item.ID+`"}]`),
			func(string) (ResponseItem, error) { return item, nil })
		require.NoError(t, err, item.Type)
		assert.Equal(t, sent, named, item.Type)
	}
}

// A conversation that a client keeps and sends again, with an approval or a file in it, waits for nothing.
func TestAConversationIsNotAnAnswer(t *testing.T) {
	const question = `{"role":"user","content":[{"type":"input_text","text":"look"},
		{"type":"input_image","image_url":"data:image/png;base64,aGk="}]},`
	const approval = `{"type":"mcp_approval_request","id":"mcpr_65f0a1b2c3d4e5f601234567_65f0a1b2c3d4e5f601234568"},
		{"type":"mcp_approval_response","approval_request_id":"mcpr_65f0a1b2c3d4e5f601234567_65f0a1b2c3d4e5f601234568",
		"approve":true}`
	for input, outputs := range map[string]int{
		`[` + question + approval + `]`: 1,
		`[` + question + approval + `,{"role":"assistant","content":"done"},{"role":"user","content":"thanks"}]`: 0,
		`[` + approval + `,{"role":"assistant","content":"done"}]`:                                               0,
		`[` + question + `{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},
			{"type":"function_call_output","call_id":"c","output":"x"},
			{"type":"function_call","call_id":"d","name":"f","arguments":"{}"},
			{"type":"function_call_output","call_id":"d","output":"x"}]`: 2,
	} {
		in, err := readInput(json.RawMessage(input), nothingKnown)
		require.NoError(t, err, input)
		assert.Len(t, in.outputs, outputs, input)
		assert.Zero(t, in.current(), "files of earlier messages are not those of the last: %s", input)
	}
}

func TestOnlyWhatFormsTheAnswerIsEchoedOfItsFormat(t *testing.T) {
	const array = `{"type":"json_schema","name":"n","schema":{"type":"array"}}`
	for format, want := range map[string]string{
		`{"type":"text","name":"n","schema":0,"strict":true}`:  `{"type":"text"}`,
		`{"type":"json_object","schema":[],"description":"d"}`: `{"type":"json_object"}`,
		array: array,
		`{"type":"json_schema","name":"n","schema":true}`: "body.text.format.schema: must be an object",
		`{"type":"json_schema","name":"n","schema":null}`: "body.text.format.schema: is required",
		`{"type":"json_schema","name":"n"}`:               "body.text.format.schema: is required",
		`{"type":"xml"}`: "body.text.format.type: must be text, " +
			"json_object or json_schema",
	} {
		var r CreateResponse
		require.NoError(t, json.Unmarshal([]byte(`{"text":{"format":`+format+`}}`), &r))
		c, _, err := r.context(input{})
		if p, ok := problem.As(err); ok {
			assert.Equal(t, want, p.Fields[0].Location+": "+p.Fields[0].Message, format)
			continue
		}
		var e echo
		require.NoError(t, json.Unmarshal(c.Echo, &e))
		raw, err := json.Marshal(e.Format)
		require.NoError(t, err)
		assert.JSONEq(t, want, string(raw), format)
	}
}

const badChoice = `must be auto, none, required, or {"type": "function", "name": …} with a function of tools`

// Members that are read with the body are refused in the same words as those that are read later.
func TestWhatNoAgentCanDoIsRefused(t *testing.T) {
	for member, wantErr := range map[string]string{
		`"reasoning":"x"`:                "body.reasoning: must be an object",
		`"reasoning":{"effort":7}`:       "body.reasoning.effort: must be a string",
		`"reasoning":{"summary":"long"}`: "body.reasoning.summary: must be auto, concise or detailed",
		`"reasoning":{"summary":"auto"}`: "",
		`"reasoning":{"effort":null}`:    "", `"reasoning":{"effort":"high","summary":null}`: "",
		`"stream_options":[]`: "body.stream_options: must be an object",
		`"stream_options":{"include_obfuscation":true}`: "body.stream_options.include_obfuscation: must be false: " +
			"obfuscation is not supported",
		`"stream_options":{"include_obfuscation":null}`: "",
		`"tool_choice":{"type":"function"}`:             "body.tool_choice: " + badChoice,
		`"tool_choice":{"type":"allowed_tools"}`:        "body.tool_choice: " + badChoice,
		`"tool_choice":"any"`:                           "body.tool_choice: " + badChoice,
		`"tool_choice":["none"]`:                        "body.tool_choice: " + badChoice,
		`"tool_choice":"auto"`:                          "",
		`"tool_choice":"none"`:                          "",
		`"tool_choice":"required"`:                      "",
		`"tool_choice":{"type":"function","name":"f"}`:  "",
		`"store":false`:                                 "",
		`"store":false,"background":true`:               "body.store: must be true if background is true",
		`"store":false,"conversation":"c"`:              "body.store: must be true if conversation is sent",
		`"parallel_tool_calls":false`:                   "",
		`"include":["x","message.output_text.logprobs"]`: "body.include[1]: " +
			"message.output_text.logprobs is not supported",
		`"top_p":0.5`: "", `"top_p":0`: "", `"top_p":1.1`: "body.top_p: must be between 0 and 1",
		`"top_p":1,"store":true,"parallel_tool_calls":true`: "",
		`"frequency_penalty":0.1`: "body.frequency_penalty: must be 0: " +
			"other values are not supported",
	} {
		var r CreateResponse
		err := intake.Decode("body", json.RawMessage(`{"model":"m","input":"x",`+member+`}`), &r)
		if err == nil {
			err = r.check()
		}
		if p, ok := problem.As(err); ok || wantErr != "" {
			require.True(t, ok, member)
			assert.Equal(t, wantErr, p.Fields[0].Location+": "+p.Fields[0].Message, member)
		}
	}
}

// Texts that were joined to the instructions are parted again, with any texts.
func TestInstructionsArePartedAgain(t *testing.T) {
	for _, own := range []string{"", "own", "own\n\nmore", "own\n\n"} {
		for _, instructions := range [][]spoken{
			nil, {{"system", "a"}}, {{"developer", "a\n\nb"}, {"system", ""}, {"system", "\n\nc"}},
			{{"system", ""}, {"system", "a"}},
		} {
			c, _, err := (&CreateResponse{Instructions: own}).context(input{system: instructions})
			require.NoError(t, err)
			var e echo
			require.NoError(t, json.Unmarshal(c.Echo, &e))
			gotOwn, got := e.instructions(c.Instructions)
			assert.Equal(t, own, gotOwn, instructions)
			assert.Equal(t, instructions, got, own)
		}
	}
}
