package scenario

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The authorization matrix: every endpoint of the document × caller × level × owner of the object. The expected status
// is not read from the service. It follows from the row, in this order:
//
//   - 401 for an unknown key.
//   - 403 for a level that is too low, for any object.
//   - 404 for an object that does not exist.
//   - 403 for an object of another scope, for one with more rights than the caller, for an agent of other groups and
//     its work, and for the chat of another user with its runs and files.
//
// A refused request changes nothing and reveals nothing.

// right is the row of an endpoint.
type right struct {
	level  string // that it requires; empty: no key is needed
	object string // the kind of object that its path or form names
	token  bool   // the run's own token is accepted, too
	body   any    // a body, or the pairs of a form
	inBody bool   // the object is named in the body: a malformed id is an invalid body
}

type pairs []string

var rights = map[string]right{
	"GET /healthz": {},

	"POST /chat": {level: "run", object: "agent",
		body: pairs{"message", "x", "agent_id", "{id}"}, inBody: true},
	"GET /chats":                    {level: "read"},
	"GET /chats/{chat_id}":          {level: "read", object: "chat"},
	"DELETE /chats/{chat_id}":       {level: "run", object: "chat"},
	"GET /chats/{chat_id}/runs":     {level: "read", object: "chat"},
	"GET /chats/{chat_id}/messages": {level: "read", object: "chat"},
	"GET /runs":                     {level: "read"},
	"POST /runs/cancel": {level: "run",
		body: object{"filter": object{}, "confirm_count": 12345}},
	"GET /interrupts":               {level: "read"},
	"GET /runs/{run_id}":            {level: "read", object: "run", token: true},
	"GET /runs/{run_id}/stream":     {level: "read", object: "run", token: true},
	"GET /runs/{run_id}/steps":      {level: "read", object: "run", token: true},
	"GET /runs/{run_id}/interrupts": {level: "read", object: "run", token: true},
	"GET /runs/{run_id}/messages":   {level: "read", object: "run", token: true},
	"GET /runs/{run_id}/parked":     {level: "read", object: "run", token: true},
	"POST /runs/{run_id}/resume": {level: "run", object: "run", token: true,
		body: object{"decisions": []object{}}},
	"POST /runs/{run_id}/cancel":               {level: "run", object: "run", token: true},
	"POST /runs/{run_id}/followups":            {level: "run", object: "run", body: object{"message": "x"}},
	"POST /runs/{run_id}/token":                {level: "run", object: "run"},
	"DELETE /runs/{run_id}/parked/{parked_id}": {level: "run", object: "run"},

	"GET /files":              {level: "read"},
	"DELETE /files/{id}":      {level: "run", object: "file"},
	"GET /files/{id}":         {level: "read", object: "file"},
	"POST /files":             {level: "run", body: object{"name": "a.txt"}},
	"PUT /files/{id}/content": {level: "run", object: "file"},

	"GET /webhooks/deliveries":                 {level: "read"},
	"GET /webhooks/deliveries/{id}":            {level: "read", object: "delivery"},
	"POST /webhooks/deliveries/{id}/redeliver": {level: "run", object: "delivery"},
	"POST /webhooks/test": {level: "run",
		body: object{"callback_url": "http://plain.example.com"}},

	"GET /agents":                 {level: "read"},
	"POST /agents":                {level: "manage", body: object{"name": "made"}},
	"POST /agents/import":         {level: "manage", body: object{"format": "agent-platform/agent"}},
	"GET /agents/{id}":            {level: "read", object: "agent"},
	"PATCH /agents/{id}":          {level: "manage", object: "agent", body: object{"description": "changed"}},
	"DELETE /agents/{id}":         {level: "manage", object: "agent"},
	"GET /agents/{id}/versions":   {level: "read", object: "agent"},
	"GET /agents/{id}/tools":      {level: "read", object: "agent"},
	"POST /agents/{id}/publish":   {level: "manage", object: "agent", body: object{"version": 1}},
	"POST /agents/{id}/duplicate": {level: "manage", object: "agent"},
	"GET /agents/{id}/export":     {level: "manage", object: "agent"},
	"GET /models":                 {level: "read"},

	"GET /toolkits": {level: "read"},
	"POST /toolkits": {level: "manage",
		body: object{"kind": "http", "name": "t", "url": "https://example.com/x"}},
	"GET /toolkits/{id}":                {level: "read", object: "toolkit"},
	"PATCH /toolkits/{id}":              {level: "manage", object: "toolkit", body: object{"name": "changed"}},
	"DELETE /toolkits/{id}":             {level: "manage", object: "toolkit"},
	"POST /toolkits/{id}/refresh":       {level: "manage", object: "toolkit"},
	"GET /toolkits/{id}/resources":      {level: "read", object: "toolkit"},
	"GET /toolkits/{id}/tools":          {level: "read", object: "toolkit"},
	"PATCH /toolkits/{id}/tools/{name}": {level: "manage", object: "toolkit", body: object{"enabled": true}},
	"POST /toolkits/{id}/tools/{name}/try": {level: "manage", object: "toolkit",
		body: object{"arguments": object{"city": "Oslo"}}},

	"GET /documents":               {level: "read"},
	"GET /knowledge-bases":         {level: "read"},
	"POST /knowledge-bases":        {level: "manage", body: object{"name": "made"}},
	"GET /knowledge-bases/{id}":    {level: "read", object: "knowledge base"},
	"PATCH /knowledge-bases/{id}":  {level: "manage", object: "knowledge base", body: object{"name": "changed"}},
	"DELETE /knowledge-bases/{id}": {level: "manage", object: "knowledge base"},
	"POST /knowledge-bases/{id}/reprocess": {level: "manage", object: "knowledge base",
		body: object{"status": "failed"}},
	"DELETE /knowledge-bases/{id}/rebuild": {level: "manage", object: "knowledge base"},
	"GET /knowledge-bases/{id}/documents":  {level: "read", object: "knowledge base"},
	"POST /knowledge-bases/{id}/documents": {level: "manage", object: "knowledge base",
		body: object{"text": "x"}},
	"GET /knowledge-bases/{id}/documents/{document_id}": {level: "read", object: "document"},
	"PATCH /knowledge-bases/{id}/documents/{document_id}": {level: "manage", object: "document",
		body: object{"title": "changed"}},
	"DELETE /knowledge-bases/{id}/documents/{document_id}":         {level: "manage", object: "document"},
	"POST /knowledge-bases/{id}/documents/{document_id}/reprocess": {level: "manage", object: "document"},
	"GET /knowledge-bases/{id}/documents/{document_id}/content":    {level: "read", object: "document"},
	"PUT /knowledge-bases/{id}/documents/{document_id}/content": {level: "manage", object: "document",
		body: object{"text": "x"}},
	"GET /knowledge-bases/{id}/documents/{document_id}/text":   {level: "read", object: "document"},
	"GET /knowledge-bases/{id}/documents/{document_id}/chunks": {level: "read", object: "document"},
	"POST /search": {level: "read", object: "knowledge base", inBody: true,
		body: object{"query": "x", "knowledge_base_ids": []string{"{id}"}}},

	"POST /a2a/{agent_id}": {level: "run", object: "agent",
		body: object{"jsonrpc": "2.0", "id": 1, "method": "GetTask", "params": object{"id": "x"}}},
	"GET /a2a/{agent_id}/.well-known/agent-card.json": {level: "read", object: "agent"},
	"POST /agui/{agent_id}": {level: "run", object: "agent",
		body: object{"threadId": "with-{id}", "runId": "r",
			"messages": []object{{"id": "m", "role": "user", "content": "x"}}}},
	"POST /responses": {level: "run", object: "agent",
		body: object{"model": "{id}", "input": "x"}},
	"GET /responses/{response_id}":             {level: "read", object: "run"},
	"DELETE /responses/{response_id}":          {level: "run", object: "run"},
	"POST /responses/{response_id}/cancel":     {level: "run", object: "run"},
	"GET /responses/{response_id}/input_items": {level: "read", object: "run"},
	"POST /mcp": {level: "run", body: object{"jsonrpc": "2.0", "id": 1, "method": "ping"}},

	"GET /users":         {level: "admin"},
	"POST /users":        {level: "admin", body: object{"email": "made@example.com"}},
	"GET /users/{id}":    {level: "admin", object: "user"},
	"PATCH /users/{id}":  {level: "admin", object: "user", body: object{"name": "changed"}},
	"DELETE /users/{id}": {level: "admin", object: "user"},

	"GET /groups":                           {level: "admin"},
	"POST /groups":                          {level: "admin", body: object{"name": "made"}},
	"GET /groups/{id}":                      {level: "admin", object: "group"},
	"PATCH /groups/{id}":                    {level: "admin", object: "group", body: object{"name": "changed"}},
	"DELETE /groups/{id}":                   {level: "admin", object: "group"},
	"GET /groups/{id}/members":              {level: "admin", object: "group"},
	"POST /groups/{id}/members":             {level: "admin", object: "group", body: object{"user_id": "{user_id}"}},
	"DELETE /groups/{id}/members/{user_id}": {level: "admin", object: "group"},

	"GET /api-keys":              {level: "admin"},
	"POST /api-keys":             {level: "admin", body: object{"name": "made"}},
	"GET /api-keys/{id}":         {level: "admin", object: "key"},
	"PATCH /api-keys/{id}":       {level: "admin", object: "key", body: object{"name": "changed"}},
	"POST /api-keys/{id}/rotate": {level: "admin", object: "key"},
	"DELETE /api-keys/{id}":      {level: "admin", object: "key"},

	"GET /me":                                  {level: "read"},
	"GET /audit-log":                           {level: "admin"},
	"GET /analytics/usage":                     {level: "admin"},
	"GET /analytics/summary":                   {level: "admin"},
	"GET /analytics/timeseries":                {level: "admin"},
	"GET /analytics/me":                        {level: "read"},
	"GET /organization":                        {level: "admin"},
	"GET /organization/activity":               {level: "admin"},
	"GET /budgets":                             {level: "admin"},
	"PATCH /organization":                      {level: "admin", body: object{"run_retention_days": 30}},
	"POST /organization/webhook-secret/rotate": {level: "admin"},

	"GET /organizations":         {level: "operator"},
	"POST /organizations":        {level: "operator", body: object{"name": "made"}},
	"GET /organizations/{id}":    {level: "operator", object: "organization"},
	"PATCH /organizations/{id}":  {level: "operator", object: "organization", body: object{"name": "changed"}},
	"DELETE /organizations/{id}": {level: "operator", object: "organization"},
}

