// Package tenant decides access: to organizations, users, groups, API keys and their levels, run tokens, agents.
//
// It must not know HTTP or runs. It imports record, problem, host, schema, seal and strictjson.
//
// Errors. A function's comment names the problems (see package problem) that it returns itself: kind, and code if the
// kind has several. Every function that reads or writes the store has these errors, too:
//
//   - a problem of kind Unavailable when the store cannot be reached, or when another request changed the same thing at
//     every attempt;
//   - the context's error when it ends between two attempts;
//   - an error that is not a problem when a write may or may not have been done, or when a stored value cannot be
//     decoded.
//
// NotFound means that the thing does not exist. Forbidden with the code outside_organization means that it belongs to
// another organization. Reads through the cache ("may be some seconds old") miss edits of the last seconds.
package tenant
