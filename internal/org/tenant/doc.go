// Package tenant decides who may do what: organizations, users, groups, API keys and their levels, run tokens, agents.
//
// It must not know HTTP or runs. It imports record, problem, host, schema, seal and strictjson.
//
// Errors. A function's comment names the problems (see package problem) that it returns itself: kind, and code where
// the kind has several. Besides these, every function that reads or writes the store returns a problem of kind
// Unavailable when the store cannot be reached or somebody else changed the same thing on every try, the context's
// error when it ends between two tries, and an error that is no problem when it is not known whether a write was done
// or when what is stored cannot be decoded. NotFound means that the thing does not exist, Forbidden with the code
// outside_organization that it belongs to another organization. Reads through the cache ("may be some seconds old")
// miss edits of the last seconds.
package tenant