var levels = []string{"read", "run", "manage", "admin", "operator"}

func covers(has, needed string) bool {
	return slices.Index(levels, has) >= slices.Index(levels, needed)
}

// secretWord is in all content, so that a leak is found.
const secretWord = "swordfish"

// thing is an object: values for the placeholders of paths and bodies.
type thing map[string]string

// make makes an object of a kind with the actor's own key.
func (x *Actor) make(kind string) thing {
	x.Helper()
	switch kind {
	case "":
		return thing{}
	case "agent":
		id := x.post("/agents", object{"name": secretWord}).is(201).text("agent_id")
		return thing{"id": id, "agent_id": id}
	case "toolkit":
		_, address := x.serveTools()
		return thing{"name": secretWord, "id": x.post("/toolkits", object{
			"kind": "http", "name": secretWord, "url": address + "/weather",
			"request": object{"name": secretWord, "method": "GET"},
		}).is(201).text("toolkit_id")}
	case "knowledge base":
		return thing{"id": x.base("name", secretWord)}
	case "document":
		base := x.base("name", secretWord)
		return thing{"id": base, "document_id": x.document(base, object{"title": secretWord, "text": secretWord})}
	case "user":
		return thing{"id": x.post("/users", object{"email": secretWord + freshEmail()}).is(201).text("user_id")}
	case "key":
		return thing{"id": x.post("/api-keys", object{"name": secretWord}).is(201).text("api_key_id")}
	case "group":
		member := x.post("/users", object{"email": freshEmail()}).is(201).text("user_id")
		id := x.post("/groups", object{"name": secretWord}).is(201).text("group_id")
		x.post("/groups/"+id+"/members", object{"user_id": member}).is(201)
		return thing{"id": id, "user_id": member}
	case "organization":
		return thing{"id": x.with(x.world.Key).post("/organizations",
			object{"name": secretWord}).is(201).text("organization_id")}
	case "run", "chat":
		a := x.chat("message", "/ask "+secretWord).is(202)
		parked := x.post("/runs/"+a.text("run_id")+"/followups", object{"message": secretWord}).is(202).text("parked",
			"parked_id")
		return thing{"run_id": a.text("run_id"), "chat_id": a.text("chat_id"), "parked_id": parked, "agent": x.Agent}
	case "file":
		body, contentType := form("file", "file:"+secretWord)
		return thing{"id": x.do(x.request(http.MethodPost, "/files", body, "Content-Type",
			contentType)).is(201).text("file_id")}
	case "delivery":
		a := x.chat("message", secretWord, "callback_url", x.address("ok")).is(200)
		list := reply{}
		x.eventually("the delivery", func() bool {
			list = x.get("/webhooks/deliveries?run_id=" + a.text("run_id")).is(200)
			return len(list.list("deliveries")) == 1 && list.text("deliveries", 0, "state") == "delivered"
		})
		return thing{"id": list.text("deliveries", 0, "delivery_id"), "chat_id": a.text("chat_id")}
	}
	require.Fail(x, "nobody knows how to make a "+kind)
	return nil
}

