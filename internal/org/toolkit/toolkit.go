// Package toolkit manages the sources of agents' tools: an organization's toolkits, their discovered tools, the rules
// for each tool, and the credentials for their servers.
//
// It must not know runs or HTTP. It imports record, seal, schema, strictjson, the tool port, egress, problem and host.
//
// Errors are problems (see package problem). A function's comment names its own. Besides, every function that reads or
// writes returns a problem of kind Unavailable when the store cannot be reached or the toolkit kept changing. Errors of
// the blob store and the sealer are returned as they are.
package toolkit

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"time"
	"unicode/utf8"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/egress"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/platform/schema"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/seal"
)

// Toolkits is the use case. It is safe for concurrent use.
type Toolkits struct {
	Store    *record.Store
	Cached   record.CachedReader // the reads of workers; cached for some seconds
	Host     host.Host
	Sealer   seal.Sealer
	Policy   egress.Policy
	Kinds    map[string]tool.Kind // by name; "builtin" is always there
	Commands [][]string           // the programs that toolkits may be, compared word for word
}

// Asker sends requests to toolkits' servers, with the toolkits' credentials. [Toolkits] does; a program that may not
// open credentials has another program do it (package broker). The methods and their errors are described at
// [Toolkits].
type Asker interface {
	Refresh(ctx context.Context, scope record.Scope, id string) (Difference, error)
	Preview(ctx context.Context, scope record.Scope, id string) (Difference, error)
	Select(ctx context.Context, scope record.Scope, id string, match record.Match, c Choice) (Difference, error)
	Browse(ctx context.Context, scope record.Scope, id string) (tool.Offerings, error)
	TestCall(ctx context.Context, scope record.Scope, id, name string, arguments json.RawMessage,
		approve func() error) (Attempt, error)
}

// Builtin is the kind of which every organization has one toolkit.
const Builtin = "builtin"

const (
	// discoverTime limits one discovery at an endpoint.
	discoverTime = 25 * time.Second
	// callTime is how long a call may take when its tool has no timeout of its own.
	callTime = time.Minute
	maxReads = 4
	// MaxCallTime is the longest such timeout.
	MaxCallTime = 10 * time.Minute
)

// Tool is a tool of a toolkit, with its rules.
type Tool struct {
	tool.Definition

	Own       string        `json:"own_name,omitempty"` // as [tool.Definition.Own]
	Enabled   bool          `json:"enabled"`
	Approval  tool.Approval `json:"approval"`
	TimeoutMS int           `json:"timeout_ms,omitempty"` // milliseconds; 0: the platform's limit
	RetrySafe bool          `json:"may_retry"`            // the rule's value; initially the kind's
	ReadOnly  bool          `json:"read_only,omitempty"`  // as [tool.Definition.ReadOnly]; false in older lists
	Problem   string        `json:"problem,omitempty"`    // why it cannot be enabled
}

// Draft has the fields of a toolkit that a client sets; nil leaves a field as it is.
type Draft struct {
	Kind        string
	Name        *string
	URL         *string
	BaseURL     *string
	Document    []byte
	Request     *tool.HTTPRequest
	Command     []string
	Selection   tool.Selection    // only at creation; see Select
	Credentials *tool.Credentials // with an empty type: remove them
	Enabled     []string          // the tools to enable; nil at creation: all that are discovered
}

// maxRequest bounds the request of a toolkit of the kind http, in bytes. It is stored in the toolkit's item, where JSON
// may need six bytes for a letter.
const maxRequest = 48 << 10

