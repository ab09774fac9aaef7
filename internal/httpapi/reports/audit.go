package reports

import (
	"context"

	"agentplatform/events"
	"agentplatform/internal/httpapi"
	"agentplatform/internal/record"
	"agentplatform/internal/tenant"
)

func (h *handlers) auditRoutes() {
	httpapi.Register(h.Server, httpapi.Operation{
		Method: "GET", Path: "/audit-log", Level: tenant.LevelAdmin,
		ID: "audit-log", Tag: "audit", Summary: "Who changed or decided what, newest first",
	}, h.auditLog)
}

type auditView struct {
	EntryID   string                 `json:"entry_id"`
	At        string                 `json:"at"`
	Operation string                 `json:"operation" doc:"its operationId in this document"`
	UserID    string                 `json:"user_id"`
	APIKeyID  string                 `json:"api_key_id"`
	Subject   auditSubject           `json:"subject"`
	Changed   []string               `json:"changed" doc:"the members that an edit changed"`
	DecidedBy *string                `json:"decided_by" doc:"as the client said"`
	Decisions []record.AuditDecision `json:"decisions"`
}

type auditSubject struct {
	Kind string `json:"kind" enum:"agent,toolkit,user,group,api_key,organization,knowledge_base,document,run,chat,delivery"`
	ID   string `json:"id"`
}

type auditList struct {
	Entries    []auditView `json:"entries"`
	NextCursor *string     `json:"next_cursor"`
}

func (h *handlers) auditLog(
	ctx context.Context, p tenant.Principal, in *httpapi.Paging,
) (*httpapi.Answer[auditList], error) {
	page, err := httpapi.Resources[record.AuditEntry](ctx, h.Store, p.Scope(), *in)
	if err != nil {
		return nil, err
	}
	list := auditList{Entries: []auditView{}, NextCursor: httpapi.EncodeCursor(page.Next)}
	for _, e := range page.Rows {
		a := e.Value
		v := auditView{
			EntryID:   a.ID,
			At:        events.Time(a.At),
			Operation: a.Operation,
			UserID:    a.UserID,
			APIKeyID:  a.APIKeyID,
			Subject:   auditSubject{a.Kind, a.Subject},
			Changed:   append([]string{}, a.Changed...),
			Decisions: append([]record.AuditDecision{}, a.Decisions...),
		}
		if a.DecidedBy != "" {
			v.DecidedBy = &a.DecidedBy
		}
		list.Entries = append(list.Entries, v)
	}
	return &httpapi.Answer[auditList]{Body: list}, nil
}
