package record

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"agentplatform/events"
	"agentplatform/internal/store/blob"
	"agentplatform/internal/store/table"
)

// A document is a JSON value next to a run's head: its input, its output, a step, a pause. Up to inlineLimit bytes it
// is in its item. A larger one is put into the blob store before the commit, and the item has the blob's key.
type document struct {
	Doc  json.RawMessage `json:"doc,omitzero"`
	Blob string          `json:"blob,omitzero"`
	Kind StepKind        `json:"kind,omitzero"` // of a step in the blob store; earlier versions did not write it
}

const (
	inlineLimit   = 8 << 10
	headLimit     = 512 // of what is stored in the run's head, to keep that under 1 KB
	documentLimit = 64 << 20
)

// documentBlobs is the prefix of the blobs of a partition's documents. Blobs of refused writes are deleted with it.
func documentBlobs(part string) string { return "documents/" + part + "/" }

// putDocument writes v under a key that must not exist.
func (tx *Tx) putDocument(ctx context.Context, owner string, key table.Key, v any) {
	if tx.err != nil {
		return
	}
	b, err := json.Marshal(v)
	if err != nil {
		tx.fail(fmt.Errorf("%w: %s: %w", ErrUnstorable, key, err))
		return
	}
	d := document{Doc: b}
	if len(b) > documentLimit {
		tx.fail(&table.Error{Kind: table.TooLarge, Err: fmt.Errorf("%s has %d bytes", key, len(b))})
		return
	}
	if len(b) > inlineLimit {
		d = document{Blob: documentBlobs(key.Part) + key.Sort + "/" + tx.writeID}
		if step, is := v.(Step); is {
			d.Kind = step.Kind
		}
		tx.putBlob(ctx, owner, d.Blob, b)
	}
	put(tx, Fresh(d), table.Item{Key: key, Owner: owner})
	tx.grows()
}

// putBlob stores a blob of a document that the commit names.
func (tx *Tx) putBlob(ctx context.Context, owner, key string, b []byte) {
	tx.owner, tx.put = owner, append(tx.put, key)
	err := tx.store.putBlob(ctx, owner, key, b)
	if IsFull(err) {
		tx.dropBlobs(ctx)
	}
	tx.fail(err)
}

func (s *Store) putBlob(ctx context.Context, owner, key string, b []byte) error {
	return s.repeat(ctx, func() error {
		_, err := s.put(ctx, owner, key, bytes.NewReader(b), int64(len(b)))
		return err
	}, func(err error) bool { return !IsFull(err) })
}

// document reads the document under a key; found is false when there is none.
func (s *Store) document(ctx context.Context, key table.Key, into any) (found bool, err error) {
	items, err := s.read(ctx, key)
	if err != nil || items[0] == nil {
		return false, err
	}
	return true, s.open(ctx, items[0], into)
}

// openAll reads those documents that exist under some keys. It decodes each into the value that into returns for its
// index.
func (s *Store) openAll(ctx context.Context, keys []table.Key, into func(at int) any) error {
	items, err := s.readAll(ctx, keys)
	for i, item := range items {
		if err == nil && item != nil {
			err = s.open(ctx, item, into(i))
		}
	}
	return err
}

func (s *Store) open(ctx context.Context, item *table.Item, into any) error {
	e, err := decode[document](item)
	if err != nil {
		return err
	}
	return s.openDocument(ctx, item.Key, e.Value, into)
}

func (s *Store) openDocument(ctx context.Context, key table.Key, d document, into any) (err error) {
	b := []byte(d.Doc)
	if d.Blob != "" {
		if b, err = s.getBlob(ctx, d.Blob); err != nil {
			return fmt.Errorf("record: %s: %w", key, err)
		}
	}
	if err := json.Unmarshal(b, into); err != nil {
		return fmt.Errorf("record: %s: %w", key, err)
	}
	return nil
}

func (s *Store) getBlob(ctx context.Context, key string) (b []byte, err error) {
	for attempt := range maxAttempts {
		if b, err = blob.GetBytes(ctx, s.blobs, key); err == nil {
			return b, nil
		}
		if s.host.Sleep(ctx, s.backOff(min(attempt, 3))) != nil {
			break
		}
	}
	return nil, err
}

// Input is the content of a request besides its specification.
type Input struct {
	Message     string            `json:"message,omitempty"`
	Files       []FileRef         `json:"files,omitempty"`
	Metadata    map[string]string `json:"metadata,omitempty"`
	CallbackURL string            `json:"callback_url,omitempty"`
	Idempotency string            `json:"idempotency,omitempty"` // name of its record, which lives as long as the run
	Context     *Context          `json:"context,omitempty"`
}

