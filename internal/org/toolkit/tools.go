package toolkit

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"time"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/platform/schema"
	"agentplatform/internal/platform/strictjson"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/seal"
)

// Rules is an edit of a tool's rules; nil leaves a rule as it is.
type Rules struct {
	Enabled   *bool
	Approval  *tool.Approval
	TimeoutMS *int // milliseconds; 0: the platform's limit
	RetrySafe *bool
	Loosen    Loosen
}

// Loosen returns nil when the caller may have fewer calls of a thing need an approval, else the reason why not. what
// names the thing. A nil one allows nothing.
type Loosen func(what string) error

func (l Loosen) allow(what string) error {
	if l == nil {
		return fmt.Errorf("toolkit: nobody may loosen the approval of %s", what)
	}
	return l(what)
}

// maxPattern bounds a rule's pattern, and the name of the argument that it matches, in bytes.
const maxPattern = 1000

// apply changes a tool. location is the tool's location in the body, when that of its approval. The error is a problem
// of kind Invalid, or that of Loosen.
func (r Rules) apply(location, when string, t *Tool) error {
	a := cmp.Or(r.Approval, &tool.Approval{Mode: "never"})
	most := MaxCallTime.Milliseconds()
	_, unread := regexp.Compile(a.Pattern[:min(len(a.Pattern), maxPattern)])
	if err := cmp.Or(
		problem.InvalidIf(r.Enabled != nil && *r.Enabled && t.Problem != "",
			location+".enabled", "the tool cannot be enabled: %s", t.Problem),
		problem.InvalidIf(!slices.Contains([]string{"never", "always", "when"}, a.Mode),
			location+".approval", "must be never, always or when"),
		problem.InvalidIf(a.Mode == "when" && a.Argument == "", when+".argument", "is required"),
		problem.InvalidIf(len(a.Argument) > maxPattern, when+".argument", "must have at most %d bytes", maxPattern),
		problem.InvalidIf(len(a.Pattern) > maxPattern, when+".pattern", "must have at most %d bytes", maxPattern),
		problem.InvalidIf(unread != nil, when+".pattern", "must be a regular expression (RE2)"),
		problem.InvalidIf(r.TimeoutMS != nil && (*r.TimeoutMS < 0 || int64(*r.TimeoutMS) > most),
			location+".timeout_ms", "must be between 1 and %d", most),
	); err != nil {
		return err
	}
	if r.Approval != nil && r.Approval.Loosens(t.Approval) {
		if err := r.Loosen.allow("the tool " + t.Name); err != nil {
			return err
		}
	}
	set(&t.Enabled, r.Enabled)
	set(&t.Approval, r.Approval)
	set(&t.TimeoutMS, r.TimeoutMS)
	set(&t.RetrySafe, r.RetrySafe)
	return nil
}

// set sets a field that an edit names.
func set[T any](to, named *T) {
	if named != nil {
		*to = *named
	}
}

// called is the index of the tool with a name; -1: there is none.
func called(tools []Tool, name string) int {
	return slices.IndexFunc(tools, func(one Tool) bool { return one.Name == name })
}

func missingTool(id, name string) error {
	return problem.Missing(fmt.Sprintf("tool %q of toolkit %s", name, id))
}

// SetRules changes the rules of a tool and returns it. It returns a problem of kind NotFound when toolkit or tool does
// not exist, or Forbidden. The kind is Conflict for the built-in toolkit, and Invalid for a wrong field, which it
// names. Or it returns the error of Rules.Loosen.
func (s *Toolkits) SetRules(ctx context.Context, scope record.Scope, id, name string, rules Rules) (Tool, error) {
	var changed Tool
	_, err := s.change(ctx, scope, id, 0, func(t *catalog.Toolkit, tx *record.Tx) error {
		l, err := s.list(ctx, *t)
		if err != nil {
			return err
		}
		at := called(l.Tools, name)
		if at < 0 {
			return missingTool(id, name)
		}
		if err := rules.apply("body", "body.approval_when", &l.Tools[at]); err != nil {
			return err
		}
		changed = l.Tools[at]
		t.UpdatedAt = s.Host.Now()
		return s.keep(ctx, tx, t, l)
	})
	return changed, err
}

