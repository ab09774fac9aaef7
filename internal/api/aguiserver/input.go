package aguiserver

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/api/bridge"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/run/files"
	"agentplatform/internal/run/intake"
	"agentplatform/internal/store/record"
)

// Bounds of a request; those of texts are intake's.
const (
	maxMessages = 10_000 // a thread is sent whole each time
	maxMember   = 1024   // bytes of a message's id
	maxContext  = 1000   // entries
	maxResume   = 1000   // entries
	maxRunID    = intake.MaxKey - len("agui/0123456789abcdef01234567/0123456789abcdef/")
)

// message is a message of a thread, of any role.
type message struct {
	ID         string          `json:"id"`
	Role       string          `json:"role"`
	Content    json.RawMessage `json:"content"`
	ToolCalls  []toolCall      `json:"toolCalls"`
	ToolCallID string          `json:"toolCallId"`
	Error      string          `json:"error"`

	raw json.RawMessage
}

type turn struct {
	RunAgentInput

	list []message
}

// readTurn checks a request by itself. It returns a problem of kind Invalid with the field.
func readTurn(in RunAgentInput) (turn, error) {
	t := turn{RunAgentInput: in}
	switch {
	case !intake.ValidChatID(in.ThreadID):
		return t, problem.InvalidField("body.threadId", "must have 1 to 128 characters of A-Z a-z 0-9 . _ : -")
	case in.RunID == "" || len(in.RunID) > maxRunID || strings.ContainsFunc(in.RunID, unprintable):
		return t, problem.InvalidField("body.runId", "must have 1 to %d printable ASCII characters", maxRunID)
	case len(in.Context) > maxContext:
		return t, problem.InvalidField("body.context", "must have at most %d entries", maxContext)
	case len(in.Resume) > maxResume:
		return t, problem.InvalidField("body.resume", "must have at most %d entries", maxResume)
	case bridge.IsNull(in.Messages):
		return t, problem.InvalidField("body.messages", "is required")
	}
	var raw []json.RawMessage
	if err := intake.Decode("body.messages", in.Messages, &raw); err != nil {
		return t, err
	}
	if len(raw) > maxMessages {
		return t, problem.InvalidField("body.messages", "must have at most %d messages", maxMessages)
	}
	for i, r := range raw {
		at := fmt.Sprintf("body.messages[%d]", i)
		m := message{raw: r}
		if err := intake.Decode(at, r, &m); err != nil {
			return t, err
		}
		switch {
		case m.ID == "" || len(m.ID) > maxMember:
			return t, problem.InvalidField(at+".id", "must have 1 to %d bytes", maxMember)
		case m.Role == "":
			return t, problem.InvalidField(at+".role", "is required")
		}
		t.list = append(t.list, m)
	}
	return t, nil
}

func unprintable(r rune) bool { return r < ' ' || r > '~' }

// fresh is the part of a request that the thread does not have yet.
type fresh struct {
	before []record.ContextMessage
	at     []int    // the messages that those were
	text   []string // of the messages of the user that it ends with
	textAt []int    // those messages
	each   []media  // of those messages
	media  media    // that come with them
}

// media are the files that come with a text, and the files that the text names by an address.
type media struct {
	files     []files.Inline
	addresses []address
	refused   error // why a message with them is refused; other media are not considered
}

type address struct {
	at, url string
	id      string // of the file of ours, once it was read
	earlier bool   // of a message before the last
}

func (m *media) count() int { return len(m.files) + len(m.addresses) }

func (m *media) add(of media) {
	m.files, m.addresses = append(m.files, of.files...), append(m.addresses, of.addresses...)
	m.refused = cmp.Or(m.refused, of.refused)
}

// together are the media of the user's last messages. The media of the last message are refused where they are wrong. A
// front end keeps a message that was refused, and sends it again each time. Therefore wrong media of an earlier message
// are left out, and so are media that would be too many with the later ones.
func together(list []media) (all media, err error) {
	for i, m := range slices.Backward(list) {
		earlier := i < len(list)-1
		if earlier && (m.refused != nil || m.count()+all.count() > intake.MaxFiles) {
			continue
		}
		for n := range m.addresses {
			m.addresses[n].earlier = earlier
		}
		m.add(all)
		all = m
	}
	return all, all.refused
}

// asks reports whether the messages end with messages of the user.
func (f *fresh) asks() bool { return len(f.each) > 0 }

func (f *fresh) message() string { return strings.Join(f.text, "\n\n") }

