package strictjson_test

import (
	"bytes"
	"encoding/json"
	"math/big"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/platform/strictjson"
)

var limits = strictjson.Limits{Bytes: 1 << 10, Depth: 8}

func TestValueReturnsTheNormalForm(t *testing.T) {
	for in, want := range map[string]string{
		`{ "b" : 1,"a":[ true, null ] }`: `{"b":1,"a":[true,null]}`,
		`{"\u0061":"\u006dallory\/\n"}`:  `{"a":"mallory/\n"}`,
		`"\ud83d\ude00 <&>"`:             `"😀 <&>"`,
		`5e3`:                            `5000`,
		`[-0,0.0,1.10,1E-2,12.50e1]`:     `[0,0,1.1,0.01,125]`,
		`12345678901234567890`:           `12345678901234567890`,
		`{"a":{"a":{}},"A":1}`:           `{"a":{"a":{}},"A":1}`,
	} {
		got, err := strictjson.Value([]byte(in), limits)
		require.NoError(t, err, in)
		assert.Equal(t, want, string(got))
		again, err := strictjson.Value(got, limits)
		require.NoError(t, err)
		assert.Equal(t, string(got), string(again), "the normal form of the normal form")
	}
}

func TestEqualValuesHaveOneCanonicalForm(t *testing.T) {
	type request struct {
		Raw json.RawMessage `json:"raw"`
		N   float64         `json:"n"`
	}
	form := func(raw string) string {
		of, err := strictjson.Canonical(request{json.RawMessage(raw), 0.5})
		require.NoError(t, err)
		return string(of)
	}
	long := strings.Repeat("9", 500)
	of := form(`{"b":[1,{"d":2,"c":"\u0061"}],"a":9007199254740993,"n":` + long + `}`)
	assert.Equal(t, of, form(` { "n":`+long+`, "a": 9007199254740993.0, "b":[ 10e-1, {"c":"a","d":2} ] } `))
	for _, other := range []string{
		`{"b":[{"d":2,"c":"a"},1],"a":9007199254740993,"n":` + long + `}`,
		`{"b":[1,{"d":2,"c":"a"}],"a":9007199254740992,"n":` + long + `}`,
		`{"b":[1,{"d":2,"c":"a"}],"a":"9007199254740993","n":` + long + `}`,
	} {
		assert.NotEqual(t, of, form(other), other)
	}
	_, err := strictjson.Canonical(json.RawMessage(`{`))
	assert.Error(t, err)
}

func TestValueRefusesAmbiguousJSON(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":1,"a":2}`:                          `/a is repeated (at byte 7)`,
		`{"a":1,"\u0061":2}`:                     `/a is repeated (at byte 7)`,
		`{"x":[{"a":1,"b":2,"a":3}]}`:            `/x/0/a is repeated`,
		`{"a":"\ud800"}`:                         `not valid Unicode`,
		"\"\xff\"":                               `not valid Unicode`,
		`{"a":1`:                                 `the JSON is cut off`,
		``:                                       `the JSON is empty`,
		`{} {}`:                                  `must be the only content`,
		`{"a":01}`:                               `not valid JSON`,
		`NaN`:                                    `not valid JSON`,
		`1e999`:                                  `more than 400 digits`,
		`1e99999999999999999999`:                 `more than 400 digits`,
		`1e-99999999999999999999`:                `more than 400 digits`,
		`[` + strings.Repeat("1e300,", 9) + `1]`: `more than 1024 bytes when its numbers are written out`,
		strings.Repeat("[", 9):                   `nested more than 8 levels`,
		`"` + strings.Repeat("x", 1024):          `1025 bytes, the limit is 1024`,
	} {
		_, err := strictjson.Value([]byte(in), limits)
		require.Error(t, err, in)
		assert.Contains(t, err.Error(), want, in)
	}
	_, err := strictjson.Object([]byte(`[1]`), limits)
	assert.EqualError(t, err, "it is not a JSON object")
}

