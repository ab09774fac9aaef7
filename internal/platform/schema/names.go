package schema

import (
	"bytes"
	"encoding/json"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// plainName matches the names of arguments that Anthropic takes. The members of members are not checked.
var plainName = regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`)

// maxOthers limits the description of arguments that a schema cannot have, in bytes.
const maxOthers = 4000

// PlainNames returns a portable schema without the arguments whose names some providers refuse. These providers would
// refuse the whole request. The description lists the names and schemas of these arguments, so a model can use them.
func PlainNames(portable json.RawMessage) json.RawMessage {
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(portable))
	s, _ := document.(map[string]any)
	properties, _ := s["properties"].(map[string]any)
	others := map[string]any{}
	for name, one := range properties {
		if !plainName.MatchString(name) {
			others[name] = one
			delete(properties, name)
		}
	}
	var plain, needed []string
	for _, name := range texts(s["required"]) {
		if plainName.MatchString(name) {
			plain = append(plain, name)
		} else {
			needed = append(needed, strconv.Quote(name))
		}
	}
	if err != nil || len(others)+len(needed) == 0 {
		return portable
	}
	delete(s, "required")
	if len(plain) > 0 {
		s["required"] = anys(plain)
	}
	delete(s, "additionalProperties") // the others are not forbidden
	description, _ := s["description"].(string)
	s["description"] = strings.TrimSpace(description + "\n" + describeOthers(others, needed))
	without, err := json.Marshal(s)
	if err == nil { // what refers to an argument that is gone must not
		without, err = Portable(without)
	}
	if err != nil {
		return Anything
	}
	return without
}

// describeOthers describes, in words, the arguments that a schema does not name. It writes their schemas, or only their
// names if the schemas are long.
func describeOthers(others map[string]any, needed []string) string {
	all, err := json.Marshal(others)
	if err != nil || len(all) > maxOthers {
		var names []string
		for _, name := range slices.Sorted(maps.Keys(others)) {
			names = append(names, strconv.Quote(name))
		}
		all = []byte(strings.Join(names, ", "))
	}
	note := "Also accepts these arguments: " + strings.ToValidUTF8(string(all[:min(len(all), maxOthers)]), "") + "."
	if len(needed) > 0 {
		needs := strings.Join(needed, ", ")
		note += " Needs of these: " + strings.ToValidUTF8(needs[:min(len(needs), maxOthers)], "") + "."
	}
	return note
}
