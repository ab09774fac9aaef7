// Package reports is the area of the API for what has happened in an organization: the ledger of its usage and the
// audit log.
//
// It only reads. It imports the framework above it and no other area.
package reports

import (
	"agentplatform/internal/httpapi"
	"agentplatform/internal/record"
)

// handlers are the operations of the area.
type handlers struct {
	*httpapi.Server

	Store *record.Store
}

// Routes adds the area's operations to a server.
func Routes(s *httpapi.Server, store *record.Store) {
	h := &handlers{Server: s, Store: store}
	h.usageRoutes()
	h.auditRoutes()
}