// unmake deletes an object, if its kind can be deleted, and waits until that is done.
func (x *Actor) unmake(kind string, o thing) bool {
	x.Helper()
	paths := map[string]string{
		"agent": "/agents/{id}", "toolkit": "/toolkits/{id}", "user": "/users/{id}", "key": "/api-keys/{id}",
		"group": "/groups/{id}", "knowledge base": "/knowledge-bases/{id}",
		"document": "/knowledge-bases/{id}/documents/{document_id}",
		"run":      "/chats/{chat_id}", "chat": "/chats/{chat_id}", "delivery": "/chats/{chat_id}",
		"organization": "/organizations/{id}",
	}
	if paths[kind] == "" {
		return false
	}
	y := x
	if kind == "organization" {
		y = x.with(x.world.Key)
	}
	y.delete(o.fill(paths[kind])).is(204)
	if kind == "delivery" {
		y.eventually("the delivery's end",
			func() bool { return y.post("/webhooks/deliveries/"+o["id"]+"/redeliver", nil).status == 404 })
	}
	if kind == "group" { // its members are updated in the background
		y.eventually("the group's end",
			func() bool { return len(y.get("/users/"+o["user_id"]).is(200).list("group_ids")) == 0 })
	}
	return true
}

func (o thing) fill(text string) string {
	text = strings.ReplaceAll(text, "{response_id}", "resp_{run_id}")
	for name, value := range o {
		text = strings.ReplaceAll(text, "{"+name+"}", value)
	}
	return text
}

