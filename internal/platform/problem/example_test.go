package problem_test

import (
	"errors"
	"fmt"

	"agentplatform/internal/platform/problem"
)

// The HTTP layer finds the problem in a wrapped error and sends its kind, code and message, but not its cause.
func ExampleAs() {
	err := fmt.Errorf("read the run: %w", problem.Retry(errors.New("connection refused")))

	p, ok := problem.As(err)
	fmt.Println(ok, p.Kind == problem.Unavailable, p.Code, p.RetryAfter)
	fmt.Println(p.Message)

	_, ok = problem.As(errors.New("a bug"))
	fmt.Println(ok)
	// Output:
	// true true unavailable 1s
	// the service is unavailable and did nothing; try again
	// false
}

// Callers recognize a problem by its code.
func ExampleIs() {
	err := problem.Missing("the run")
	fmt.Println(err, problem.Is(err, "not_found"), problem.Is(err, "unavailable"))
	// Output: the run does not exist true false
}

// InvalidField names the location of the fault.
func ExampleInvalidField() {
	err := problem.InvalidField("body.message", "must not be empty")
	fmt.Println(err, err.Code, err.Fields[0].Location)
	// Output: body.message: must not be empty invalid_request body.message
}