// check makes the checks of a draft that need no network. location is the draft's location in the body. The error is a
// problem of kind Invalid, also with the code url_forbidden.
func (s *Toolkits) check(location string, d Draft) error {
	if d.Name != nil && (*d.Name == "" || utf8.RuneCountInString(*d.Name) > 200) {
		return problem.InvalidField(location+".name", "must have 1 to 200 characters")
	}
	for at, address := range map[string]*string{location + ".url": d.URL, location + ".base_url": d.BaseURL} {
		if address == nil || *address == "" {
			continue
		}
		u, err := url.Parse(*address)
		if err != nil || u.Host == "" || (u.Scheme != "https" && u.Scheme != "http") || len(*address) > 2048 {
			return problem.InvalidField(at, "must be an http or https URL")
		}
		if err := s.Policy.CheckURL(u); err != nil {
			p := problem.New(problem.Invalid, "url_forbidden", "%s: this address is not allowed", at)
			p.Fields = []problem.Field{{Location: at, Message: "this address is not allowed"}}
			return p
		}
		for name := range u.Query() {
			if tool.Authorizes(name) { // everybody who may read the toolkit would see it
				return problem.InvalidField(at, "must not contain %s: send it in credentials of type query", name)
			}
		}
	}
	raw, err := json.Marshal(d.Request)
	return cmp.Or(
		problem.InvalidIf(d.Command != nil && !s.allows(d.Command), location+".command",
			"must be one of the commands in the deployment's TOOL_COMMANDS"),
		problem.InvalidIf(len(d.Document) > tool.MaxDocument,
			location+".document", "must have at most %d MiB", tool.MaxDocument>>20),
		problem.InvalidIf(err != nil || len(raw) > maxRequest,
			location+".request", "must have at most %d KiB", maxRequest>>10),
		checkCredentials(d.Credentials),
		checkSelection(location, d.Selection),
	)
}

// allows reports whether a toolkit may run a command.
func (s *Toolkits) allows(command []string) bool {
	return len(command) > 0 && slices.ContainsFunc(s.Commands,
		func(one []string) bool { return slices.Equal(one, command) })
}

var (
	headerName = regexp.MustCompile("^[A-Za-z0-9!#$%&'*+.^_`|~-]{1,100}$")
	controls   = regexp.MustCompile(`[\x00-\x1f\x7f]`)
)

func checkCredentials(c *tool.Credentials) error {
	if c == nil {
		return nil
	}
	bad := func(is bool, field, message string) error {
		return problem.InvalidIf(is, "body.credentials."+field, "%s", message)
	}
	if err := bad(c.Origins != nil, "origins", "is read-only: remove it"); err != nil {
		return err
	}
	for field, v := range map[string]string{"token": c.Token, "name": c.Name, "value": c.Value,
		"username": c.Username, "password": c.Password} {
		err := cmp.Or(
			bad(len(v) > 8192, field, "must have at most 8192 characters"),
			bad(controls.MatchString(v), field, "must be a single line"),
		)
		if err != nil {
			return err
		}
	}
	switch c.Type {
	case "":
		return nil
	case "bearer":
		return bad(c.Token == "", "token", "is required")
	case "header", "query":
		return cmp.Or(
			bad(!headerName.MatchString(c.Name), "name", "must be the name of a header or a parameter"),
			bad(c.Value == "", "value", "is required"),
		)
	case "basic":
		return bad(c.Username == "", "username", "is required")
	}
	return bad(true, "type", "must be bearer, header, query or basic")
}

// Made is a new toolkit with its tools.
type Made struct {
	record.Entity[catalog.Toolkit]

	Tools []Tool
}

