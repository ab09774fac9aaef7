package runs

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"strconv"
	"strings"

	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/run/files"
	"agentplatform/internal/run/intake"
	"agentplatform/internal/store/record"
)

// Bounds of the chat form's fields, in bytes. The bounds of a message are in package intake.
const (
	maxMessage = intake.MaxMessage
	maxScalar  = 16 << 10
)

// chatForm is a message in the form of POST /chat. Message.Wrong is the first fault in the fields for a new run: intake
// returns it, unless the message answers a question.
type chatForm struct {
	intake.Message

	wait     *bool
	fileIDs  []string
	uploaded []record.File // with the form; no run holds them yet
	sums     [][3]string   // of these: name, type and SHA-256 of the bytes
}

// chatFields declares the form.
var chatFields = httpapi.Fields[chatForm]{
	{
		Name: "agent_version", Type: "integer", Doc: "runs this version, published or not (level manage)",
		Most: maxScalar, Read: (*chatForm).readVersion,
	},
	{
		Name: "agent_id", Doc: "the agent that runs the message", Example: "65f0a1b2c3d4e5f601234567", Required: true,
		Most: maxScalar, Read: (*chatForm).readAgent,
	},
	{
		Name: "message", Doc: "required unless a file is sent; at most 256 KiB", Example: "Hello",
		Most: maxMessage, Read: func(f *chatForm, text string) error { f.Text = text; return nil },
	},
	{
		Name: "chat_id", Doc: "the conversation; omitted: a new conversation",
		Most: maxScalar, Read: func(f *chatForm, text string) error { f.ChatID = text; return nil },
	},
	{
		Name: "title", Doc: "metadata of a new chat",
		Most: maxScalar, Read: func(f *chatForm, text string) error { f.Title = text; return nil },
	},
	{
		Name: "callback_url", Doc: "HTTPS address that receives webhook pushes",
		Most: maxScalar, Read: func(f *chatForm, text string) error { f.CallbackURL = text; return nil },
	},
	{
		Name: "idempotency_key", Doc: "a retry with the same key re-attaches",
		Most: maxScalar, Read: func(f *chatForm, text string) error { f.Key = text; return nil },
	},
	{Name: "files", Doc: "at most 10, under any name", List: true},
	{
		Name: "file_ids", Doc: "files sent through POST /files", List: true,
		Most: maxScalar, Read: (*chatForm).readFileIDs,
	},
	{
		Name: "streaming", Type: "boolean", Doc: "true: respond with NDJSON events during the run",
		Most: maxScalar, Read: func(f *chatForm, text string) error {
			streaming, err := formBool("streaming", text)
			f.Watched = streaming != nil && *streaming
			return err
		},
	},
	{
		Name: "wait", Type: "boolean", Doc: "false: respond immediately with a handle",
		Most: maxScalar, Read: func(f *chatForm, text string) (err error) {
			f.wait, err = formBool("wait", text)
			return err
		},
	},
	{
		Name: "on_conflict", Enum: []string{"reject", "enqueue"},
		Most: maxScalar, Read: func(f *chatForm, text string) error { f.Enqueue = text == "enqueue"; return nil },
	},
	{
		Name: "metadata", Doc: "a JSON object of at most 16 string pairs",
		Most: maxMessage, Read: (*chatForm).readMetadata,
	},
}

// readChatForm reads the form as it streams in; uploaded files go straight to the blob store. When it fails, nothing it
// stored is left.
func (h *handlers) readChatForm(ctx context.Context, p tenant.Principal, r *http.Request) (f chatForm, err error) {
	err = httpapi.ReadForm(r, chatFields, 0, &f, func(part *httpapi.Part) error {
		return h.takeFile(ctx, p, part, &f)
	})
	if err == nil {
		f.Key, err = httpapi.KeyOf(ctx, "idempotency_key", f.Key, intake.CheckKey)
	}
	if err != nil {
		h.Files.Drop(ctx, f.uploaded...)
		f.uploaded = nil
	}
	return f, err
}

