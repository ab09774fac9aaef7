package reports

import (
	"context"
	"time"

	"agentplatform/events"
	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/run/view"
	"agentplatform/internal/store/record"
)

func (h *handlers) auditRoutes() {
	r := httpapi.Routes{Server: h.Server, Tag: "audit", Read: tenant.LevelAdmin}
	httpapi.Route(r, "GET /audit-log", "audit-log", "List changes and decisions, newest first", h.auditLog)
}

type auditView struct {
	EntryID     string                 `json:"entry_id"`
	At          string                 `json:"at"`
	Operation   string                 `json:"operation" doc:"the operationId in this document, in lower case with hyphens: create-agent for createAgent"`
	UserID      string                 `json:"user_id"`
	APIKeyID    string                 `json:"api_key_id"`
	Operator    bool                   `json:"as_operator" doc:"true: an operator acted as an admin; the user and the key are outside the organization"`
	Subject     auditSubject           `json:"subject"`
	Changed     []string               `json:"changed" doc:"the fields that an edit changed"`
	DecidedBy   *string                `json:"decided_by" doc:"the decider that the client named"`
	RequestedBy *view.Person           `json:"asked_by,omitempty" doc:"for a decision: the user of the run"`
	Decisions   []record.AuditDecision `json:"decisions"`
}

type auditSubject struct {
	Kind string `json:"kind" enum:"agent,toolkit,user,group,api_key,organization,knowledge_base,document,file,run,chat,delivery"`
	ID   string `json:"id"`
}

type auditList struct {
	Entries    []auditView `json:"entries"`
	NextCursor *string     `json:"next_cursor"`
}

// AuditQuery is the query of the audit log.
type AuditQuery struct {
	httpapi.Paging
	UserID    httpapi.ID `query:"user_id" doc:"changes by this user"`
	APIKeyID  httpapi.ID `query:"api_key_id" doc:"changes with this key"`
	Operation string     `query:"operation" maxLength:"100" doc:"the operationId in this document, in lower case with hyphens: create-agent for createAgent"`
	Kind      string     `query:"kind" enum:"agent,toolkit,user,group,api_key,organization,knowledge_base,document,file,run,chat,delivery" doc:"the kind of subject"`
	SubjectID string     `query:"subject_id" maxLength:"128"`
	From      time.Time  `query:"from"`
	To        time.Time  `query:"to" doc:"before this"`
}

func (q AuditQuery) matches(a record.AuditEntry) bool {
	for _, one := range [][2]string{
		{string(q.UserID), a.UserID}, {string(q.APIKeyID), a.APIKeyID}, {q.Operation, a.Operation}, {q.Kind, a.Kind},
		{q.SubjectID, a.Subject},
	} {
		if wanted, is := one[0], one[1]; wanted != "" && wanted != is {
			return false
		}
	}
	return !a.At.Before(q.From) && (q.To.IsZero() || a.At.Before(q.To))
}

func (h *handlers) auditLog(ctx context.Context, p tenant.Principal, in *AuditQuery) (*answer[auditList], error) {
	page := func(ctx context.Context, after string, limit int) (record.Page[record.Entity[record.AuditEntry]], error) {
		return record.Resources[record.AuditEntry](ctx, h.Store, p.Scope(), after, limit)
	}
	persons := view.Persons(ctx, h.Store, p.Scope())
	entries, next, err := httpapi.Filter(ctx, in.Paging, httpapi.Between(in.From, in.To, page),
		func(e record.Entity[record.AuditEntry]) (v auditView, matches bool, err error) {
			v, matches = viewAudit(e.Value), in.matches(e.Value)
			if matches && e.Value.RequestedBy != "" {
				var user view.Person
				user, err = persons(e.Value.RequestedBy)
				v.RequestedBy = &user
			}
			return v, matches, err
		})
	return httpapi.Body(auditList{entries, next}), err
}

func viewAudit(a record.AuditEntry) auditView {
	return auditView{
		EntryID:   a.ID,
		At:        events.Time(a.At),
		Operation: a.Operation,
		UserID:    a.UserID,
		APIKeyID:  a.APIKeyID,
		Operator:  a.AsOperator,
		Subject:   auditSubject{a.Kind, a.Subject},
		Changed:   append([]string{}, a.Changed...),
		DecidedBy: httpapi.Optional(a.DecidedBy),
		Decisions: append([]record.AuditDecision{}, a.Decisions...),
	}
}