// Create creates a toolkit with the tools that its endpoint offers. Those that may change something need an approval.
// Those of Draft.Enabled are enabled. Without it all are enabled, or none if they are more than a model takes. It
// returns a problem of kind Invalid that names the field, also with the code url_forbidden. The kind is Invalid, too,
// when the endpoint offers no usable tools.
func (s *Toolkits) Create(
	ctx context.Context, organization string, d Draft,
) (Made, error) {
	none := Made{}
	if _, ok := s.Kinds[d.Kind]; !ok || d.Kind == Builtin {
		return none, problem.InvalidField("body.kind", "must be openapi, mcp or http")
	}
	if d.Name == nil {
		return none, problem.InvalidField("body.name", "is required")
	}
	if err := s.check("body", d); err != nil {
		return none, err
	}
	switch {
	case d.Kind == "openapi" && (d.URL == nil) == (len(d.Document) == 0):
		return none, problem.InvalidField("body.url", "either url or document is required")
	case d.Command != nil && (d.Kind != "mcp" || d.URL != nil):
		return none, problem.InvalidField("body.command", "is only valid for kind mcp without a url")
	case d.Kind != "openapi" && d.URL == nil && d.Command == nil:
		return none, problem.InvalidField("body.url", "is required")
	case d.Kind == "http" && d.Request == nil:
		return none, problem.InvalidField("body.request", "is required")
	}
	if err := selectable(d.Kind, d.Selection); err != nil {
		return none, err
	}
	now := s.Host.Now()
	t := catalog.Toolkit{ID: s.Host.NewID(), Organization: organization, Kind: d.Kind, Selection: d.Selection,
		CreatedAt: now}
	tx := s.Store.Begin(t.ID)
	if err := s.apply(ctx, tx, &t, d); err != nil {
		return none, err
	}
	e, err := s.endpoint(ctx, t)
	if err != nil {
		return none, err
	}
	if d.Credentials != nil {
		e.Credentials = *d.Credentials
		e.Credentials.Origins = origins(t)
	}
	e.Requested = &d.Selection
	found, err := s.discover(ctx, t.Kind, e, nil)
	if err != nil {
		return none, err
	}
	if err := s.give(ctx, &t, d.Credentials, found); err != nil {
		return none, err
	}
	if err := enable(found, d.Enabled); err != nil {
		return none, err
	}
	t.RefreshedAt = now
	if err := s.keep(ctx, tx, &t, list{Tools: found}); err != nil {
		return none, err
	}
	return Made{record.PutResource(tx, record.Fresh(t)), found}, tx.Commit(ctx)
}

// enable enables the named tools and no others. Without names it enables all, or none if they are more than a model
// takes. It returns a problem of kind Invalid for a name that no tool has.
func enable(tools []Tool, named []string) error {
	for i, name := range named {
		if called(tools, name) < 0 {
			return problem.InvalidField(fmt.Sprintf("body.enabled[%d]", i), "the toolkit has no tool %q", name)
		}
	}
	usable := 0
	for _, one := range tools {
		if one.Problem == "" {
			usable++
		}
	}
	for i, one := range tools {
		wanted := slices.Contains(named, one.Name) || named == nil && usable <= tool.MaxOffered
		tools[i].Enabled = one.Problem == "" && wanted
	}
	return nil
}

// apply takes over a draft except its credentials. Its writes belong to the commit of the toolkit.
func (s *Toolkits) apply(ctx context.Context, tx *record.Tx, t *catalog.Toolkit, d Draft) error {
	t.UpdatedAt = s.Host.Now()
	set(&t.Name, d.Name)
	set(&t.URL, d.URL)
	set(&t.BaseURL, d.BaseURL)
	if d.Request != nil {
		if t.Kind != "http" {
			return problem.InvalidField("body.request", "is only valid for kind http")
		}
		t.Request = d.Request
	}
	if d.Command != nil {
		t.Command = d.Command
	}
	if len(d.Document) > 0 {
		t.Document = tx.PutBlob(ctx, *t, "document", d.Document)
	}
	return tx.Err()
}

// origins are the origins of the servers that a toolkit's owner names.
func origins(t catalog.Toolkit) (list []string) {
	for _, address := range []string{t.URL, t.BaseURL} {
		if at := tool.Origin(address); at != "" && !slices.Contains(list, at) {
			list = append(list, at)
		}
	}
	return list
}

