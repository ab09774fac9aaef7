package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// The limits of the API, in characters unless another unit is given.
const (
	maxName         = 200
	maxTitle        = 300
	maxDescription  = 10_000 // of an agent
	maxAbout        = 2000   // of a knowledge base
	maxInstructions = 256 << 10
	maxSchema       = 64 << 10
	maxPassages     = 20
	maxMetadata     = 16 // members of an agent's, with the mark
	maxMetadataName = 64
	maxMetadataText = 1024
	maxAttributes   = 20 // members of a document's
	maxAttribute    = 256
	maxDocument     = 50 << 20 // bytes
	maxToolName     = 64
)

// The limits of an agent.
const (
	MaxToolkits = 100
	MaxBases    = 20
	MaxApproval = 2000 // tools that it names
)

// ImportedFrom is the member of an agent's metadata that has its mark.
const ImportedFrom = "imported_from"

// cut returns at most the given number of characters of a text.
func cut(text string, most int) string {
	if utf8.RuneCountInString(text) <= most {
		return text
	}
	return string([]rune(text)[:most])
}

// fit cuts a text to the API's limit, and reports it.
func (o *object) fit(member, text string, most int) string {
	short := cut(text, most)
	if short != text {
		o.about(Changed, fmt.Sprintf("cut to %d of its %d characters", most, utf8.RuneCountInString(text)),
			"shorten it in the export, or edit what was made", member)
	}
	return short
}

// fitBytes cuts instructions to the API's limit, which counts bytes, and reports it.
func (o *object) fitBytes(member, text string) string {
	if len(text) <= maxInstructions {
		return text
	}
	o.about(Changed, fmt.Sprintf("cut to %d KiB", maxInstructions>>10),
		"move the rest into a document of a knowledge base", member)
	return strings.Clone(strings.ToValidUTF8(text[:maxInstructions], "")) // the rest need not be kept
}

// Union returns the elements of some lists, in their order, each once.
func Union(lists ...[]string) []string {
	seen := map[string]bool{}
	return slices.DeleteFunc(slices.Concat(lists...), func(one string) bool {
		again := seen[one]
		seen[one] = true
		return again
	})
}

var plainID = regexp.MustCompile(`^[A-Za-z0-9_.:-]{1,100}$`)

// markOf returns a lasting name of an object of an export. It has the id, or a digest of the id if that does not match
// plainID.
func markOf(platform, id string) string {
	if !plainID.MatchString(id) {
		id = digest(id)
	}
	return platform + ":" + id
}

func digest(parts ...string) string {
	raw, err := json.Marshal(parts)
	if err != nil { // strings can be written
		panic(err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:8])
}

// responseFormat maps response_format, which OpenAI and Letta have alike, to a JSON schema for answers.
func (o *object) responseFormat() json.RawMessage {
	const member = "response_format"
	raw := o.members[member]
	if !given(raw) || string(raw) == `"auto"` {
		o.ignore("any text, as here", member)
		return nil
	}
	f := o.open(member)
	if f == nil {
		return nil
	}
	defer f.rest("")
	switch kind := f.text("type"); kind {
	case "text":
		return nil
	case "json_schema":
		s := f.open("json_schema")
		if s == nil {
			return nil
		}
		s.ignore("has no use here: a schema needs no name, and is always held to", "name", "strict")
		s.report(LeftOut, "a schema of answers has no description here", "write it into the instructions",
			"description")
		defer s.rest("")
		raw := s.take("schema")
		if len(raw) > maxSchema || len(raw) == 0 || raw[0] != '{' {
			s.about(LeftOut, fmt.Sprintf("must be a JSON schema of at most %d KiB", maxSchema>>10),
				"set output_schema of the agent", "schema")
			return nil
		}
		return raw
	default:
		f.about(LeftOut, "answers of the form "+kind+" need a schema",
			"set output_schema of the agent, like {\"type\":\"object\"}")
		return nil
	}
}

// metadata maps pairs of texts to the metadata of an agent. The mark takes one of the places.
func (o *object) metadata(into map[string]string) {
	names := slices.Sorted(maps.Keys(o.members))
	for _, name := range names {
		var text string
		_, taken := into[name]
		switch err := json.Unmarshal(o.members[name], &text); {
		case !hasValue(o.members[name]), secret(name, o.members[name]):
		case err != nil:
		case taken:
			o.report(LeftOut, "the agent's metadata has another value of this name",
				"rename it in the export, and run again", name)
		case utf8.RuneCountInString(name) > maxMetadataName || utf8.RuneCountInString(text) > maxMetadataText:
			o.report(LeftOut, fmt.Sprintf("names may have %d and values %d characters", maxMetadataName,
				maxMetadataText), "shorten it in the export and run again", name)
		case len(into) >= maxMetadata-1 || name == ImportedFrom:
			o.report(LeftOut, fmt.Sprintf("an agent's metadata has %d members, of which the import takes %s",
				maxMetadata, ImportedFrom), "keep it where you need it", name)
		default:
			o.take(name)
			into[name] = text
		}
	}
	o.rest("keep it where you need it")
}

var attributeName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// attributes maps the attributes of a document to its metadata.
func (o *object) attributes() map[string]any {
	into := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(o.members)) {
		var v any
		if err := json.Unmarshal(o.members[name], &v); err != nil || v == nil || secret(name, o.members[name]) {
			continue
		}
		text, isText := v.(string)
		_, isNumber := v.(float64)
		_, isBool := v.(bool)
		if !isText && !isNumber && !isBool {
			continue
		}
		fits := attributeName.MatchString(name) && utf8.RuneCountInString(text) <= maxAttribute
		if !fits || len(into) == maxAttributes {
			o.report(LeftOut, "a document's metadata has at most 20 members, names of 64 characters of A-Z, a-z, "+
				"0-9, _ . - and values of 256 characters", "PATCH the document's metadata", name)
			continue
		}
		o.take(name)
		into[name] = v
	}
	o.rest("PATCH the document's metadata")
	return into
}