// Difference is the result of a refresh, as names of tools. That of a preview has the tools themselves, too, in the
// order of these lists.
type Difference struct {
	Added   []string  `json:"added,omitempty"`
	Removed []string  `json:"removed,omitempty"`
	Changed []string  `json:"changed,omitempty"`
	Tools   []Changed `json:"tools,omitempty"`
}

// Changed is a tool as it was and as it will be; nil if it was not there, or will not be.
type Changed struct {
	Before *Tool `json:"before,omitempty"`
	After  *Tool `json:"after,omitempty"`
}

// bind gives a tool its earlier rules, also when its server did not offer it in between. A tool that has turned into
// another call keeps the approval of a new one.
func (t *Tool) bind(was Tool) {
	if !t.turned(was) {
		t.Approval = was.Approval
	}
	t.TimeoutMS, t.RetrySafe = was.TimeoutMS, was.RetrySafe && t.RetrySafe
}

// Refresh requests the endpoint's tools again. New ones are not enabled, and need an approval if they may change
// something. A changed tool keeps its rules but is disabled, because its owner agreed to another one; the same holds
// for a tool that its server offers again. Of these, a tool that may change something may need an approval again. It
// does if it changed nothing before, if its request goes elsewhere, or if its server took it away meanwhile.
//
// It returns a problem of kind NotFound or Forbidden. The kind is Conflict for the built-in toolkit or a command that
// is no longer allowed. It is Invalid when the endpoint offers no usable tools.
func (s *Toolkits) Refresh(ctx context.Context, scope record.Scope, id string) (Difference, error) {
	return s.refresh(ctx, scope, id, 0, nil, func(*catalog.Toolkit) error { return nil })
}

// refresh refreshes a toolkit after an edit of it, in one commit.
func (s *Toolkits) refresh(
	ctx context.Context, scope record.Scope, id string, match record.Match, requested *tool.Selection,
	edit func(*catalog.Toolkit) error,
) (Difference, error) {
	var d Difference
	_, err := s.change(ctx, scope, id, match, func(t *catalog.Toolkit, tx *record.Tx) error {
		if err := edit(t); err != nil {
			return err
		}
		l, err := s.list(ctx, *t)
		if err == nil {
			d, err = s.renew(ctx, *t, requested, &l)
		}
		if err != nil {
			return err
		}
		t.RefreshedAt, t.UpdatedAt = s.Host.Now(), s.Host.Now()
		return s.keep(ctx, tx, t, l)
	})
	d.Tools = nil
	return d, err
}

// Preview returns the result that Refresh would have now; it changes nothing. Its errors are those of Refresh.
func (s *Toolkits) Preview(ctx context.Context, scope record.Scope, id string) (Difference, error) {
	if err := fixed(scope.Organization(), id); err != nil {
		return Difference{}, err
	}
	e, err := s.Toolkit(ctx, scope, id)
	if err != nil {
		return Difference{}, err
	}
	l, err := s.list(ctx, e.Value)
	if err != nil {
		return Difference{}, err
	}
	return s.renew(ctx, e.Value, nil, &l)
}

// renew requests the tools of a toolkit's endpoint and makes the list again with the rules that they had. requested is
// the part of the selection that the caller sets.
func (s *Toolkits) renew(
	ctx context.Context, t catalog.Toolkit, requested *tool.Selection, l *list,
) (d Difference, err error) {
	before := l.Tools
	endpoint, err := s.endpoint(ctx, t)
	if err != nil {
		return d, err
	}
	endpoint.Requested = requested
	now, err := s.discover(ctx, t.Kind, endpoint, slices.Concat(before, l.Gone))
	if err != nil {
		return d, err
	}
	for i := range now {
		l.Gone = slices.DeleteFunc(l.Gone, func(gone Tool) bool {
			again := gone.Name == now[i].Name
			if again {
				now[i].bind(gone)
				now[i].tighten() // agents may not name it any more
			}
			return again
		})
		at := called(before, now[i].Name)
		if at < 0 {
			d.Added = append(d.Added, now[i].Name)
			continue
		}
		was := before[at]
		now[i].bind(was)
		if !was.same(now[i]) {
			d.Changed = append(d.Changed, now[i].Name)
			continue
		}
		now[i].Definition = was.Definition // with other bytes, it would be another tool for paused calls
		now[i].Enabled, now[i].RetrySafe = was.Enabled && now[i].Problem == "", was.RetrySafe
	}
	for _, was := range before {
		if called(now, was.Name) < 0 {
			d.Removed = append(d.Removed, was.Name)
			l.Gone = append(l.Gone, was.reserved())
		}
	}
	l.Tools, l.Gone = now, remembered(l.Gone)
	confine(t, l.Tools)
	d.Tools = changes(d, before, now)
	return d, nil
}