// give stores credentials in a toolkit, for the servers that its owner names; nil or an empty type removes them. If the
// owner names no server but has given the document, they are for the document's own server. The document may name other
// servers for paths and operations: these get none.
func (s *Toolkits) give(ctx context.Context, t *catalog.Toolkit, c *tool.Credentials, tools []Tool) error {
	t.Credentials, t.CredentialsType, t.Origins = "", "", nil
	if c == nil || c.Type == "" {
		return nil
	}
	bound := *c
	bound.Origins = origins(*t)
	if len(bound.Origins) == 0 && t.Document != "" {
		for _, one := range tools {
			at := one.Origin()
			if known := one.Problem == "" || one.Problem == strays; known && at != "" && !one.Beside() &&
				!slices.Contains(bound.Origins, at) {
				bound.Origins = append(bound.Origins, at)
			}
		}
	}
	plain, err := json.Marshal(bound)
	if err != nil {
		return err
	}
	t.CredentialsType, t.Origins = bound.Type, bound.Origins
	t.Credentials, err = s.Sealer.Seal(ctx, sealedFor(*t), string(plain))
	return err
}

// sealedFor is the seal's context: credentials sealed for one toolkit open for no other.
func sealedFor(t catalog.Toolkit) string { return t.Organization + "/" + t.ID }

// strays is the problem of a tool whose server may not get the credentials.
const strays = "" +
	"it calls a server that the toolkit's credentials are not for: set base_url to that server, " +
	"send the credentials with it, and refresh the toolkit"

// confine disables tools on servers that the credentials are not for. A document may name the servers of its
// operations, but not the receiver of the credentials.
func confine(t catalog.Toolkit, tools []Tool) {
	for i := range tools {
		at, one := tools[i].Origin(), &tools[i]
		switch stray := t.CredentialsType != "" && at != "" && !slices.Contains(t.Origins, at); {
		case stray && one.Problem == "":
			one.Enabled, one.Problem = false, strays
		case !stray && one.Problem == strays:
			one.Problem = ""
		}
	}
}

// keep stores the list of tools, confined. Its writes belong to the commit of the toolkit.
func (s *Toolkits) keep(ctx context.Context, tx *record.Tx, t *catalog.Toolkit, l list) error {
	confine(*t, l.Tools)
	b, err := json.Marshal(l)
	if err != nil {
		return err
	}
	t.ToolCount, t.EnabledCount = len(l.Tools), new(int)
	for _, one := range l.Tools {
		if one.Enabled {
			*t.EnabledCount++
		}
	}
	t.Tools = tx.PutBlob(ctx, *t, "tools", b)
	return tx.Err()
}

// endpoint is the endpoint of a toolkit's tools, with its credentials opened. It returns a problem of kind Conflict
// when the deployment no longer allows the command. The error is record.ErrConflict when the toolkit has another
// document by now, or seal.ErrNotOurs.
func (s *Toolkits) endpoint(ctx context.Context, t catalog.Toolkit) (tool.Endpoint, error) {
	if len(t.Command) > 0 && !s.allows(t.Command) {
		return tool.Endpoint{}, problem.New(problem.Conflict, "conflict",
			"this deployment no longer allows the toolkit's command")
	}
	e := tool.Endpoint{URL: t.URL, BaseURL: t.BaseURL, Request: t.Request, Command: t.Command, Selection: t.Selection}
	if t.Document != "" {
		var err error
		if e.Document, err = s.Store.Blob(ctx, t.Document); err != nil {
			return e, err
		}
	}
	if t.Credentials == "" {
		return e, nil
	}
	plain, err := s.Sealer.Open(ctx, sealedFor(t), t.Credentials)
	if err != nil {
		return e, fmt.Errorf("the credentials of toolkit %s: %w", t.ID, err)
	}
	return e, json.Unmarshal([]byte(plain), &e.Credentials)
}

