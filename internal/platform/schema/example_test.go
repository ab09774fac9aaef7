package schema_test

import (
	"context"
	"encoding/json"
	"fmt"

	"agentplatform/internal/platform/schema"
)

// Check reports each violation with its location.
func ExampleSchema_Check() {
	s, err := schema.Compile(json.RawMessage(`{
		"type": "object",
		"properties": {"city": {"type": "string"}, "days": {"type": "integer", "maximum": 7}},
		"required": ["city"]
	}`))
	fmt.Println(err)
	fmt.Println(s.Check(context.Background(), json.RawMessage(`{"city": "Oslo", "days": 3}`)))
	fmt.Println(s.Check(context.Background(), json.RawMessage(`{"city": "Oslo", "days": 30}`)))
	// Output:
	// <nil>
	// <nil>
	// days: maximum: got 30, want 7
}

// An invalid schema is refused.
func ExampleCompile() {
	_, err := schema.Compile(json.RawMessage(`{"type": "array", "items": {"type": "nothing"}}`))
	fmt.Println(err != nil)
	_, err = schema.Compile(json.RawMessage(`[]`))
	fmt.Println(err)
	// Output:
	// true
	// it is not a JSON object
}