// Context is the client's additions to a run's message. All except the conversation is for this run alone.
type Context struct {
	Instructions string           `json:"instructions,omitempty"` // added to the agent's
	Before       []ContextMessage `json:"before,omitempty"`       // a conversation; later runs of the chat see it, too
	Functions    []Function       `json:"functions,omitempty"`
	OutputSchema json.RawMessage  `json:"output_schema,omitempty"` // of an agent that has none
	Temperature  *float64         `json:"temperature,omitempty"`   // instead of the agent's
	MaxTokens    *int             `json:"max_tokens,omitempty"`    // of a model's reply, if it is less than the agent's
	TopP         *float64         `json:"top_p,omitempty"`
	Effort       string           `json:"effort,omitempty"`      // of the model's reasoning
	ToolChoice   ToolChoice       `json:"tool_choice,omitempty"` // until the run pauses
	Tool         string           `json:"tool,omitempty"`        // the function of [OneTool]
	OneCall      bool             `json:"one_call,omitempty"`    // at most one in each reply
	Unstored     bool             `json:"unstored,omitempty"`    // the chat is deleted when the run has ended
	Whole        bool             `json:"whole,omitempty"`       // the run fails where its conversation is too long
	// Echo is for later responses of the endpoint that took the message; nothing else reads it.
	Echo json.RawMessage `json:"echo,omitempty"`
}

// ToolChoice is whether a model calls tools; empty: the model decides. A run that must call a tool has done so with its
// first call: an agent with tools of its own would go on for ever.
type ToolChoice string

// The choices of tools.
const (
	NoTool  ToolChoice = "none"
	AnyTool ToolChoice = "required"
	OneTool ToolChoice = "function"
)

// Function is a tool that the client executes: a call of it pauses the run until the client has sent its output.
type Function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters"` // a JSON schema
}

// ContextMessage is a part of a conversation that a client sends: words of a user or an assistant, or the output of a
// call.
type ContextMessage struct {
	Role  Role          `json:"role"`
	Text  string        `json:"text,omitempty"`
	Calls []ContextCall `json:"calls,omitempty"` // of an assistant
	Call  string        `json:"call,omitempty"`  // of a tool: the id of the call whose output the text is
}

// ContextCall is a call of a function in a conversation that a client sends.
type ContextCall struct {
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
}

// Role is the author of a part of a conversation.
type Role string

// The roles.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
	RoleTool      Role = "tool"
)

// FileRef names a file that came with a message or was made by a tool.
type FileRef struct {
	FileID      string `json:"file_id"`
	Name        string `json:"name"`
	ContentType string `json:"content_type"`
	Size        int64  `json:"size"`
}

// Interrupt is a pending request for human input: the part that clients see, and the model's tool call that it is
// about.
type Interrupt struct {
	events.Interrupt

	Call string `json:"call"`
	// Source and Fingerprint are those of the call, for an approval: the tool that will be called.
	Source      string `json:"source,omitempty"`
	Fingerprint string `json:"fingerprint,omitempty"`
	// Unsure marks a call that was begun before a crash and must not be repeated without a human's decision.
	Unsure bool `json:"unsure,omitempty"`
	// Question identifies the question of a server in the call, which is made again with the answer.
	Question string `json:"question,omitempty"`
}

// Public returns the part of the interrupts that clients see.
func Public(list []Interrupt) []events.Interrupt {
	public := make([]events.Interrupt, 0, len(list))
	for _, i := range list {
		public = append(public, i.Interrupt)
	}
	return public
}

// Decisions is how a pause was decided.
type Decisions struct {
	List []Decision `json:"list"`
	By   string     `json:"by,omitempty"`
	At   time.Time  `json:"at"`

	Idempotency string `json:"idempotency,omitempty"` // name of the idempotency record of the deciding message
	// Context is the client's change of the run's [Context], for the rest of the run. It has no conversation.
	Context *Context `json:"context,omitempty"`
}

// Decision is a human's decision about one interrupt.
type Decision struct {
	InterruptID string          `json:"interrupt_id"`
	Decision    string          `json:"decision"`
	Arguments   json.RawMessage `json:"arguments,omitempty"`
	Message     string          `json:"message,omitempty"`
	Files       []FileRef       `json:"files,omitempty"`
	// Sent is a digest of the files as the client sent them: stored again, they are other files.
	Sent string `json:"sent,omitempty"`
}

// SameDecisions reports whether two lists decide the same things in the same way, in any order.
func SameDecisions(a, b []Decision) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(d Decision) bool {
		return !slices.ContainsFunc(b, func(other Decision) bool {
			return d.InterruptID == other.InterruptID && d.Decision == other.Decision && d.Message == other.Message &&
				bytes.Equal(d.Arguments, other.Arguments) && d.Sent == other.Sent
		})
	})
}