// discover finds the tools of an endpoint, none of them enabled. before are its tools so far, also those of long ago:
// they keep their names. A fault of the endpoint is a problem of kind Invalid.
func (s *Toolkits) discover(ctx context.Context, kind string, e tool.Endpoint, before []Tool) ([]Tool, error) {
	ctx, cancel := s.Host.WithTimeout(ctx, discoverTime)
	defer cancel()
	e.Names = namesOf(before)
	found, err := s.kind(kind).Discover(ctx, e)
	if err == nil {
		found, err = chosen(kind, e, found, before)
	}
	var refused *tool.Error
	switch {
	case errors.As(err, &refused) && refused.Field != "" && e.Requested == nil: // no body has the selection
		return nil, problem.New(problem.Invalid, "invalid_request", "the toolkit's selection (include, exclude) does "+
			"not fit what its server offers now: %s: %s", refused.Field, refused.Message)
	case refused != nil && refused.Field != "":
		return nil, problem.InvalidField("body."+refused.Field, "%s", refused.Message)
	case refused != nil:
		return nil, unusable(kind, e, refused.Message)
	}
	if err != nil {
		return nil, err
	}
	var tools []Tool
	names := map[string]bool{}
	for _, d := range found {
		if err := ctx.Err(); err != nil {
			return nil, unusable(kind, e, "they could not be read in time")
		}
		one, fault := examine(d, names)
		if fault != "" {
			return nil, unusable(kind, e, fmt.Sprintf("%s: %s", tool.Clip(d.Name, tool.MaxName), fault))
		}
		tools = append(tools, one)
	}
	return tools, nil
}

// unusable is the problem of an endpoint that offers no usable tools, with the body's field that names the endpoint.
func unusable(kind string, e tool.Endpoint, why string) error {
	field := "body.url"
	switch {
	case len(e.Document) > 0:
		field = "body.document"
	case kind == "http":
		field = "body.request"
	case len(e.Command) > 0:
		field = "body.command"
	}
	p := problem.New(problem.Invalid, "invalid_request", "the toolkit's tools cannot be read: %s", why)
	p.Fields = []problem.Field{{Location: field, Message: why}}
	return p
}

// maxBinding bounds the binding of a tool, in bytes.
const maxBinding = 256 << 10

// examine checks a definition and makes a tool of it, which is not enabled and has the approval of a new one. names are
// the taken names. A tool with a Problem cannot be enabled; one with a fault is left out.
func examine(d tool.Definition, names map[string]bool) (one Tool, fault string) {
	one = Tool{Definition: d, Own: d.Own, RetrySafe: d.RetrySafe, ReadOnly: d.ReadOnly}
	one.Definition.ReadOnly = false // which no JSON has
	one.Approval = one.first()
	switch {
	case d.Name == "" || tool.Name(d.Name) != d.Name:
		return one, "models do not accept its name"
	case len(d.Description) > tool.MaxDescription+len("…"): // it may be cut
		return one, fmt.Sprintf("its description is over %d bytes", tool.MaxDescription)
	case len(d.Parameters) > tool.MaxSchema:
		return one, fmt.Sprintf("its parameters are over %d bytes", tool.MaxSchema)
	case len(d.Binding) > maxBinding:
		return one, fmt.Sprintf("the definition of its call is over %d bytes", maxBinding)
	}
	one.Parameters, one.Problem = parameters(d.Parameters)
	one.Problem = cmp.Or(one.Problem, tool.Clip(d.Problem, tool.EnoughText))
	if names[d.Name] {
		one.Problem = alike
	}
	names[d.Name] = true
	return one, ""
}

// parameters returns the schema that is kept of a tool, and the fault of a tool that cannot be called. A text that is
// not a schema is mended if that is possible. Calls are checked against the kept schema.
func parameters(raw json.RawMessage) (kept json.RawMessage, fault string) {
	portable, err := schema.Portable(raw)
	if err != nil {
		return schema.Anything,
			"its parameters are not a JSON schema of an object: " + tool.Clip(err.Error(), tool.EnoughText)
	}
	if _, err = schema.Compile(raw); err == nil {
		return raw, ""
	}
	if _, unmended := schema.Compile(portable); unmended == nil {
		return portable, ""
	}
	if !bytes.HasPrefix(raw, []byte("{")) {
		raw = schema.Anything
	}
	return raw, "its parameters are not a JSON schema: " + tool.Clip(err.Error(), tool.EnoughText)
}