// changes are the tools that a difference names.
func changes(d Difference, before, after []Tool) (list []Changed) {
	find := func(tools []Tool, name string) *Tool {
		if at := called(tools, name); at >= 0 {
			one := tools[at]
			return &one
		}
		return nil
	}
	for _, name := range slices.Concat(d.Added, d.Removed, d.Changed) {
		list = append(list, Changed{find(before, name), find(after, name)})
	}
	return list
}

// same reports whether a tool is as it was discovered before: description, parameters, and binding.
func (t Tool) same(now Tool) bool {
	return t.Description == now.Description && t.Definition.RetrySafe == now.Definition.RetrySafe && !now.turned(t) &&
		sameJSON(t.Parameters, now.Parameters) && sameJSON(t.Binding, now.Binding)
}

func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	return bytes.Equal(a, b) || json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// Browse lists the present offers of a toolkit's endpoint besides tools; nothing for kinds that are not a tool.Browser.
// It returns a problem of kind NotFound, Forbidden, or of kind Conflict when the server cannot be reached.
func (s *Toolkits) Browse(ctx context.Context, scope record.Scope, id string) (tool.Offerings, error) {
	e, err := s.Toolkit(ctx, scope, id)
	if err != nil {
		return tool.Offerings{}, err
	}
	if _, ok := s.Kinds[e.Value.Kind].(tool.Browser); !ok {
		return tool.Offerings{}, nil
	}
	endpoint, err := s.endpoint(ctx, e.Value)
	if err != nil {
		return tool.Offerings{}, err
	}
	ctx, cancel := s.Host.WithTimeout(ctx, discoverTime)
	defer cancel()
	found, err := s.kind(e.Value.Kind).Browse(ctx, endpoint)
	var refused *tool.Error
	if errors.As(err, &refused) {
		return found, problem.New(problem.Conflict, "conflict", "the toolkit's server cannot be reached: %s",
			refused.Message)
	}
	return found, err
}

// argumentLimits bounds the arguments of a test call.
var argumentLimits = strictjson.Limits{Bytes: 256 << 10, Depth: 64}

// Arguments is the normal form of the arguments of a test call. Policies, the schema and the tool see the same form, as
// with a model's call. The error is a problem of kind Invalid (body.arguments).
func Arguments(raw json.RawMessage) (json.RawMessage, error) {
	normal, err := strictjson.Object(raw, argumentLimits)
	if err != nil {
		return nil, problem.InvalidField("body.arguments", "%s", err)
	}
	return normal, nil
}

// Attempt is the outcome of a test call of a tool: Result, or Error when the tool failed.
type Attempt struct {
	Result  string        `json:"result"`
	Error   string        `json:"error,omitempty"`
	Elapsed time.Duration `json:"elapsed_ns"`
}

