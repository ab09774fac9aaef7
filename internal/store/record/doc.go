// Package record turns core values into table items and back. It is the only package that knows keys, item layout and
// the encoding of stored values. It also decides which values are large and go to the blob store.
//
// Use cases write in units of work, [Tx], and know neither items nor conditions. Values that may be some seconds old
// are read through [Known].
//
// Every read takes a [Scope], so that a handler cannot forget the owner of the data. Items keep JSON members that this
// version does not know, and an item with a newer schema is never overwritten.
//
// It must not know HTTP, models or use cases. It imports lifecycle, events, problem, host, paragraph and the table and
// blob ports.
//
// Errors. These rules hold for errors that a function's comment does not name:
//
//   - Reads in a scope return a problem of kind NotFound for a resource that does not exist. For one that belongs to
//     another organization they return a problem of kind Forbidden (outside_organization). Listings leave out both.
//   - Every read returns a problem of kind Unavailable when the table cannot be reached within 8 attempts, a few
//     seconds. An error of the blob store is returned as it is after as many attempts. If a stored value cannot be
//     decoded, the error is not a problem.
//   - Writes are collected in a [Tx]; the errors are those of [Tx.Commit].
package record