// Toolkit reads a toolkit; the built-in one is not stored. It returns a problem of kind NotFound or Forbidden.
func (s *Toolkits) Toolkit(ctx context.Context, scope record.Scope, id string) (record.Entity[catalog.Toolkit], error) {
	if id == catalog.BuiltinToolkit(scope.Organization()) {
		t, tools, err := s.Offered(ctx, scope, id)
		t.ToolCount = len(tools)
		return record.Fresh(t), err
	}
	return record.Resource[catalog.Toolkit](ctx, s.Store, scope, id)
}

// Offered reads a toolkit and its tools, strongly. It returns a problem of kind NotFound or Forbidden.
func (s *Toolkits) Offered(ctx context.Context, scope record.Scope, id string) (catalog.Toolkit, []Tool, error) {
	return s.offered(ctx, s.Store, scope, id)
}

// offered reads from a reader. If that has an old toolkit whose list is gone, it reads from the store itself.
func (s *Toolkits) offered(
	ctx context.Context, from record.Reader, scope record.Scope, id string,
) (catalog.Toolkit, []Tool, error) {
	if id == catalog.BuiltinToolkit(scope.Organization()) {
		t := catalog.Toolkit{ID: id, Organization: scope.Organization(), Kind: Builtin, Name: Builtin}
		tools, err := s.tools(ctx, t)
		return t, tools, err
	}
	for range maxReads {
		e, err := record.Resource[catalog.Toolkit](ctx, from, scope, id)
		if err != nil {
			return e.Value, nil, err
		}
		tools, err := s.tools(ctx, e.Value)
		if !errors.Is(err, record.ErrConflict) {
			return e.Value, tools, err
		}
		from = s.Store
	}
	return catalog.Toolkit{}, nil, problem.Retry(errors.New("the toolkit kept changing"))
}

// tools reads a toolkit's tools; record.ErrConflict when the toolkit has another list by now.
func (s *Toolkits) tools(ctx context.Context, t catalog.Toolkit) ([]Tool, error) {
	if t.Kind == Builtin {
		found, err := s.Kinds[Builtin].Discover(ctx, tool.Endpoint{})
		tools := make([]Tool, 0, len(found))
		for _, d := range found {
			tools = append(tools, Tool{Definition: d, Enabled: true, RetrySafe: d.RetrySafe})
		}
		return tools, err
	}
	l, err := s.list(ctx, t)
	return l.Tools, err
}

// list is the stored list of a toolkit's tools: its tools, and the rules of those that its server offers no longer.
type list struct {
	Tools []Tool `json:"tools"`
	Gone  []Tool `json:"gone,omitempty"`
}

func (s *Toolkits) list(ctx context.Context, t catalog.Toolkit) (l list, err error) {
	raw, err := s.Store.Blob(ctx, t.Tools)
	if err != nil {
		return l, err
	}
	if bytes.HasPrefix(raw, []byte("[")) { // the format of earlier program versions
		return l, json.Unmarshal(raw, &l.Tools)
	}
	return l, json.Unmarshal(raw, &l)
}

// fixed returns a problem of kind Conflict for the built-in toolkit.
func fixed(organization, id string) error {
	if id == catalog.BuiltinToolkit(organization) {
		return problem.New(problem.Conflict, "conflict", "the built-in toolkit cannot be changed")
	}
	return nil
}

