// Package rollup adds up entries of the ledger. Entries become rows, rows become tables, tables become totals and
// series of totals. It is pure.
//
// A [Table] has a row for each combination of the values that its [View] separates. Adding entries and merging tables
// have the same result in any order, so a day is the sum of its quarters of an hour. Values that are no longer separate
// are kept as far as queries need them. These are tokens by model (for costs), the distribution of times (for
// percentiles), and sets of users and agents (to count them).
//
// It must not know the source of entries, or where tables are kept. It imports the standard library and the library of
// the sketches.
package rollup
