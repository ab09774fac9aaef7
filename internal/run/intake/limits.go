package intake

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode/utf8"

	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/platform/strictjson"
)

// Bounds of clients' input, for all endpoints: endpoints parse, this file decides.
const (
	MaxMessage = 256 << 10 // bytes of a message, or of a text in a decision
	MaxFiles   = 10        // of a message; each takes two of the table.MaxOps operations of a commit
	MaxKey     = 255       // characters of an idempotency key

	maxChatID = 128
	maxTitle  = 200 // characters, as below
	maxReason = 1000
	maxName   = 200 // of the person who decided
)

// Check returns the error that [Intake.Post] would return for the message itself: a problem of kind Invalid. It is for
// callers that must act before Post.
func (m Message) Check() error { return cmp.Or(m.check(""), m.checkNew()) }

// check returns a problem of kind Invalid for a malformed message. The names of fields are those of POST /chat, after a
// prefix.
func (m Message) check(prefix string) error {
	if m.Text == "" && len(m.Files) == 0 && (m.Context == nil || len(m.Context.Before) == 0) {
		return problem.InvalidField(prefix+"message", "is required unless a file is sent")
	}
	if err := checkText(prefix+"message", m.Text); err != nil {
		return err
	}
	if m.ChatID != "" && !ValidChatID(m.ChatID) {
		return problem.InvalidField(prefix+"chat_id",
			"must have 1 to %d characters of A-Z a-z 0-9 . _ : -, and not only dots", maxChatID)
	}
	if len(m.Files) > MaxFiles {
		return problem.InvalidField(prefix+"files", "at most %d files may be sent", MaxFiles)
	}
	return CheckKey(prefix+"idempotency_key", m.Key)
}

// CheckKey checks an idempotency key. The error is a problem of kind Invalid with the field.
func CheckKey(field, key string) error {
	if len(key) > MaxKey || strings.ContainsFunc(key, func(r rune) bool { return r < ' ' || r > '~' }) {
		return problem.InvalidField(field, "must have 1 to %d printable ASCII characters", MaxKey)
	}
	return nil
}

// checkNew checks the fields for a new run; the error is a problem of kind Invalid.
func (m Message) checkNew() error {
	err := cmp.Or(
		checkLength("title", m.Title, maxTitle),
		tenant.CheckMetadata("metadata", m.Metadata),
	)
	if err == nil && m.Context != nil {
		err = checkContext(*m.Context)
	}
	return err
}

// Decode decodes a part of a client's JSON, at this path in the request. The error is a problem of kind Invalid with
// the path of the fault.
func Decode(at string, raw json.RawMessage, into any) error {
	err := strictjson.Unmarshal(raw, into)
	if err == nil {
		return nil
	}
	path, text := "", err.Error()
	if wrong, ok := errors.AsType[*strictjson.TypeError](err); ok {
		path, text = wrong.Location, wrong.Wanted
	}
	return problem.InvalidField(at+path, "%s", text)
}

func checkText(field, text string) error {
	if len(text) > MaxMessage {
		return problem.InvalidField(field, "must have at most %d bytes", MaxMessage)
	}
	if !utf8.ValidString(text) {
		return problem.InvalidField(field, "must be UTF-8")
	}
	return nil
}

func checkLength(field, text string, most int) error {
	if len(text) > most && utf8.RuneCountInString(text) > most {
		return problem.InvalidField(field, "must have at most %d characters", most)
	}
	return checkText(field, text)
}

// ValidChatID reports whether id has the form of a chat id: 1 to 128 characters of A-Z a-z 0-9 . _ : -, not dots alone.
// No client can write dots alone in a path.
func ValidChatID(id string) bool { return isChatID.MatchString(id) && strings.Trim(id, ".") != "" }

var isChatID = regexp.MustCompile(fmt.Sprintf(`^[A-Za-z0-9._:-]{1,%d}$`, maxChatID))
