// Package queue has a nudge. What is sent is told at
// once; but there is no nudge without a reader, and none is no longer sent.
package queue

import "fmt"

//go:generate echo whoever

// Known is the whole name of a type.
type Known struct{ askedAt, known int }

/*
	Whose is this? It

is no question.
*/
func handOver(held, inPlace bool) string {
	hold := held && inPlace
	return fmt.Sprint("told as it were", hold) // whatever is in strings
}

func TestItSaysWhatIsAsked() { handOver(true, true) }
