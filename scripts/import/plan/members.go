package plan

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// planner gathers a plan.
type planner struct {
	Plan
	options Options
	export  *export
	marks   map[string]bool      // of agents, toolkits and bases that are in the plan
	takes   map[[2]string]string // the parameters of functions, by URL and name
	shared  map[string]*shared   // bases of several sources, by mark
	memory  int                  // bytes of the instructions of all agents that are memory
	used    map[string]bool      // the used entries of Options
	found   map[string]bool      // findings so far
	alike   map[[2]string]int    // the number of findings with the same text for a file
	omitted []Finding            // the first finding of each such text that is not in the report
}

// object is a JSON object of an export. It records which members are read. [object.rest] reports the others.
type object struct {
	p       *planner
	file    string
	path    string
	source  string
	members map[string]json.RawMessage
	done    map[string]bool
	snakes  map[string]string // how members are spelled, for [object.spelled]
}

// element is a value with its place.
type element struct {
	raw  json.RawMessage
	path string
}

// object opens a value as an object. Any other value is reported, and the result is nil.
func (p *planner) object(file, path, source string, raw json.RawMessage) *object {
	o := &object{p: p, file: file, path: path, source: source, done: map[string]bool{}}
	if err := json.Unmarshal(raw, &o.members); err != nil || o.members == nil {
		o.whole("must be an object", "fix the export and run again")
		return nil
	}
	return o
}

// maxAlike bounds the findings with the same text for a file. So a small file cannot make a large report.
const maxAlike = 100

// find adds a finding once. Several agents may share a thing, and each of them finds it.
func (p *planner) find(f Finding) {
	same := [2]string{f.File, f.What}
	if p.alike[same] < maxAlike {
		key := fmt.Sprintf("%#v", f)
		if p.found[key] {
			return
		}
		p.found[key] = true
		p.Findings = append(p.Findings, f)
	} else if p.alike[same] == maxAlike {
		p.omitted = append(p.omitted, f)
	}
	p.alike[same]++
}

// more reports how many findings are not in the report.
func (p *planner) more() {
	for _, f := range p.omitted {
		p.Findings = append(p.Findings, Finding{Kind: f.Kind, Source: f.Source, File: f.File, Do: f.Do,
			What: fmt.Sprintf("and %d more like it: %s", p.alike[[2]string{f.File, f.What}]-maxAlike, f.What)})
	}
}

func (o *object) at(name string) string { return o.path + "." + name }

// spelled returns the object's spelling of a member: modelName instead of model_name, if it only has that.
func (o *object) spelled(name string) string {
	if _, there := o.members[name]; there {
		return name
	}
	if o.snakes == nil {
		o.snakes = map[string]string{}
		for _, other := range slices.Backward(sortedKeys(o.members)) {
			o.snakes[snake(other)] = other
		}
	}
	return cmp.Or(o.snakes[name], name)
}

// take records that a member is read, and returns it.
func (o *object) take(name string) json.RawMessage {
	raw, there := o.members[name]
	if there && !o.done[name] {
		o.done[name] = true
		o.p.Mapped = append(o.p.Mapped, Entry{o.file, o.at(name), ""})
	}
	return raw
}

// peek reads a text without recording that.
func (o *object) peek(name string) string {
	var text string
	_ = json.Unmarshal(o.members[name], &text)
	return text
}

// ignore records members that have no meaning here.
func (o *object) ignore(why string, names ...string) {
	for _, name := range names {
		if _, there := o.members[name]; there && !o.done[name] {
			o.done[name] = true
			o.p.Ignored = append(o.p.Ignored, Entry{o.file, o.at(name), why})
		}
	}
}

// report adds a finding about the members that have a value (see [hasValue]). It counts them as read.
func (o *object) report(kind, what, do string, names ...string) {
	var found []string
	for _, name := range names {
		if hasValue(o.members[name]) && !o.done[name] {
			found = append(found, name)
		}
		o.done[name] = true
	}
	if len(found) > 0 {
		o.about(kind, what, do, found...)
	}
}

