// Package scenario tests the service's contract as scenarios over HTTP: one suite for every world that has a base
// URL.
//
// A scenario uses only HTTP. Each has its own organization, so that all can run in parallel. A world is started by
// a [Harness]; some scenarios need one with other settings, and name them.
package scenario