func TestWithinRefusesOnlyWhatExceedsALimit(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":1,"a":2}`:                   ``,
		"\"\xff\\ud800\"":                 ``,
		`[1e999]`:                         ``,
		`{"a":1`:                          `the JSON is cut off`,
		``:                                `the JSON is empty`,
		`nonsense`:                        `not valid JSON`,
		strings.Repeat("[", 9):            `nested more than 8 levels`,
		`[` + strings.Repeat("1,", 30):    `more than 20 values`,
		`[` + strings.Repeat("{},", 15):   `more than 20 values`,
		`{` + strings.Repeat(`"":0,`, 15): `more than 20 values`,
		strings.Repeat("1 ", 30):          `more than 20 values`,
		`"` + strings.Repeat("x", 1024):   `1025 bytes, the limit is 1024`,
	} {
		err := strictjson.Within([]byte(in), limits, 20)
		if want == "" {
			require.NoError(t, err, in)
		} else {
			require.ErrorContains(t, err, want, in)
		}
	}
}

// everything has a member of each kind that clients' JSON is read into.
type everything struct {
	Text   string            `json:"text"`
	Yes    bool              `json:"yes"`
	Whole  int               `json:"whole"`
	Long   *int64            `json:"long"`
	Number float64           `json:"number"`
	List   []everything      `json:"list"`
	Names  map[string]string `json:"names"`
	Raw    json.RawMessage   `json:"raw"`
	At     time.Time         `json:"at"`
	Few    uint8             `json:"few"`
}

// The error names the location of a wrong value and the type that it must have, without a word of Go.
func TestAWrongTypeIsReportedInWordsOfJSON(t *testing.T) {
	for text, want := range map[string]string{
		`7`:                       "it must be an object",
		`{"text":7}`:              "text must be a string",
		`{"yes":"x"}`:             "yes must be true or false",
		`{"whole":1.5}`:           "whole must be a whole number",
		`{"long":"x"}`:            "long must be a whole number",
		`{"number":[]}`:           "number must be a number",
		`{"list":{}}`:             "list must be a list",
		`{"list":[{},{"yes":1}]}`: "list[1].yes must be true or false",
		`{"names":{"a.b":1}}`:     "names.a.b must be a string",
		`{"text":"a"`:             "the JSON is cut off",
		`{"a":1,"a":2}`:           "/a is repeated (at byte 7)",
	} {
		require.EqualError(t, strictjson.Unmarshal([]byte(text), new(everything)), want, text)
	}
}

func FuzzUnmarshal(f *testing.F) {
	for _, s := range []string{
		`{"list":[{"list":7}]}`, `{"names":{"Go":1}}`, `[`, "{\"\xff\":1}", `{"text":"\ud800"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		err := strictjson.Unmarshal(raw, new(everything))
		if err == nil {
			return
		}
		text := err.Error()
		assert.Less(t, len(text), 400)
		assert.True(t, utf8.ValidString(text), "%q", text)
		if bytes.ContainsRune(raw, '\\') { // names may have any letters
			return
		}
		for _, word := range []string{"json:", "jsontext", "unmarshal", "struct", "RawMessage"} {
			if !bytes.Contains(raw, []byte(word)) {
				assert.NotContains(t, text, word)
			}
		}
	})
}

func FuzzValue(f *testing.F) {
	for _, seed := range []string{`{"a":[1.5e3,"\u00e9",{"b":null}]}`, `{"a":1,"a":1}`, `-0.0e-7`, `"\ud800"`,
		`[[[[]]]]`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, in string) {
		got, err := strictjson.Value([]byte(in), limits)
		if err != nil {
			assert.LessOrEqual(t, len(err.Error()), 600)
			return
		}
		again, err := strictjson.Value(got, strictjson.Limits{Bytes: len(got), Depth: 8})
		require.NoError(t, err)
		require.Equal(t, string(got), string(again))
		require.Equal(t, read(t, in), read(t, string(got)), "it means the same")
	})
}

// read decodes a value with another library, with exact numbers.
func read(t *testing.T, text string) any {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	require.NoError(t, d.Decode(&v))
	return exact(t, v)
}

func exact(t *testing.T, v any) any {
	switch v := v.(type) {
	case json.Number:
		n, ok := new(big.Rat).SetString(v.String())
		require.True(t, ok)
		return n.RatString()
	case []any:
		for i := range v {
			v[i] = exact(t, v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = exact(t, v[name])
		}
	}
	return v
}
