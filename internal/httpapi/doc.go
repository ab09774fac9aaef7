// Package httpapi is the HTTP edge: routes, the OpenAPI document, forms, streams, and the one place where an error becomes
// an answer.
//
// It holds no rule about runs. It imports the use cases, view, problem and the HTTP libraries; nothing imports it but
// boot and the functions.
package httpapi