// Step is an entry of a run's journal.
type Step struct {
	Index      int       `json:"index"`
	Kind       StepKind  `json:"kind"`
	Attempt    int       `json:"attempt"`
	StartedAt  time.Time `json:"started_at"`
	FinishedAt time.Time `json:"finished_at"`

	// Of a model call.
	Text          string `json:"text,omitempty"`
	Calls         []Call `json:"calls,omitempty"`
	InputTokens   int64  `json:"input_tokens,omitempty"`
	OutputTokens  int64  `json:"output_tokens,omitempty"`
	Finish        string `json:"finish_reason,omitempty"`
	ModelAttempts int    `json:"tries,omitempty"`
	RequestID     string `json:"request_id,omitempty"` // the provider's id of the call
	LeftOut       int    `json:"left_out,omitempty"`   // messages of the conversation that did not fit
	// AnsweredOnly is set if earlier turns without an answer were left out.
	AnsweredOnly bool `json:"answered_only,omitempty"`
	// Withdrawn is set if the text is an answer that the model must replace by a better one.
	Withdrawn bool `json:"withdrawn,omitempty"`
	Shortened int  `json:"shortened,omitempty"` // bytes to which results of the run were cut; 0: to none

	// Of a tool call.
	CallID string `json:"call_id,omitempty"`
	Name   string `json:"name,omitempty"`
	// succeeded, failed, rejected, answered, or started before a call that must not be repeated. A call of the model
	// that was cut short: failed, stopped.
	Outcome string    `json:"outcome,omitempty"`
	Output  string    `json:"output,omitempty"`
	Files   []FileRef `json:"files,omitempty"` // parts of the result that were too large for the journal
	// Arguments are those of the call, after a human's edit.
	Arguments json.RawMessage `json:"arguments,omitempty"`
	// Embedded is a search's use of embedding models: the input tokens of its step.
	Embedded Embeddings `json:"embedded,omitempty"`
	// Found is the result of a search. It replaces an output: each read decides who may read it.
	Found []Source `json:"found,omitempty"`
}

// Event is the public form of a tool step; ok is false for a step that is not shown as a tool call.
func (s Step) Event() (e events.StepEvent, ok bool) {
	if s.Outcome == "answered" {
		return e, false
	}
	e = events.StepEvent{
		Index: s.Index, Kind: "tool", Name: s.Name, State: "finished", Arguments: s.Arguments, Outcome: s.Outcome,
	}
	if s.Name == "search" {
		e.Kind = "search"
	}
	if s.Outcome == "failed" {
		e.State = "failed"
	}
	return e, true
}

// Source is a passage of a document that a run has found. Positions are characters of the document's text.
type Source struct {
	N             int     `json:"n"` // its number in the run, from 1
	Document      string  `json:"document_id"`
	KnowledgeBase string  `json:"knowledge_base_id"`
	Title         string  `json:"title"`
	Text          string  `json:"text"`
	Heading       string  `json:"heading,omitempty"`
	Context       string  `json:"context,omitempty"` // what a reader sees above the text: headings, headers of tables
	Chunk         Passage `json:"chunk"`
	Score         float64 `json:"score"` // 0 to 1
	// Quote is the quoted part of Text: the index of its first character, and the index after its last. In runs of
	// earlier versions it is zero: the beginning of Text.
	Quote [2]int `json:"quote,omitzero"`
}

// Passage is the place of a passage in its document.
type Passage struct {
	Index    int `json:"index"`
	PageFrom int `json:"page_from,omitempty"` // from 1; 0: the document has no pages
	PageTo   int `json:"page_to,omitempty"`
	Start    int `json:"start"`
	End      int `json:"end"`
}

// StepKind is the kind of a step.
type StepKind string

func (k StepKind) ofModel() bool { return k == ModelStep || k == CutStep }

// The kinds of step.
const (
	ModelStep StepKind = "model"
	// CutStep is a call of the model that was cut short and has no reply. It has the usage of the call, and the text
	// that was streamed until the work was stopped. A loop that goes on ignores it.
	CutStep   StepKind = "model_cut"
	ToolStep  StepKind = "tool"
	StartStep StepKind = "tool_started" // written before a call that must not be made twice
)

// Call is a tool call that the model requested.
type Call struct {
	ID     string `json:"id"`              // assigned by this service: its number in the reply
	Label  string `json:"label,omitempty"` // the model's own id, if it is unique in the run
	Name   string `json:"name"`
	Source string `json:"source,omitempty"` // the tool that had the name then: <toolkit id>/<own name>
	// Fingerprint identifies that tool as it was then; see tool.Fingerprint.
	Fingerprint string          `json:"fingerprint,omitempty"`
	Arguments   json.RawMessage `json:"arguments" shape:"object|string"` // a normalized object; what cannot be read: as a string
	Fault       string          `json:"fault,omitempty"`                 // why the call is not made
}
