// Package rollup adds up what happened: entries of the ledger become rows, rows become tables, tables become totals and
// series of them. It is pure.
//
// A [Table] has a row for each combination of the values that its [View] tells apart. Adding entries and merging tables
// come to the same in any order, so a day is the sum of its quarters of an hour, whoever adds them up. What is told
// apart no more is kept as far as questions need it: tokens by model (for costs), the distribution of times (for
// percentiles), and sets of users and agents (to count them).
//
// It must not know where entries come from, or where tables are kept. It imports the standard library and the library
// of the sketches.
package rollup
