package runs

import (
	"bytes"
	"cmp"
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"agentplatform/internal/files"
	"agentplatform/internal/host"
	"agentplatform/internal/httpapi"
	"agentplatform/internal/intake"
	"agentplatform/internal/problem"
	"agentplatform/internal/record"
	"agentplatform/internal/tenant"
)

// What is read of the chat form; what a message may say is intake's to check.
const (
	maxMessage = intake.MaxMessage
	maxScalar  = 16 << 10
	maxFiles   = intake.MaxFiles
)

// chatForm is POST /chat's form, read and checked.
type chatForm struct {
	agentID      string
	message      string
	chatID       string
	title        string
	streaming    bool
	wait         *bool
	callbackURL  string
	key          string
	enqueue      bool
	metadata     map[string]string
	fileIDs      []string
	agentVersion int
	request      string        // id of the request
	files        []record.File // uploaded with the form; nobody holds them yet
	// wrong is in what is said of a new run alone: intake returns it, unless the message answers a question.
	wrong error
}

// scalars are the parts that are no files. A part that is not listed is ignored.
var scalars = map[string]int{
	"agent_id":        maxScalar,
	"message":         maxMessage,
	"chat_id":         maxScalar,
	"title":           maxScalar,
	"streaming":       maxScalar,
	"wait":            maxScalar,
	"callback_url":    maxScalar,
	"idempotency_key": maxScalar,
	"on_conflict":     maxScalar,
	"metadata":        maxMessage,
	"file_ids":        maxScalar,
	"agent_version":   maxScalar,
}

// readChatForm reads the form as it streams in; uploaded files go straight to the blob store. When it fails, nothing it
// stored is left.
func (h *handlers) readChatForm(ctx context.Context, p tenant.Principal, r *http.Request) (f chatForm, err error) {
	parts, err := httpapi.FormOf(r)
	if err != nil {
		return f, err
	}
	defer func() {
		if err != nil {
			h.Files.Drop(ctx, f.files...)
			f.files = nil
		}
	}()
	values, scratch := map[string]string{}, &bytes.Buffer{}
	for count := 0; ; count++ {
		part, err := parts.Next()
		if err != nil {
			return f, err
		}
		if part == nil {
			break
		}
		if count >= httpapi.MaxParts {
			return f, problem.InvalidField("body", "the form has more than %d parts", httpapi.MaxParts)
		}
		if part.IsFile {
			err = h.takeFile(ctx, p, part, &f.files)
		} else {
			err = takeScalar(part, values, scratch)
		}
		if err != nil {
			return f, err
		}
	}
	return f, f.fill(values)
}

func takeScalar(part *httpapi.Part, values map[string]string, scratch *bytes.Buffer) error {
	name := part.Name
	limit, known := scalars[name]
	if !known {
		if _, err := io.Copy(io.Discard, part); err != nil {
			return httpapi.Malformed(err)
		}
		return nil
	}
	scratch.Reset()
	if _, err := scratch.ReadFrom(io.LimitReader(part, int64(limit)+1)); err != nil {
		return httpapi.Malformed(err)
	}
	b := scratch.Bytes()
	if len(b) > limit {
		return problem.InvalidField(name, "must have at most %d bytes", limit)
	}
	if !utf8.Valid(b) {
		return problem.InvalidField(name, "must be UTF-8")
	}
	if name == "file_ids" {
		values[name] += "," + string(b)
		return nil
	}
	if _, twice := values[name]; twice {
		return problem.InvalidField(name, "is sent twice; send each field once, as multipart/form-data")
	}
	values[name] = string(b)
	return nil
}

// takeFile streams an uploaded file to the blob store.
func (h *handlers) takeFile(ctx context.Context, p tenant.Principal, part *httpapi.Part, taken *[]record.File) error {
	if len(*taken) >= maxFiles {
		return problem.InvalidField("files", "at most %d files may be sent", maxFiles)
	}
	return part.TakeFile(func(name, contentType string, content io.Reader) error {
		f, err := h.Files.Take(ctx, files.New{
			Organization: p.Organization, User: p.User, Name: name, ContentType: contentType,
		}, content)
		if err == nil {
			*taken = append(*taken, f)
		}
		return err
	})
}

func (f *chatForm) fill(v map[string]string) error {
	f.agentID, f.message, f.chatID, f.title = v["agent_id"], v["message"], v["chat_id"], v["title"]
	f.callbackURL, f.key = v["callback_url"], v["idempotency_key"]
	if text := v["agent_version"]; text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			f.mistake(problem.InvalidField("agent_version", "must be a version's number"))
		}
		f.agentVersion = n
	}
	if f.agentID == "" {
		f.mistake(problem.InvalidField("agent_id", "is required"))
	}
	if !host.ValidID(f.agentID) {
		f.mistake(problem.InvalidField("agent_id", "must be an identifier of 24 hex digits"))
	}
	for _, id := range strings.Split(v["file_ids"], ",") {
		if id = strings.TrimSpace(id); id == "" {
			continue
		}
		if !host.ValidID(id) {
			return problem.InvalidField("file_ids", "must be identifiers of 24 hex digits")
		}
		f.fileIDs = append(f.fileIDs, id)
	}
	if len(f.files)+len(f.fileIDs) > maxFiles {
		return problem.InvalidField("files", "at most %d files may be sent", maxFiles)
	}
	return f.choices(v)
}

func (f *chatForm) choices(v map[string]string) error {
	streaming, err := formBool("streaming", v["streaming"])
	if err != nil {
		return err
	}
	f.streaming = streaming != nil && *streaming
	if f.wait, err = formBool("wait", v["wait"]); err != nil {
		return err
	}
	switch v["on_conflict"] {
	case "", "reject":
	case "enqueue":
		f.enqueue = true
	default:
		return problem.InvalidField("on_conflict", "must be reject or enqueue")
	}
	if v["metadata"] != "" {
		if f.metadata, err = parseMetadata(v["metadata"]); err != nil {
			f.mistake(err)
		}
	}
	return nil
}

// mistake keeps the first one.
func (f *chatForm) mistake(err error) { f.wrong = cmp.Or(f.wrong, err) }

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
	for _, file := range f.files {
		refs = append(refs, file.Ref())
	}
	return refs, err
}