// since reads the messages from one on. It leaves out messages of an unknown role, and data that an application shows
// next to the conversation, as the protocol demands.
func (t *turn) since(from int) (f fresh, err error) {
	for i := from; i < len(t.list); i++ {
		m := t.list[i]
		at := fmt.Sprintf("body.messages[%d]", i)
		switch m.Role {
		case "user":
			err = f.user(at, i, m)
		case "assistant":
			f.close()
			err = f.assistant(at, i, m)
		case "tool":
			f.close()
			err = f.tool(at, i, m)
		}
		if err == nil && len(f.before) > intake.MaxBefore {
			err = problem.InvalidField(at, "exceeds the limit of %d new messages", intake.MaxBefore)
		}
		if err != nil {
			return f, err
		}
	}
	f.media, err = together(f.each)
	return f, err
}

// close ends the user's messages so far, because another role follows. Only the last messages may have files.
func (f *fresh) close() {
	for n, text := range f.text {
		f.add(f.textAt[n], record.ContextMessage{Role: record.RoleUser, Text: text})
	}
	f.text, f.textAt, f.each = nil, nil, nil
}

func (f *fresh) add(i int, s record.ContextMessage) {
	f.before, f.at = append(f.before, s), append(f.at, i)
}

func (f *fresh) user(at string, i int, m message) error {
	text, of, err := content(at+".content", m.Content)
	if err != nil {
		return err
	}
	if text != "" {
		f.text, f.textAt = append(f.text, text), append(f.textAt, i)
	}
	if of.count() > intake.MaxFiles {
		of.add(media{refused: problem.InvalidField(at+".content", "at most %d files may be sent", intake.MaxFiles)})
	}
	f.each = append(f.each, of)
	return nil
}

func (f *fresh) assistant(at string, i int, m message) error {
	text, _, err := content(at+".content", m.Content)
	if err != nil {
		return err
	}
	msg := record.ContextMessage{Role: record.RoleAssistant, Text: text}
	for n, c := range m.ToolCalls {
		arguments, err := bridge.Arguments(fmt.Sprintf("%s.toolCalls[%d].function.arguments", at, n),
			c.Function.Arguments)
		if err != nil {
			return err
		}
		msg.Calls = append(msg.Calls, record.ContextCall{ID: c.ID, Name: c.Function.Name, Arguments: arguments})
	}
	f.add(i, msg)
	return nil
}

func (f *fresh) tool(at string, i int, m message) error {
	text, err := m.output(at)
	if err != nil {
		return err
	}
	if !bridge.Called(f.before, m.ToolCallID) {
		if _, ours := runOf("call_", m.ToolCallID); ours { // which waits for it no more
			return nil
		}
		return problem.InvalidField(at+".toolCallId", "must be the id of a call that waits for its output")
	}
	f.add(i, record.ContextMessage{Role: record.RoleTool, Call: m.ToolCallID, Text: text})
	return nil
}

// output is the text of a tool's message, with its error in front.
func (m message) output(at string) (string, error) {
	text, _, err := content(at+".content", m.Content)
	if m.Error != "" {
		text = strings.TrimSpace("error: " + m.Error + "\n" + text)
	}
	return text, err
}

type part struct {
	Type   string `json:"type"`
	Text   string `json:"text"`
	Source struct {
		Type     string `json:"type"`
		Value    string `json:"value"`
		MimeType string `json:"mimeType"`
	} `json:"source"`
	Metadata json.RawMessage `json:"metadata"`

	// Of type binary, which version 1.0 has no more.
	MimeType string `json:"mimeType"`
	Data     string `json:"data"`
	URL      string `json:"url"`
	ID       string `json:"id"`
	Filename string `json:"filename"`
}

// content reads a text, or parts of content. Parts of an unknown kind are left out, as the protocol demands.
func content(at string, raw json.RawMessage) (text string, m media, err error) {
	if bridge.IsNull(raw) || json.Unmarshal(raw, &text) == nil {
		return text, m, nil
	}
	var parts []part
	if err := intake.Decode(at, raw, &parts); err != nil {
		return "", m, err
	}
	var texts []string
	for i, p := range parts {
		at := fmt.Sprintf("%s[%d]", at, i)
		if p.Type == "text" {
			texts = append(texts, p.Text)
			continue
		}
		m.add(p.media(at))
	}
	return strings.Join(texts, "\n"), m, nil
}