// about adds a finding about members, read or not. Without any it is about the object itself.
func (o *object) about(kind, what, do string, names ...string) {
	o.p.find(Finding{Kind: kind, Source: o.source, File: o.file, Path: o.path, Members: names, What: what, Do: do})
}

// whole adds a finding about the object and everything in it.
func (o *object) whole(what, do string) {
	for name := range o.members {
		o.done[name] = true
	}
	o.p.find(Finding{Kind: LeftOut, Source: o.source, File: o.file, Path: o.path, What: what, Do: do, Whole: true})
}

// wrong reports a member whose value has a type that the format does not allow.
func (o *object) wrong(name, must string) {
	o.done[name] = true
	o.about(LeftOut, must, "fix the export and run again", name)
}

// value decodes a member. It returns false if the member is absent or null, or has a wrong type, which is reported.
func (o *object) value(name, must string, into any) bool {
	raw := o.members[name]
	if !given(raw) {
		return false
	}
	if err := json.Unmarshal(raw, into); err != nil {
		o.wrong(name, must)
		return false
	}
	o.take(name)
	return true
}

func (o *object) text(name string) string {
	var text string
	o.value(name, "must be a string", &text)
	return text
}

func (o *object) number(name string) *float64 {
	var n float64
	if !o.value(name, "must be a number", &n) {
		return nil
	}
	return &n
}

func (o *object) texts(name string) []string {
	var list []string
	o.value(name, "must be a list of strings", &list)
	return list
}

// open opens a member that is an object. The result is nil if there is none.
func (o *object) open(name string) *object {
	raw := o.members[name]
	if !given(raw) {
		return nil
	}
	o.done[name] = true
	return o.p.object(o.file, o.at(name), o.source, raw)
}

// list opens a member that is a list.
func (o *object) list(name string) []element {
	raw := o.members[name]
	if !given(raw) {
		return nil
	}
	o.done[name] = true
	var values []json.RawMessage
	if err := json.Unmarshal(raw, &values); err != nil {
		o.wrong(name, "must be a list")
		return nil
	}
	return elements(o.at(name), values)
}

func elements(path string, values []json.RawMessage) []element {
	var list []element
	for i, raw := range values {
		list = append(list, element{raw, path + "[" + strconv.Itoa(i) + "]"})
	}
	return list
}

// objects opens a member that is a list of objects.
func (o *object) objects(name string) []*object {
	var list []*object
	for _, e := range o.list(name) {
		if one := o.p.object(o.file, e.path, o.source, e.raw); one != nil {
			list = append(list, one)
		}
	}
	return list
}

// rest reports all members that were not read and that have a value (see [hasValue]). Of those that look like secrets
// it reports only the names, of the others also the output of [short].
func (o *object) rest(do string) {
	var secrets, others, shown []string
	for _, name := range slices.Sorted(maps.Keys(o.members)) {
		raw := o.members[name]
		if o.done[name] || !hasValue(raw) {
			continue
		}
		if secret(name, raw) {
			secrets = append(secrets, name)
			continue
		}
		others = append(others, name)
		shown = append(shown, name+" "+short(raw))
	}
	o.credentials(secrets...)
	if len(others) > 0 {
		o.report(LeftOut, "this service has no counterpart: "+strings.Join(shown, ", "), do, others...)
	}
}

const giveCredentials = "give the toolkit that needs them its own: -bearer, PATCH /toolkits/{id}, or the admin panel"

func (o *object) credentials(names ...string) {
	o.report(Credentials, "credentials are not taken from an export", giveCredentials, names...)
}

// given reports whether a value is present and not null.
func given(raw json.RawMessage) bool { return len(raw) > 0 && !bytes.Equal(raw, []byte("null")) }