// ask sends an endpoint's request for an object. Of a stream only the beginning is read.
func (x *Actor) ask(route string, r right, o thing) reply {
	x.Helper()
	method, path, _ := strings.Cut(route, " ")
	var body io.Reader
	contentType := "application/json"
	switch b := r.body.(type) {
	case pairs:
		filled := slices.Clone(b)
		for i := range filled {
			filled[i] = o.fill(filled[i])
		}
		body, contentType = form(filled...)
	case object:
		body = strings.NewReader(o.fill(jsonOf(b)))
	}
	ctx, cancel := context.WithTimeout(x.Context(), patience)
	defer cancel()
	q := x.request(method, o.fill(path), body).WithContext(ctx)
	if body != nil {
		q.Header.Set("Content-Type", contentType)
	}
	q.Header.Set("Accept", "application/json, text/event-stream")
	response, err := client.Do(q)
	require.NoError(x, err)
	defer func() { _ = response.Body.Close() }()
	a := reply{x: x, status: response.StatusCode, header: response.Header}
	if !strings.HasPrefix(response.Header.Get("Content-Type"), "text/event-stream") {
		raw, err := io.ReadAll(response.Body)
		require.NoError(x, err)
		a.raw = string(raw)
		_ = json.Unmarshal(raw, &a.body)
	}
	return a
}

func jsonOf(v any) string {
	b, _ := json.Marshal(v)
	return string(b)
}

