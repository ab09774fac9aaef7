// Package tenant is who may do what: organisations, users, API keys and their levels, run tokens, agents.
//
// It must not know HTTP or runs. It imports record, problem and host.
package tenant