// TestCall calls a tool immediately, enabled or not, so that its owner sees the effect. The audit log has an entry
// before the call. Arguments are taken in their normal form ([Arguments]). For a call that would wait for a human's
// approval, approve reports whether the caller may give it. approve has no effect, and may be called if nothing needs
// approval, too.
//
// It returns a problem of kind NotFound when toolkit or tool does not exist, Forbidden, or of kind Invalid
// (body.arguments). The kind is Conflict when the command is no longer allowed. approve's error is returned as it is. A
// tool's failure is in the Attempt.
func (s *Toolkits) TestCall(
	ctx context.Context, scope record.Scope, id, name string, arguments json.RawMessage, approve func() error,
) (Attempt, error) {
	arguments, err := Arguments(arguments)
	if err != nil {
		return Attempt{}, err
	}
	t, tools, err := s.Offered(ctx, scope, id)
	if err != nil {
		return Attempt{}, err
	}
	at := called(tools, name)
	if at < 0 {
		return Attempt{}, missingTool(id, name)
	}
	if err := schema.Fits(ctx, tools[at].Parameters, arguments); err != nil {
		return Attempt{}, problem.InvalidField("body.arguments", "%s", err)
	}
	if _, asks := tools[at].Approval.Required(arguments); asks {
		if err := approve(); err != nil {
			return Attempt{}, err
		}
	}
	endpoint, err := s.endpoint(ctx, t)
	if err != nil {
		return Attempt{}, err
	}
	if err := s.Store.NoteDeed(ctx, scope.Organization(), "toolkit", id); err != nil {
		return Attempt{}, err
	}
	began := s.Host.Elapsed()
	ctx, cancel := s.Host.WithTimeout(ctx, min(tools[at].limit(), discoverTime))
	defer cancel()
	result, err := s.kind(t.Kind).Call(ctx, endpoint, tools[at].Definition, tool.Invocation{
		Name: name, Arguments: arguments, IdempotencyKey: "try-" + s.Host.NewID(),
	})
	a := Attempt{Result: result.String(), Elapsed: s.Host.Elapsed() - began}
	var failed *tool.Error
	var question *tool.Question
	switch {
	case errors.As(err, &failed):
		a.Error, err = failed.Message, nil
	case errors.As(err, &question): // there is no run whose sender could answer
		a.Error, err = "in a run, this is a clarification: "+question.Error(), nil
	}
	return a, err
}

func (t Tool) limit() time.Duration {
	if t.TimeoutMS > 0 {
		return time.Duration(t.TimeoutMS) * time.Millisecond
	}
	return callTime
}

// Named is an enabled tool of an agent's toolkits under the name by which the agent knows it.
type Named struct {
	Name    string
	Toolkit *catalog.Toolkit // the same for all of its tools
	Tool    Tool
}

// Names are the enabled tools of an agent's toolkits. Deleted toolkits are left out. Of tools with the same name, those
// of later toolkits get a longer one; disabled tools take no name, because a server could add them. Toolkits may be
// some seconds old. The only errors are failures of the store and blob store.
func (s *Toolkits) Names(ctx context.Context, organization string, ids []string) ([]Named, error) {
	kits, err := s.kits(ctx, s.Cached, organization, ids)
	return namesIn(kits), err
}

// kit is a toolkit and its tools.
type kit struct {
	*catalog.Toolkit

	tools []Tool
}

// kits reads those toolkits that still exist.
func (s *Toolkits) kits(ctx context.Context, from record.Reader, organization string, ids []string) ([]kit, error) {
	list := make([]kit, 0, len(ids))
	for _, id := range ids {
		t, tools, err := s.offered(ctx, from, record.Of(organization), id)
		if problem.Is(err, "not_found") {
			continue
		}
		if err != nil {
			return nil, err
		}
		list = append(list, kit{&t, tools})
	}
	return list, nil
}

// namesIn gives the enabled tools of toolkits their names.
func namesIn(kits []kit) (named []Named) {
	names := map[string]bool{}
	for _, name := range tool.ReservedNames {
		names[name] = true
	}
	for _, k := range kits {
		named = slices.Grow(named, len(k.tools))
		for _, one := range k.tools {
			if one.Enabled {
				named = append(named, Named{free(names, one.Name, k.Name), k.Toolkit, one})
			}
		}
	}
	return named
}

