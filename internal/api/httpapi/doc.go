// Package httpapi is the framework of the HTTP layer: a server with its limits, and the admission of callers. It reads
// bodies and parameters, and writes errors, pages of lists and streams. It adds an operation to the routes and to the
// OpenAPI document.
//
// A request passes the middleware that middleware.go lists, each with one job, and then its operation.
//
// It must not know what any operation does. It imports tenant, since each operation needs a level; record for authors,
// scopes and pages; and problem. The operations stand in the packages below it: each is one area of the API, adds its
// operations with a function Routes, and imports no other area. Package service puts the areas together.
package httpapi
