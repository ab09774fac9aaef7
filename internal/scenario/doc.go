// Package scenario tells the service's contract as stories over HTTP: one suite for every world that has a base URL.
//
// A story knows nothing but HTTP. Each has an organisation of its own, so that all can be told at once. A world is
// started by a [Harness]; some stories need one with other settings, and name them.
package scenario
