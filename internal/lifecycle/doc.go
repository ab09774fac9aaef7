// Package lifecycle is the core: what a run is, what it may do next, and what it costs.
//
// Everything here is a value: a run and an event in, a run and its consequences out, or a [Refusal]. The moves of the
// specification's transition table, and those it leaves open, stand in [Moves] and nowhere else. Time and identifiers
// arrive in the event.
//
// The package must not know storage, queues, HTTP, models or tools, and reads no clock. It imports the standard library.
package lifecycle
