// Package record turns core values into table items and back. It is the only place that knows keys, item layout, the
// encoding of stored things, and what goes to the blob store because it is large.
//
// Every read takes a [Scope], so that a handler cannot forget whose data it may see. Items keep members that this
// program does not know, and an item of a newer shape is never written.
//
// It must not know HTTP, models or use cases. It imports lifecycle, problem, host and the table and blob ports.
package record