// inventory returns all content of a scope that its administrator can read, including the audit log: every change
// leaves an entry.
func (x *Actor) inventory() string {
	x.Helper()
	var b strings.Builder
	paths := []string{"/agents", "/users", "/groups", "/toolkits", "/chats", "/runs", "/audit-log",
		"/webhooks/deliveries", "/interrupts", "/knowledge-bases"}
	for _, base := range x.get("/knowledge-bases?limit=100").is(200).list("knowledge_bases") {
		paths = append(paths, "/knowledge-bases/"+base.(object)["knowledge_base_id"].(string)+"/documents")
	}
	for _, path := range paths {
		b.WriteString(path + " " + x.get(path+"?limit=100").is(200).raw + "\n")
	}
	for _, k := range x.get("/api-keys?limit=100").is(200).list("api_keys") {
		delete(k.(object), "last_used_at")
		b.WriteString(jsonOf(k) + "\n")
	}
	return b.String()
}

// cell is a request of the matrix with its expected response.
type cell struct {
	what   string
	key    string
	o      thing
	status int
	code   string
	in     string // the organization that it names
}

// Matrix checks every endpoint of a world's OpenAPI document against its row.
func Matrix(t *testing.T, h Harness) {
	receiver := newReceiver(t)
	w := h.Start(t, map[string]string{
		"WEBHOOK_ALLOW_HOSTS": receiver.host, "WEBHOOK_CA_FILE": receiver.caFile, "TOOL_ALLOW_HOSTS": receiver.host,
		"TOOL_CA_FILE": receiver.caFile,
		"RATE_LIMIT":   "1000000", "RATE_BURST": "1000000", "USER_CAP": "1000", "ORGANIZATION_CAP": "10000",
		"OBSERVE_WINDOW": "25s",
	})
	home := newActor(t, w, receiver)
	missing := maps.Clone(rights)
	for path, item := range home.get("/openapi.json").is(200).at("paths").(object) {
		for method := range item.(object) {
			route := strings.ToUpper(method) + " " + strings.TrimPrefix(path, "/api/v1")
			if _, known := rights[route]; assert.True(t, known, "%s has no row in the matrix", route) {
				delete(missing, route)
			}
		}
	}
	assert.Empty(t, missing, "rows without a route")
	m := &matrix{home: home, other: newActor(t, w, receiver), nobody: home.inside(nil), keys: map[string]string{},
		made: map[string]thing{}}
	m.people()
	m.watchers()
	m.operators()
	m.outsiders()
	home.share("own")
	t.Run("what is refused", m.refused)
	t.Run("what is allowed", m.allowed)
}

type matrix struct {
	home, other, nobody *Actor

	keys map[string]string // of the owner by level, and invalid ones
	made map[string]thing  // by owner and kind
}

// people makes the keys: one of each level, and those that are no longer or never were valid.
func (m *matrix) people() {
	x := m.home
	of := func(level string) reply {
		if level == "operator" {
			return x.with(x.world.Key).post("/api-keys",
				object{"name": level, "user_id": x.User, "level": level, "organization_id": x.Organization}).is(201)
		}
		return x.post("/api-keys", object{"name": level, "user_id": x.User, "level": level}).is(201)
	}
	for _, level := range levels {
		m.keys[level] = of(level).text("key")
	}
	revoked := of("admin")
	x.delete("/api-keys/" + revoked.text("api_key_id")).is(204)
	m.keys["revoked"] = revoked.text("key")
	rotated := of("admin")
	x.post("/api-keys/"+rotated.text("api_key_id")+"/rotate", object{"overlap_seconds": 0}).is(200)
	m.keys["rotated out"] = rotated.text("key")
	expired := of("admin")
	x.patch("/api-keys/"+expired.text("api_key_id"), object{"expires_at": "2020-01-01T00:00:00Z"}).is(200)
	x.with(expired.text("key")).get("/me").problem(401, "invalid_api_key")
	m.keys["expired"] = expired.text("key")
	good := m.keys["admin"]
	m.keys["malformed"] = "ap_nonsense"
	m.keys["changed by a letter"] = good[:20] + strings.Map(func(r rune) rune {
		if r == 'a' {
			return 'b'
		}
		return 'a'
	}, good[20:21]) + good[21:]
	m.keys["of a colleague"] = x.colleague("admin", "admin").Key
	m.keys["of a visitor"] = m.other.operator().Key
	m.keys["of another organization"] = m.other.Key
	m.keys["of nobody"] = m.nobody.Key
}