// hasValue reports whether a value carries information. Null, empty values, false and zero do not.
func hasValue(raw json.RawMessage) bool {
	switch string(raw) {
	case "", "null", `""`, "[]", "{}", "false", "0":
		return false
	}
	return true
}

// short formats a value for a report: numbers and booleans themselves, of others only the size, since any text may be a
// secret.
func short(raw json.RawMessage) string {
	const enough = 40
	var v any
	_ = json.Unmarshal(raw, &v)
	switch v := v.(type) {
	case []any:
		return fmt.Sprintf("(list of %d)", len(v))
	case map[string]any:
		return fmt.Sprintf("(object, %d bytes)", len(raw))
	case string:
		return fmt.Sprintf("(text, %d bytes)", len(v))
	}
	if len(raw) > enough {
		return fmt.Sprintf("(number, %d bytes)", len(raw))
	}
	return string(raw)
}

// secret reports whether a member is a secret or contains one, by names and by values.
func secret(name string, raw json.RawMessage) bool {
	var v any
	_ = json.Unmarshal(raw, &v)
	return secretive(name) || secretIn(v)
}

// secretive reports whether a member's name is that of a secret.
func secretive(name string) bool {
	name = snake(name)
	words := strings.Split(name, "_")
	if last := words[len(words)-1]; slices.Contains(measures, last) {
		return false
	}
	return keyName.MatchString(name) || slices.ContainsFunc(words, func(word string) bool {
		if word == "tokens" { // counts, as in max_tokens
			return len(words) == 1
		}
		return secretWord.MatchString(word)
	})
}

// measures has the final words of names that describe a secret and are not the secret itself: token_limit,
// auth_required.
var measures = []string{
	"required", "limit", "limits", "rate", "policy", "count", "size", "length", "budget", "usage", "interval",
}

var (
	secretWord = regexp.MustCompile(`^(?:o?auth|bearer|pat|pwd|passphrase|refresh|dsn|sig|signature|jwt|` +
		`authorization|credentials?|cookies?|` +
		`.*(?:token|secrets?|passwords?|passwd|(?:api|private|access|secret)keys?))[0-9]*$`)
	keyName = regexp.MustCompile(`_key[0-9]*$|(?:^|_)(?:api|private|access|secret)_keys?[0-9]*(?:_|$)`)
)

// secretText reports whether a text has a key, a private key, or an address with a user's name or password. It finds
// keys by the prefixes of their issuers, if they have a digit.
func secretText(text string) bool {
	return keyless.MatchString(text) || slices.ContainsFunc(keyText.FindAllString(text, -1), func(key string) bool {
		return strings.ContainsAny(key, "0123456789")
	})
}

var (
	keyText = regexp.MustCompile(`(?:^|[^A-Za-z0-9_-])(?:sk[-_]|rk_|hf_|gsk_|xai-|npm_|r8_|ya29\.|tvly-|gh[opusr]_|` +
		`github_pat_|glpat-|xox[a-z]-|lsv2_|A[KS]IA|AIza|eyJ|[Bb]earer )[A-Za-z0-9_.=-]{12,}`)
	keyless = regexp.MustCompile(`-----BEGIN|://[^/?#\s@]+@`)
)

// snake returns a name in lower case, with its words divided by _.
func snake(name string) string {
	name = humps.ReplaceAllString(name, "${1}_${2}") // accessKey
	return strings.ToLower(strings.NewReplacer("-", "_", " ", "_", ".", "_").Replace(name))
}

// humps matches the places in a name in camel case where two words meet.
var humps = regexp.MustCompile(`([a-z0-9])([A-Z])`)

// secretIn reports whether a value has a secretive member or the text of a secret anywhere.
func secretIn(v any) bool {
	switch v := v.(type) {
	case string:
		return secretText(v)
	case []any:
		return slices.ContainsFunc(v, secretIn)
	case map[string]any:
		for name, inner := range v {
			if secretive(name) || secretIn(inner) {
				return true
			}
		}
	}
	return false
}
