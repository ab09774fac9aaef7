// Package record turns core values into table items and back. It is the only package that knows keys, item layout and
// the encoding of stored values, and that decides which values are large and go to the blob store.
//
// Use cases write in units of work, [Tx], and know neither items nor conditions. What may be some seconds old is read
// through [Known].
//
// Every read takes a [Scope], so that a handler cannot forget whose data it may see. Items keep JSON members that this
// version does not know, and an item with a newer schema is never overwritten.
//
// It must not know HTTP, models or use cases. It imports lifecycle, events, problem, host, paragraph and
// the table and blob ports.
//
// Errors. What a function's comment does not name follows these rules:
//
//   - Reads in a scope return a problem of kind NotFound for what does not exist, and of kind Forbidden
//     (outside_organization) for what belongs to another organization. Listings leave out both.
//   - Every read returns a problem of kind Unavailable when the table cannot be reached within 8 tries, a few seconds;
//     an error of the blob store as it is after as many tries; and an error that is no problem when what is stored
//     cannot be decoded.
//   - Writes are collected in a [Tx]; the errors are those of [Tx.Commit].
package record