// change edits a toolkit and removes the blobs that it no longer names.
func (s *Toolkits) change(
	ctx context.Context, scope record.Scope, id string, match record.Match,
	edit func(*catalog.Toolkit, *record.Tx) error,
) (record.Entity[catalog.Toolkit], error) {
	if err := fixed(scope.Organization(), id); err != nil {
		return record.Entity[catalog.Toolkit]{}, err
	}
	return record.Change(ctx, s.Store, scope, id, match, func(t *catalog.Toolkit, tx *record.Tx) error {
		before := *t
		if err := edit(t, tx); err != nil {
			return err
		}
		for _, blobs := range [][2]string{{before.Tools, t.Tools}, {before.Document, t.Document}} {
			if blobs[0] != "" && blobs[0] != blobs[1] {
				tx.DropBlob(*t, blobs[0])
			}
		}
		return nil
	})
}

// Edit changes the fields that are set, except Draft.Selection. It does not request the endpoint's tools, which Refresh
// does. But tools that do not fit a new address are disabled, and such credentials are removed.
//
// It returns a problem of kind NotFound or Forbidden, of kind Conflict for the built-in toolkit, and of kind Invalid
// that names the field. The kind is PreconditionFailed when match is not the resource's version.
func (s *Toolkits) Edit(
	ctx context.Context, scope record.Scope, id string, match record.Match, d Draft,
) (record.Entity[catalog.Toolkit], error) {
	if err := s.check("body", d); err != nil {
		return record.Entity[catalog.Toolkit]{}, err
	}
	return s.change(ctx, scope, id, match, func(t *catalog.Toolkit, tx *record.Tx) error {
		before := *t
		if err := s.apply(ctx, tx, t, d); err != nil {
			return err
		}
		if t.Kind == "http" { // everybody may read the request: it is checked for credentials before it is stored
			if _, err := s.discover(ctx, t.Kind, tool.Endpoint{URL: t.URL, Request: t.Request}, nil); err != nil {
				return err
			}
		}
		moved := !slices.Equal(origins(before), origins(*t)) || !slices.Equal(before.Command, t.Command)
		if !moved && d.Credentials == nil && d.Enabled == nil {
			return nil
		}
		l, err := s.list(ctx, *t)
		if err != nil {
			return err
		}
		if moved {
			if err := s.leave(ctx, t, l.Tools); err != nil {
				return err
			}
		}
		if d.Credentials != nil {
			if err := s.give(ctx, t, d.Credentials, l.Tools); err != nil {
				return err
			}
		}
		if d.Enabled != nil {
			if err := enable(l.Tools, d.Enabled); err != nil {
				return err
			}
		}
		return s.keep(ctx, tx, t, l)
	})
}

// leave handles a changed address. The owner agreed to another place. So tools on servers that the owner does not name
// now are disabled and have the approval of new ones. Credentials that were given for other servers are removed.
func (s *Toolkits) leave(ctx context.Context, t *catalog.Toolkit, tools []Tool) error {
	now := origins(*t)
	for i, one := range tools {
		tools[i].Enabled = one.Enabled && slices.Contains(now, one.Origin())
		if !slices.Contains(now, one.Origin()) {
			tools[i].tighten()
		}
	}
	if slices.ContainsFunc(now, func(at string) bool { return !slices.Contains(t.Origins, at) }) || len(t.Command) > 0 {
		return s.give(ctx, t, nil, nil)
	}
	return nil
}

// Remove deletes a toolkit; agents that name it go on without its tools. It returns a problem of kind NotFound,
// Forbidden, or of kind Conflict for the built-in toolkit.
func (s *Toolkits) Remove(ctx context.Context, scope record.Scope, id string) error {
	if err := fixed(scope.Organization(), id); err != nil {
		return err
	}
	_, err := record.Remove(ctx, s.Store, scope, id, func(e record.Entity[catalog.Toolkit], tx *record.Tx) error {
		tx.DropBlobs(e.Value, record.RemoveToolkit)
		return nil
	})
	return err
}