// operators makes objects with more rights than an admin of their own organization, by kind.
func (m *matrix) operators() {
	boss := m.home.operator()
	m.made["operator's key"] = thing{"id": boss.keyID}
	m.made["operator's user"] = thing{"id": boss.User}
	group := m.home.post("/groups", object{"name": "of operators"}).is(201).text("group_id")
	m.home.with(m.home.world.Key).patch("/users/"+boss.User, object{"group_ids": []string{group}}).is(200)
	m.made["operator's group"] = thing{"id": group, "user_id": boss.User}
}

// outsiders makes an agent that is restricted to a group, with its work, and a user outside the group.
func (m *matrix) outsiders() {
	r := m.home.restrict()
	run := thing{"run_id": r.asks, "chat_id": r.chat, "parked_id": r.parked}
	m.made["restricted agent"] = thing{"id": r.agent, "agent_id": r.agent}
	m.made["restricted run"], m.made["restricted chat"] = run, run
	m.made["restricted delivery"] = thing{"id": r.delivery, "chat_id": r.chat}
	base := m.home.base("name", "closed", "group_ids", []string{r.group})
	m.made["restricted knowledge base"] = thing{"id": base}
	open := m.home.base("name", "open")
	m.made["restricted document"] = thing{"id": open, "document_id": m.home.document(open,
		object{"text": secretWord, "group_ids": []string{r.group}})}
	m.keys["of an outsider"] = m.home.colleague("manager", "manage").Key

	p := m.home.pausing(true, asks)
	p.pause(p.owner)
	decided := thing{"run_id": p.run, "chat_id": p.chat, "parked_id": r.parked}
	m.made["decided run"], m.made["decided chat"] = decided, decided
	m.made["decided agent"] = thing{"id": p.agent, "agent_id": p.agent}
	manager := m.home.colleague("manager", "manage")
	m.home.post("/groups/"+p.approvers+"/members", object{"user_id": manager.User}).is(201)
	m.keys["of an approver"], m.keys["of a managing approver"] = p.approver.Key, manager.Key
}

// toDecide has the endpoints for an approver who may not use the agent, with the status of their responses.
var toDecide = map[string]int{"GET /runs/{run_id}": 200, "POST /runs/{run_id}/resume": 409}

// names reports whether an endpoint's path or body has a placeholder.
func (r right) names(route, gap string) bool {
	return strings.Contains(route+jsonOf(r.body), "{"+gap+"}")
}

// changes reports whether an endpoint changes a key or a user, directly or as a member of a group.
func (r right) changes(route string) bool {
	return !strings.HasPrefix(route, "GET ") && (r.object == "key" || r.object == "user" || r.names(route, "user_id"))
}

// things makes one object of each kind in each scope; nothing may change them.
func (m *matrix) things() {
	for kind := range kinds() {
		m.made["own "+kind] = m.home.make(kind)
		m.made["other "+kind] = m.other.make(kind)
		m.made["nobody's "+kind] = m.nobody.make(kind)
		gone := m.home.make(kind)
		if m.home.unmake(kind, gone) {
			m.made["deleted "+kind] = gone
		}
		nowhere, nonsense := thing{}, thing{}
		for name, value := range m.made["own "+kind] {
			nowhere[name], nonsense[name] = value, value
		}
		for _, name := range []string{"id", "agent_id", "run_id", "chat_id", "document_id"} {
			if _, names := nowhere[name]; names {
				nowhere[name], nonsense[name] = "0123456789abcdef01234567", "no-such-thing"
			}
		}
		m.made["nowhere "+kind], m.made["malformed "+kind] = nowhere, nonsense
	}
}

func kinds() map[string]bool {
	all := map[string]bool{}
	for _, r := range rights {
		if r.object != "" {
			all[r.object] = true
		}
	}
	return all
}

