package strictjson_test

import (
	"fmt"

	"agentplatform/internal/platform/strictjson"
)

// Value returns the normal form of a JSON text: one spelling for each number, no needless escapes, no white space.
func ExampleValue() {
	limits := strictjson.Limits{Bytes: 1 << 10, Depth: 8}
	v, err := strictjson.Value([]byte(`{ "n": 1.50e1, "name": "\u0041nna" }`), limits)
	fmt.Println(string(v), err)

	_, err = strictjson.Value([]byte(`{"to": "me", "to": "you"}`), limits)
	fmt.Println(err)
	// Output:
	// {"n":15,"name":"Anna"} <nil>
	// /to is repeated (at byte 13)
}

// Names of members are case-sensitive, unlike in encoding/json.
func ExampleUnmarshal() {
	var request struct {
		Level string `json:"level"`
	}
	err := strictjson.Unmarshal([]byte(`{"level": "viewer", "Level": "admin"}`), &request)
	fmt.Println(request.Level, err)
	// Output: viewer <nil>
}

// Number writes a number without exponent.
func ExampleNumber() {
	fmt.Println(strictjson.Number("-12.50E2"))
	fmt.Println(strictjson.Number("1e999"))
	// Output:
	// -1250 true
	//  false
}