// media is the file of a part. An address is checked when its message is sent: only addresses of files of ours are
// good.
func (p part) media(at string) media {
	switch {
	case p.Source.Type == "data":
		return inline(files.Decode(at+".source.value", p.name(), p.Source.MimeType, p.Source.Value))
	case p.Source.Type == "url":
		return media{addresses: []address{{at: at + ".source.value", url: p.Source.Value}}}
	case p.Type != "binary":
		return media{}
	case p.Data != "":
		return inline(files.Decode(at+".data", p.Filename, p.MimeType, p.Data))
	case p.URL != "":
		return media{addresses: []address{{at: at + ".url", url: p.URL}}}
	case p.ID != "":
		return media{refused: problem.InvalidField(at+".id", "must contain data, or the url of a file of "+
			"this service")}
	}
	return media{refused: problem.InvalidField(at+".data", "is required")}
}

func inline(f files.Inline, err error) media {
	if err == nil && len(f.Data) > files.MaxSize {
		err = problem.New(problem.TooLarge, "payload_too_large", "the file %s has more than %d bytes", f.Name,
			files.MaxSize)
	}
	if err != nil {
		return media{refused: err}
	}
	return media{files: []files.Inline{f}}
}

// name is the name that the part's metadata has.
func (p part) name() string {
	var of struct {
		Filename string `json:"filename"`
	}
	_ = json.Unmarshal(p.Metadata, &of) // of other metadata, nothing
	return of.Filename
}

// runContext returns the request's part apart from its message. Instructions are the messages of system and developer,
// at any place, and the entries of context.
func (t *turn) runContext(f fresh) (*record.Context, error) {
	c := &record.Context{Before: f.before}
	var texts []string
	for i, m := range t.list {
		if m.Role != "system" && m.Role != "developer" {
			continue
		}
		text, _, err := content(fmt.Sprintf("body.messages[%d].content", i), m.Content)
		if err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	if len(t.Context) > 0 {
		lines := []string{"Context that the application provides about this conversation:"}
		for _, e := range t.Context {
			lines = append(lines, e.Description+": "+e.Value)
		}
		texts = append(texts, strings.Join(lines, "\n"))
	}
	c.Instructions = strings.Join(texts, "\n\n")
	for i, tool := range t.Tools {
		if tool.Name == model.AskUser || tool.Name == model.Search {
			return nil, problem.InvalidField(fmt.Sprintf("body.tools[%d].name", i),
				"must not be %s: the service has a tool of that name", tool.Name)
		}
		c.Functions = append(c.Functions, bridge.Function(tool.Name, tool.Description, tool.Parameters))
	}
	echoed := echo{Run: t.RunID}
	for _, m := range slices.Backward(t.list) {
		if slices.Contains(conversing, m.Role) { // an application may put its instructions last in every request
			echoed.Message = m.ID
			break
		}
	}
	var err error
	c.Echo, err = json.Marshal(echoed)
	return c, err
}

// conversing are the roles of messages that are a conversation's.
var conversing = []string{"user", "assistant", "tool"}

// echo is the part of its first request that a run keeps.
type echo struct {
	Run     string `json:"agui_run,omitempty"`
	Message string `json:"agui_message,omitempty"` // the last of the conversation then
}

var (
	beforeIndex = regexp.MustCompile(`^context\.before\[(\d+)\]`)
	fields      = strings.NewReplacer(
		"context.functions", "body.tools", "context.before", "body.messages", "context.instructions", "body.context",
		"context.echo", "body.messages",
	)
	members = strings.NewReplacer(".calls[", ".toolCalls[", ".call", ".toolCallId", ".text", ".content",
		".arguments", ".function.arguments", ".name", ".function.name")
)

// requestField is the name that the request has for a field of ours.
func (f *fresh) requestField(location string) string {
	for i, a := range f.media.addresses {
		if location == fmt.Sprintf("file_ids[%d]", i) {
			return a.at
		}
	}
	switch location {
	case "message", "files":
		return "body.messages"
	case "chat_id":
		return "body.threadId"
	}
	if strings.HasPrefix(location, "body.decisions") {
		return "body.resume"
	}
	found := beforeIndex.FindStringSubmatch(location)
	if found == nil {
		return fields.Replace(location)
	}
	n, err := strconv.Atoi(found[1])
	if err != nil || n >= len(f.at) {
		return "body.messages"
	}
	return fmt.Sprintf("body.messages[%d]%s", f.at[n], members.Replace(location[len(found[0]):]))
}
