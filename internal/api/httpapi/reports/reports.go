// Package reports is the area of the API for reports of an organization: analytics, the ledger of its usage and the
// audit log.
//
// It holds no rule of its own. It imports the framework above it and no other area.
package reports

import (
	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/org/analytics"
	"agentplatform/internal/store/record"
)

// answer is short for signatures.
type answer[T any] = httpapi.Answer[T]

// handlers are the operations of the area.
type handlers struct {
	*httpapi.Server

	Store     *record.Store
	Analytics *analytics.Analytics
}

// Routes adds the area's operations to a server.
func Routes(s *httpapi.Server, a *analytics.Analytics) {
	h := &handlers{Server: s, Store: a.Store, Analytics: a}
	h.analyticsRoutes()
	h.usageRoutes()
	h.auditRoutes()
}