// takeFile streams an uploaded file to the blob store.
func (h *handlers) takeFile(ctx context.Context, p tenant.Principal, part *httpapi.Part, into *chatForm) error {
	if len(into.uploaded) >= intake.MaxFiles {
		return problem.InvalidField("files", "at most %d files may be sent", intake.MaxFiles)
	}
	return part.TakeFile(func(name, contentType string, content io.Reader) error {
		sum := sha256.New()
		f, err := h.Files.Take(ctx, files.New{
			Organization: p.Organization, User: p.User, Name: name, ContentType: contentType,
		}, io.TeeReader(content, sum))
		if err == nil {
			into.uploaded = append(into.uploaded, f)
			into.sums = append(into.sums, [3]string{f.Name, f.ContentType, hex.EncodeToString(sum.Sum(nil))})
		}
		return err
	})
}

// digest is the digest of the form's request. It does not depend on how the request is to be answered.
func (f *chatForm) digest() string {
	return intake.Digest([]any{
		f.AgentID, f.Version, f.Text, f.ChatID, f.Title, f.CallbackURL, f.Metadata, f.fileIDs, f.sums,
	})
}

func (f *chatForm) readVersion(text string) (err error) {
	if text == "" {
		return nil
	}
	if f.Version, err = strconv.Atoi(text); err != nil || f.Version < 1 {
		f.mistake(problem.InvalidField("agent_version", "must be a version's number"))
	}
	return nil
}

func (f *chatForm) readAgent(text string) error {
	f.AgentID = text
	if text == "" {
		f.mistake(problem.InvalidField("agent_id", "is required"))
	}
	if !host.ValidID(text) {
		f.mistake(problem.InvalidField("agent_id", "must be an identifier of 24 hex digits"))
	}
	return nil
}

func (f *chatForm) readFileIDs(text string) error {
	for id := range strings.SplitSeq(text, ",") {
		if id = strings.TrimSpace(id); id == "" {
			continue
		}
		if !host.ValidID(id) {
			return problem.InvalidField("file_ids", "must be identifiers of 24 hex digits")
		}
		f.fileIDs = append(f.fileIDs, id)
	}
	if len(f.uploaded)+len(f.fileIDs) > intake.MaxFiles {
		return problem.InvalidField("files", "at most %d files may be sent", intake.MaxFiles)
	}
	return nil
}

func (f *chatForm) readMetadata(text string) (err error) {
	if text != "" {
		f.Metadata, err = parseMetadata(text)
		f.mistake(err)
	}
	return nil
}

// mistake keeps the first one.
func (f *chatForm) mistake(err error) { f.Wrong = cmp.Or(f.Wrong, err) }

func formBool(name, v string) (*bool, error) {
	var b bool
	switch strings.ToLower(v) {
	case "":
		return nil, nil
	case "true", "1":
		b = true
	case "false", "0":
	default:
		return nil, problem.InvalidField(name, "must be true or false")
	}
	return &b, nil
}

func parseMetadata(v string) (map[string]string, error) {
	if err := httpapi.CheckJSON("metadata", []byte(v)); err != nil {
		return nil, err
	}
	var raw map[string]*string
	if err := httpapi.Decode("metadata", []byte(v), &raw); err != nil || raw == nil {
		return nil, problem.InvalidField("metadata", "must be a JSON object of strings")
	}
	m := make(map[string]string, len(raw))
	for name, value := range raw {
		if value == nil {
			return nil, problem.InvalidField(
				"metadata", "must be a JSON object of strings: %s is null", httpapi.Short(name),
			)
		}
		m[name] = *value
	}
	return m, nil
}

// attach resolves the files of a message: those sent before, and those that came with the form.
func (h *handlers) attach(ctx context.Context, p tenant.Principal, f chatForm) ([]record.FileRef, error) {
	refs, err := h.Files.Attach(ctx, p.Scope(), f.fileIDs, func(file record.File) error {
		return h.Tenants.MayReadFile(ctx, p, file)
	})
	for _, file := range f.uploaded {
		refs = append(refs, file.Ref())
	}
	return refs, err
}