// ToolsOf are the tools of toolkits as of now, under their own names. on are those that an agent would be offered, off
// those that are disabled. None can be called. The only errors are failures of the store and blob store.
func (s *Toolkits) ToolsOf(ctx context.Context, organization string, ids []string) (on, off []tool.Offer, err error) {
	kits, err := s.kits(ctx, s.Store, organization, ids)
	for _, k := range kits {
		for _, one := range k.tools {
			if !one.Enabled {
				off = append(off, tool.Offer{Spec: one.Spec})
			}
		}
	}
	return Offers(namesIn(kits)), off, err
}

// Offers are tools as the agent's model sees them. They cannot be called yet.
func Offers(named []Named) []tool.Offer {
	offers := make([]tool.Offer, 0, len(named))
	for _, n := range named {
		o := tool.Offer{
			Spec: n.Tool.Spec, Own: n.Tool.Name, Source: n.Toolkit.ID + "/" + n.Tool.Name,
			Fingerprint: fingerprint(*n.Toolkit, n.Tool), Approval: n.Tool.Approval, Timeout: n.Tool.limit(),
		}
		o.Name, o.RetrySafe = n.Name, n.Tool.RetrySafe
		offers = append(offers, o)
	}
	return offers
}

// Listed is [Toolkits.Names] as offers that cannot be called. Nothing is opened.
func (s *Toolkits) Listed(ctx context.Context, organization string, ids []string) ([]tool.Offer, error) {
	named, err := s.Names(ctx, organization, ids)
	return Offers(named), err
}

// Open is [Toolkits.Names] as tools that are ready to be called. The calls of a toolkit's tools share a session, which
// the caller ends ([tool.End]). Broken credentials, or a command that is no longer allowed, fail each call with a
// tool.Error. The only errors are failures of the store, blob store and sealer.
func (s *Toolkits) Open(ctx context.Context, organization string, ids []string) ([]tool.Offer, error) {
	named, err := s.Names(ctx, organization, ids)
	if err != nil {
		return nil, err
	}
	offers := Offers(named)
	var at *opened // the toolkit before
	for i := range named {
		n := &named[i]
		if at == nil || at.id != n.Toolkit.ID {
			if at, err = s.open(ctx, *n.Toolkit); err != nil {
				return nil, err
			}
			offers[i].End = at.end
		}
		from := at
		offers[i].Call = func(ctx context.Context, i tool.Invocation) (tool.Result, error) {
			return from.call(ctx, &n.Tool.Definition, i)
		}
	}
	return offers, nil
}

// opened is a toolkit whose tools can be called.
type opened struct {
	id     string
	do     caller
	end    func() // of their session; nil: it has none
	broken string // why they cannot be called, if a retry would not help: the model gets it
}

func (s *Toolkits) open(ctx context.Context, t catalog.Toolkit) (*opened, error) {
	e, err := s.endpoint(ctx, t)
	e.Document = nil // not needed for calls
	o := &opened{id: t.ID}
	o.do, o.end = s.kind(t.Kind).Session(e)
	switch p, ok := problem.As(err); {
	case ok && p.Kind == problem.Conflict:
		o.broken, err = p.Message, nil
	case errors.Is(err, seal.ErrNotOurs):
		o.broken, err = "the toolkit's credentials cannot be decrypted: set them again", nil
	}
	return o, err
}

func (o *opened) call(ctx context.Context, d *tool.Definition, i tool.Invocation) (tool.Result, error) {
	if o.broken != "" {
		return tool.Result{}, tool.Fail("%s", o.broken)
	}
	i.Name = d.Name
	return o.do(ctx, *d, i)
}

// fingerprint identifies a tool as it is now; it changes when the tool changes.
func fingerprint(t catalog.Toolkit, one Tool) string {
	if t.Kind == Builtin {
		return ""
	}
	return tool.Fingerprint([]any{t.URL, t.BaseURL, t.Command, t.Request}, one.Definition)
}

// free returns a name that is not taken, and takes it.
func free(taken map[string]bool, name, toolkit string) string {
	candidate := name
	for n := 1; taken[candidate]; n++ {
		after := tool.Name(toolkit)
		if n > 1 {
			after = fmt.Sprintf("%s_%d", after, n)
		}
		candidate = tool.Longer(name, after)
	}
	taken[candidate] = true
	return candidate
}
