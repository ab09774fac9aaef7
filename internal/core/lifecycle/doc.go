// Package lifecycle is the core: the states of a run, the transitions between them, and what a run costs.
//
// Every function is pure: a run and an event in; the changed run and its consequences, or a [Refusal], out.
// [Transitions] is the transition table, the only place where it is defined. It has the transitions that clients see
// (specification, States and transitions) and those of workers. Times and identifiers arrive in the event.
//
// The package must not know storage, queues, HTTP, models or tools, and reads no clock. It imports the standard
// library only.
package lifecycle