func (m *matrix) refused(t *testing.T) {
	m.things()
	tokenOf := m.made["own run"]["run_id"]
	token := m.home.post("/runs/"+tokenOf+"/token", nil).is(201).text("token")
	before := []string{m.home.inventory(), m.other.inventory(), m.nobody.inventory()}
	requests := 0
	for _, route := range slices.Sorted(maps.Keys(rights)) {
		r := rights[route]
		if r.level == "" {
			continue
		}
		for _, c := range m.cells(route, r, token) {
			requests++
			a := m.home.with(c.key).acting(c.in).ask(route, r, c.o)
			assert.Equal(t, c.status, a.status, "%s %s: %s", route, c.what, a.raw)
			assert.Equal(t, c.code, a.body["code"], "%s %s: %s", route, c.what, a.raw)
			assert.NotContains(t, a.raw, secretWord, "%s %s", route, c.what)
			assert.NotContains(t, fmt.Sprint(a.header), secretWord, "%s %s", route, c.what)
		}
		if body, is := joins[route]; is {
			requests++
			into := right{level: r.level, object: "chat", body: body}
			a := m.home.with(m.keys["of a member"]).ask(route, into, m.made["own chat"])
			assert.Equal(t, 403, a.status, "%s into another user's chat: %s", route, a.raw)
			assert.NotContains(t, a.raw, secretWord, route)
		}
	}
	requests += m.unlisted(t)
	for i, x := range []*Actor{m.home, m.other, m.nobody} {
		assert.Equal(t, before[i], x.inventory(), "what is refused changes nothing")
	}
	t.Log(requests, "requests were refused")
}

// cells returns the requests that an endpoint must refuse.
func (m *matrix) cells(route string, r right, token string) (list []cell) {
	own := m.made["own "+r.object]
	add := func(what, key string, o thing, status int, code string) {
		list = append(list, cell{what, key, o, status, code, ""})
	}
	named := func(what, key, in string, o thing, status int, code string) {
		list = append(list, cell{what + ", which names an organization", key, o, status, code, in})
	}
	add("without a key", "", own, 401, "missing_api_key")
	for _, bad := range []string{"revoked", "rotated out", "expired", "malformed", "changed by a letter"} {
		add("with a key that is "+bad, m.keys[bad], own, 401, "invalid_api_key")
	}
	for _, level := range levels {
		if covers(level, r.level) {
			continue
		}
		add("at level "+level, m.keys[level], own, 403, "insufficient_permission")
		if r.object != "" { // the level is checked before the object
			add("at level "+level+", of nothing", m.keys[level], m.made["nowhere "+r.object], 403,
				"insufficient_permission")
			add("at level "+level+", of another's", m.keys[level], m.made["other "+r.object], 403,
				"insufficient_permission")
		}
	}
	for _, level := range []string{r.level, "admin"} { // only an operator may name one, even its own
		if level != "operator" {
			named("at level "+level, m.keys[level], m.home.Organization, own, 403, "insufficient_permission")
		}
	}
	named("with a run's token", token, m.home.Organization, own, 403, "insufficient_permission")
	operator := m.keys["of a visitor"]
	named("an operator", operator, "nonsense", own, 400, "invalid_request")
	named("an operator", operator, "0123456789abcdef01234567", own, 404, "not_found")
	named("an operator", operator, m.made["deleted organization"]["id"], own, 404, "not_found")
	if r.level == "operator" { // an operator in an organization is an admin there
		named("an operator", operator, m.home.Organization, own, 403, "insufficient_permission")
	}
	if !r.token {
		add("with a run's token", token, own, 403, "insufficient_permission")
	} else {
		add("with another run's token", token, m.made["other run"], 403, "insufficient_permission")
	}
	if r.object == "" {
		return list
	}
	good := m.keys[r.level]
	missing, code := 404, "not_found"
	add("of nothing", good, m.made["nowhere "+r.object], missing, code)
	if gone, can := m.made["deleted "+r.object]; can {
		add("of what was deleted", good, gone, missing, code)
	}
	if r.inBody {
		missing, code = 400, "invalid_request"
	}
	if r.object != "chat" { // clients choose the ids of chats
		add("of nonsense", good, m.made["malformed "+r.object], missing, code)
	}
	if r.level == "operator" {
		return list // it has this right everywhere
	}
	if closed, there := m.made["restricted "+r.object]; there {
		add("of an agent of other groups", m.keys["of an outsider"], closed, 403, "insufficient_permission")
	}
	list = append(list, m.unseen(r)...)
	if waits, there := m.made["decided "+r.object]; there && toDecide[route] == 0 {
		for _, key := range []string{"of an approver", "of a managing approver"} {
			if key == "of a managing approver" || covers("run", r.level) {
				add("of an agent that it approves for, with a key "+key, m.keys[key], waits, 403,
					"insufficient_permission")
			}
		}
	}
	if r.changes(route) {
		add("of an operator's", good, m.made["operator's "+r.object], 403, "insufficient_permission")
		add("of an operator's, by a colleague", m.keys["of a colleague"], m.made["operator's "+r.object], 403,
			"insufficient_permission")
		named("of an operator's, by an operator", operator, m.home.Organization, m.made["operator's "+r.object], 403,
			"insufficient_permission")
	}
	for _, whose := range []string{"other ", "nobody's "} {
		add("of "+whose+"organization", good, m.made[whose+r.object], 403, "outside_organization")
		named("of "+whose+"organization, an operator", operator, m.home.Organization, m.made[whose+r.object], 403,
			"outside_organization")
	}
	for _, who := range []string{"of another organization", "of nobody"} {
		add("with a key "+who, m.keys[who], own, 403, "outside_organization")
	}
	return list
}

