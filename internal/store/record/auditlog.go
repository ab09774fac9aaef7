package record

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"agentplatform/internal/store/table"
)

// AuditEntry records the author of a change or decision. It is written in the commit of the change itself.
type AuditEntry struct {
	ID           string          `json:"entry_id"`
	Organization string          `json:"organization_id"`
	At           time.Time       `json:"at"`
	Operation    string          `json:"operation"` // the operation's name in the OpenAPI document
	UserID       string          `json:"user_id"`
	APIKeyID     string          `json:"api_key_id"`
	AsOperator   bool            `json:"as_operator,omitzero"` // an operator of another organization, acting in this one
	Kind         string          `json:"kind"`                 // of the changed thing: agent, user, run, …
	Subject      string          `json:"subject"`
	Changed      []string        `json:"changed,omitzero"`    // the members that an edit changed
	DecidedBy    string          `json:"decided_by,omitzero"` // as the client names it
	RequestedBy  string          `json:"asked_by,omitzero"`   // the user of the run that was decided
	Decisions    []AuditDecision `json:"decisions,omitzero"`
}

// Placed implements [Resourceful].
func (e AuditEntry) Placed() (string, string, string) { return "audit", e.ID, e.Organization }

// AuditDecision is the decision about one interrupt.
type AuditDecision struct {
	InterruptID string `json:"interrupt_id"`
	Decision    string `json:"decision" enum:"approve,reject,edit,answer"`
}

// Author is the user for whom a request is carried out, with key and operation.
type Author struct {
	Organization string `json:"organization_id"`
	UserID       string `json:"user_id"`
	APIKeyID     string `json:"api_key_id"`
	Operation    string `json:"operation"`
	AsOperator   bool   `json:"as_operator,omitempty"` // it acts in an organization that it has named
}

type (
	authorKey  struct{}
	changedKey struct{}
)

// By returns a context whose commits have entries in the audit log in the author's name. Without an author, as in the
// platform's own work, there are no entries.
func By(ctx context.Context, a Author) context.Context { return context.WithValue(ctx, authorKey{}, a) }

// AuthorOf is the author that [By] has put into a context, if there is one.
func AuthorOf(ctx context.Context) (a Author, authored bool) {
	a, authored = ctx.Value(authorKey{}).(Author)
	return a, authored
}

// inner are members of stored resources that follow from an edit's changes. Clients know none of them by this name.
var inner = map[string]bool{
	"updated_at": true,
	// of knowledge bases and documents
	"collection": true, "titled": true, "ingestion": true, "bytes": true, "work": true, "ready": true, "next": true,
	"content": true, "rebuild": true, "index": true,
}

// changing notes in the context which members of a resource an edit changes.
func changing(ctx context.Context, before, after any) context.Context {
	members := func(v any) (m map[string]json.RawMessage) {
		b, err := json.Marshal(v)
		if err == nil {
			_ = json.Unmarshal(b, &m)
		}
		if spec, nested := m["spec"]; nested { // an agent's
			_ = json.Unmarshal(spec, &m)
			delete(m, "spec")
		}
		return m
	}
	was, is := members(before), members(after)
	names := map[string]bool{}
	for _, m := range []map[string]json.RawMessage{was, is} {
		for name := range m {
			if !inner[name] && string(was[name]) != string(is[name]) {
				names[name] = true
			}
		}
	}
	return context.WithValue(ctx, changedKey{}, slices.Sorted(maps.Keys(names)))
}

// audited are the kinds of resources whose changes have entries in the audit log.
var audited = map[string]bool{
	"agent": true, "toolkit": true, "user": true, "group": true, "api_key": true, "organization": true,
	"knowledge_base": true, "document": true,
}

// audit adds the audit log's entry of a commit, if it has an author and changes an audited resource. The entry is of
// the first such resource.
func (tx *Tx) audit(ctx context.Context) {
	for _, op := range tx.ops {
		kind, id, _ := strings.Cut(op.Item.Part, "/")
		if op.Item.Sort != headSort || !audited[kind] || op.Kind == table.CheckOp {
			continue
		}
		tx.entry(ctx, kind, id, func(entry *AuditEntry) {
			if kind != "organization" { // an operator's change is in the log of the thing's organization
				entry.Organization = op.Item.Owner
			}
			entry.Changed, _ = ctx.Value(changedKey{}).([]string)
		})
		return
	}
}

// entry adds an entry of the audit log that fill completes, if the context has an author.
func (tx *Tx) entry(ctx context.Context, kind, subject string, fill func(*AuditEntry)) {
	a, authored := AuthorOf(ctx)
	if !authored {
		return
	}
	entry := AuditEntry{
		ID: tx.writeID, Organization: a.Organization, At: tx.store.host.Now(), Operation: a.Operation, UserID: a.UserID,
		APIKeyID: a.APIKeyID, AsOperator: a.AsOperator, Kind: kind, Subject: subject,
	}
	fill(&entry)
	PutResource(tx, Fresh(entry))
	if !tx.frees {
		tx.grows()
	}
}

// AuditDecisions adds the audit log's entry of a decided pause, if the decision has an author.
func (tx *Tx) AuditDecisions(ctx context.Context, r Run, d Decisions) {
	tx.entry(ctx, "run", r.ID(), func(entry *AuditEntry) {
		entry.DecidedBy, entry.RequestedBy = d.By, r.User
		for _, one := range d.List {
			entry.Decisions = append(entry.Decisions, AuditDecision{one.InterruptID, one.Decision})
		}
	})
}

// AuditDeed adds the audit log's entry of an operation that changes no audited resource, such as the cancellation of a
// run. Without an author it adds nothing.
func (tx *Tx) AuditDeed(ctx context.Context, owner, kind, subject string) {
	tx.entry(ctx, kind, subject, func(entry *AuditEntry) { entry.Organization = owner })
}

// NoteDeed writes the audit log's entry of an operation that writes nothing else, such as an export. Its errors are
// those of [Tx.Commit].
func (s *Store) NoteDeed(ctx context.Context, owner, kind, subject string) error {
	tx := s.Begin(s.host.NewID())
	tx.AuditDeed(ctx, owner, kind, subject)
	return tx.Commit(ctx)
}
