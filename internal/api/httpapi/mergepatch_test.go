package httpapi

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The examples of RFC 7396, appendix A, whose targets are objects.
func TestMergePatchIsTheStandards(t *testing.T) {
	for _, c := range []struct{ object, patch, want string }{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`{"e":null}`, `{"a":1}`, `{"e":null,"a":1}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
		{`{"z":1,"a":{"y":1,"b":2}}`, `{"a":{"c":3.0},"b":1e2}`, `{"z":1,"a":{"y":1,"b":2,"c":3.0},"b":1e2}`},
	} {
		got, err := Merge([]byte(c.object), []byte(c.patch))
		require.NoError(t, err)
		assert.Equal(t, c.want, string(got), "%s with %s", c.object, c.patch)
	}
}

// plain is the standard's own pseudocode.
func plain(target, patch any) any {
	change, ok := patch.(map[string]any)
	if !ok {
		return patch
	}
	object, ok := target.(map[string]any)
	if !ok {
		object = map[string]any{}
	}
	for name, value := range change {
		if value == nil {
			delete(object, name)
		} else {
			object[name] = plain(object[name], value)
		}
	}
	return object
}

func FuzzMergePatch(f *testing.F) {
	f.Add([]byte(`{"a":{"b":1,"c":null},"d":[1]}`), []byte(`{"a":{"b":null,"x":{"y":null}},"d":{"e":1}}`))
	f.Add([]byte(`{"a":1}`), []byte(`{"a":1,"a":2}`))
	f.Add([]byte(`{"\u0061":1}`), []byte(`{"a":null}`))
	f.Fuzz(func(t *testing.T, object, patch []byte) {
		if CheckJSON("object", object) != nil || CheckJSON("patch", patch) != nil {
			return
		}
		got, err := Merge(object, patch)
		if err != nil {
			t.Fatalf("%q with %q: %s", object, patch, err)
		}
		if err := CheckJSON("merged", got); err != nil {
			t.Fatalf("%q with %q: %q: %s", object, patch, got, err)
		}
		var target, change, merged any
		if json.Unmarshal(object, &target) != nil || json.Unmarshal(patch, &change) != nil {
			return // a number that fits no float
		}
		if err := json.Unmarshal(got, &merged); err != nil || !reflect.DeepEqual(plain(target, change), merged) {
			t.Fatalf("%q with %q: %q (%v)", object, patch, got, err)
		}
	})
}