// allowed checks that a caller with the right is not refused, for its own objects and for a colleague's.
func (m *matrix) allowed(t *testing.T) {
	requests := 0
	for _, route := range slices.Sorted(maps.Keys(rights)) {
		r := rights[route]
		who := map[string]string{"a colleague": m.keys["of a colleague"]}
		if slices.Contains(ofChats, r.object) && r.object != "file" && covers("run", r.level) {
			who["a monitor"], who["a manager"] = m.keys["of a monitor at level "+r.level], m.keys["of a manager"]
		}
		for _, level := range levels {
			who["level "+level] = m.keys[level]
		}
		if r.level == "" {
			who["nobody"], who["a key that is malformed"] = "", m.keys["malformed"]
		}
		for name, key := range who {
			if level, is := strings.CutPrefix(name, "level "); is && r.level != "" && !covers(level, r.level) ||
				name == "a colleague" && (r.level == "operator" || sends[route]) {
				continue
			}
			requests++
			if above, there := m.made["operator's "+r.object]; there && strings.HasPrefix(route, "GET ") &&
				!strings.HasPrefix(name, "level operator") {
				assert.Equal(t, 200, m.home.with(key).ask(route, r, above).status, "%s of an operator's, as %s", route,
					name)
			}
			a := m.home.with(key).ask(route, r, m.home.make(r.object))
			assert.NotContains(t, []int{401, 403, 404, 405, 500, 503}, a.status, "%s as %s: %s", route, name, a.raw)
		}
		if r.level != "" && r.level != "operator" && !sends[route] {
			requests++
			visitor := m.home.with(m.keys["of a visitor"]).acting(m.home.Organization)
			a := visitor.ask(route, r, m.home.make(r.object))
			assert.NotContains(t, []int{401, 403, 404, 405, 500, 503}, a.status, "%s as a visitor: %s", route, a.raw)
		}
		if status := toDecide[route]; status != 0 { // an empty list of decisions does not match the pending calls
			requests++
			a := m.home.with(m.keys["of an approver"]).ask(route, r, m.made["decided run"])
			assert.Equal(t, status, a.status, "%s as an approver: %s", route, a.raw)
		}
		if route == "GET /files/{id}" {
			for _, name := range []string{"of a monitor at level read", "of a manager"} {
				requests++
				assert.Equal(t, 200, m.home.with(m.keys[name]).ask(route, r, m.made["held file"]).status, name)
			}
		}
		if r.token {
			run := m.home.make("run")
			a := m.home.with(m.home.post("/runs/"+run["run_id"]+"/token", nil).is(201).text("token")).ask(route, r, run)
			assert.NotContains(t, []int{401, 403, 404, 500}, a.status, "%s with the run's token: %s", route, a.raw)
		}
	}
	t.Log(requests, "requests were allowed")
}
