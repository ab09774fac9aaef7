// Package lifecycle is the core: the states of a run, the transitions between them, and the cost of a run.
//
// Every function is pure. The input is a run and an event. The result is the changed run with its consequences, or a
// [Refusal]. [Transitions] is the only definition of the transition table. It has the transitions that clients see
// (specification, States and transitions) and those of workers. The event contains all times and ids.
//
// The package must not know storage, queues, HTTP, models or tools. It does not read a clock. It imports the standard
// library only.
package lifecycle
