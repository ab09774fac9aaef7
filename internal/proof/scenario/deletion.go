package scenario

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Deleted content can be read nowhere.
func deletionScenarios() []Story {
	var all []Story
	for _, d := range deletions {
		all = append(all, Story{Name: "deletion/of " + d.of, Run: func(x *Actor) { d.run(newGarden(x, nil)) }})
	}
	for _, d := range knowledgeDeletions {
		all = append(all, Story{Name: "deletion/of " + d.of, Run: func(x *Actor) { d.run(newGarden(x, nil)) }})
	}
	return all
}

// Deletion runs these scenarios one after the other against a service whose blob store can be read: left lists the
// blobs that contain a word. At the end, when the organizations are deleted as well, the blob store must be empty.
func Deletion(t *testing.T, h Harness, left func(word string) []string) {
	receiver := newReceiver(t)
	world := h.Start(t, receiver.settings(nil))
	for _, d := range slices.Concat(deletions, knowledgeDeletions) {
		t.Run(d.of, func(t *testing.T) {
			g := newGarden(newActor(t, world, receiver), left)
			d.run(g)
			g.operator().delete("/organizations/" + g.Organization)
			g.emptied("", left)
		})
	}
}

type deletion struct {
	of  string
	run func(g *garden)
}

var deletions = []deletion{
	{"a chat", func(g *garden) {
		chats := g.converse(g.Actor)
		g.sown()
		for _, chat := range chats {
			g.delete("/chats/" + chat).is(204)
		}
		g.forgotten(g.Actor)
	}},
	{"a user", func(g *garden) {
		y := g.colleague("member", "run")
		g.converse(y)
		y.file(g.plant("file nobody uses"))
		g.sown()
		g.delete("/users/" + y.User).is(204)
		g.forgotten(g.Actor)
	}},
	{"an organization", func(g *garden) {
		g.converse(g.Actor)
		g.provide()
		g.file(g.plant("file nobody uses"))
		g.post("/files", object{"name": g.plant("file that never comes")}).is(201)
		for n := range 100 { // more versions than a commit has operations
			g.patch("/agents/"+g.Agent, object{"instructions": g.plant(fmt.Sprintf("version %d", n))}).is(200)
		}
		g.sown()
		g.operator().delete("/organizations/" + g.Organization).is(204)
		g.forgotten(g.operator())
	}},
	{"an agent and a toolkit", func(g *garden) {
		agent, toolkit := g.provide()
		g.sown()
		g.delete("/agents/" + agent).is(204)
		g.delete("/toolkits/" + toolkit).is(204)
		g.forgotten(g.Actor)
	}},
}

var knowledgeDeletions = []deletion{
	{"a document", func(g *garden) {
		base, documents := g.teach()
		g.sown()
		for _, id := range documents {
			g.delete("/knowledge-bases/" + base + "/documents/" + id).is(204)
		}
		g.unlearnt(base)
		g.forgotten(g.Actor)
	}},
	{"a knowledge base", func(g *garden) {
		base, _ := g.teach()
		g.sown()
		g.delete("/knowledge-bases/" + base).is(204)
		g.unlearnt(base)
		g.forgotten(g.Actor)
	}},
	{"an organization that knows something", func(g *garden) {
		g.teach()
		g.sown()
		g.operator().delete("/organizations/" + g.Organization).is(204)
		g.forgotten(g.operator())
	}},
}

// teach makes a base of documents that contain words: one of each source, one that was ingested again, and one that
// cannot be read.
func (g *garden) teach() (base string, documents []string) {
	base = g.base("description", g.plant("description"))
	text := func(what string) string { return g.plant(what) + strings.Repeat(" The lantern is lit.", 500) }
	add := func(body object) string {
		documents = append(documents, g.document(base, body))
		return documents[len(documents)-1]
	}
	again := add(object{"title": g.plant("title"), "text": text("text"), "metadata": object{"m": g.plant("metadata")}})
	g.post("/knowledge-bases/"+base+"/documents/"+again+"/reprocess", nil).is(202)
	g.settled(base, again, "ready")
	y := g.colleague("manager", "manage")
	theirs := y.document(base, object{"file_id": y.file(text("file"))})
	documents = append(documents, theirs)
	g.delete("/users/" + y.User).is(204)
	word := g.words[len(g.words)-1]
	g.eventually("the end of the user", func() bool { return !strings.Contains(g.get("/users").is(200).raw, y.User) })
	assert.Contains(g, g.get("/knowledge-bases/"+base+"/documents/"+theirs+"/content").is(200).raw, word,
		"a document outlives the user who sent it")
	broken := g.upload(base, "file", "file:"+string([]byte{0, 1, 2, 0xff})+g.plant("unreadable")).is(201)
	documents = append(documents, g.settled(base, broken.text("document_id"), "failed"))
	g.post("/search", object{"query": g.words[1]}).is(200)
	return base, documents
}

// unlearnt checks that a search finds nothing of a base.
func (g *garden) unlearnt(base string) {
	for _, mode := range []string{"hybrid", "semantic", "keyword"} {
		assert.Empty(g, g.find(strings.Join(g.words, " "), "mode", mode), "of base %s", base)
	}
}

// garden is a client that puts unique words into content and searches for them.
type garden struct {
	*Actor
	left  func(word string) []string // nil: the blob store cannot be read
	words []string
}

func newGarden(x *Actor, left func(string) []string) *garden { return &garden{Actor: x, left: left} }

func (g *garden) operator() *Actor { return g.with(g.world.Key) }

// plant makes a word that occurs nowhere else.
func (g *garden) plant(what string) string {
	word := fmt.Sprintf("%s-of-%s", strings.ReplaceAll(what, " ", "-"), g.Organization)
	g.words = append(g.words, word)
	return word
}

// long returns a text with the word that is too large for a table item.
func (g *garden) long(what string) string {
	return g.plant(what) + strings.Repeat(" lorem ipsum", 1000)
}

// converse has conversations with every kind of content as the client y, and returns their chats.
func (g *garden) converse(y *Actor) (chats []string) {
	in := func(name string) string {
		chats = append(chats, name+"-"+g.Organization)
		return chats[len(chats)-1]
	}
	metadata, _ := json.Marshal(object{"note": g.plant("metadata")})
	y.chat("message", g.plant("message"), "title", g.plant("title"), "note", "file:"+g.plant("file"), "metadata",
		string(metadata), "chat_id", in("small")).is(200)
	y.chat("message", g.long("long message"), "chat_id", in("large"), "callback_url", y.address("ok"),
		"idempotency_key", "k").is(200)
	y.chat("message", tool("echo", object{"text": g.long("long result")}), "chat_id", chats[1], "callback_url",
		y.address("ok")).is(200)
	y.chat("message", "/ask "+g.long("long question"), "chat_id", in("asked"), "callback_url", y.address("ok")).is(202)
	y.chat("message", g.long("long answer"), "note", "file:"+g.plant("file of an answer"), "chat_id", chats[2]).is(200)
	paused := y.chat("message", tool("echo", object{"text": g.plant("arguments")}), "agent_id", g.careful(), "chat_id",
		in("decided")).is(202)
	decisions := decide(paused.interrupt(0), "reject")
	decisions["decisions"].([]object)[0]["message"] = g.plant("decision")
	g.post("/runs/"+paused.text("run_id")+"/resume", decisions).is(200)
	y.await(paused.text("run_id"), "completed")

	run := y.startLongRun("chat_id", in("busy"), "note", "file:"+g.plant("file of a run that is cut short"))
	park := func(pairs ...string) string {
		return y.chat(append(pairs, "chat_id", chats[4], "on_conflict", "enqueue")...).is(202).text("parked",
			"parked_id")
	}
	taken := park("message", g.long("message taken back"), "note", "file:"+g.plant("file taken back"))
	y.delete("/runs/" + run + "/parked/" + taken).is(204)
	for n := range 5 {
		park("message", g.long(fmt.Sprintf("parked message %d", n)), "note",
			"file:"+g.plant(fmt.Sprintf("parked file %d", n)), "idempotency_key", fmt.Sprint(n))
	}
	y.chat("message", g.long("one too many"), "note", "file:"+g.plant("file too many"), "chat_id", chats[4],
		"on_conflict", "enqueue").problem(409, "parked_queue_full")
	y.chat("message", g.long("refused"), "note", "file:"+g.plant("file refused"), "chat_id", chats[4]).problem(409,
		"chat_busy")
	y.awaitPushes("ok", 4)
	return chats
}

// provide makes an agent and a toolkit that contain words.
func (g *garden) provide() (agent, toolkit string) {
	document := func(word string) string {
		return `{"openapi":"3.0.3","info":{"title":"t","version":"1"},"servers":[{"url":"` + g.receiver.url +
			`"}],"paths":{"/x":{"get":{"operationId":"x",
			"summary":"` + word + `","responses":{"200":{"description":"ok"}}}}}}`
	}
	toolkit = g.post("/toolkits",
		object{"kind": "openapi", "name": g.plant("toolkit"),
			"document": document(g.plant("document"))}).is(201).text("toolkit_id")
	g.patch("/toolkits/"+toolkit, object{"document": document(g.plant("second document"))}).is(200)
	agent = g.post("/agents", object{"name": g.plant("agent"), "instructions": g.plant("instructions"),
		"toolkit_ids": []string{toolkit}}).is(201).text("agent_id")
	g.patch("/agents/"+agent, object{"instructions": g.plant("later instructions")}).is(200)
	return agent, toolkit
}

// sown checks that some words are in the blob store: otherwise their later absence would prove nothing.
func (g *garden) sown() {
	if g.left == nil {
		return
	}
	found := 0
	for _, word := range g.words {
		found += len(g.left(word))
	}
	assert.Positive(g, found)
}

// lists has the lists in which a client finds content without its id.
var lists = []string{"/chats", "/runs", "/agents", "/toolkits", "/users", "/webhooks/deliveries", "/interrupts",
	"/audit-log", "/analytics/usage"}

// forgotten waits until x can read no planted word any more, and none is in the blob store.
func (g *garden) forgotten(x *Actor) {
	for _, path := range lists {
		g.eventually("the end of every word in "+path, func() bool {
			a := x.get(path + "?limit=100")
			return a.status == 200 && !strings.Contains(a.raw, "-of-"+g.Organization)
		})
	}
	if g.left != nil {
		g.emptied("-of-"+g.Organization, g.left)
	}
}

// emptied waits until no blob contains the word.
func (x *Actor) emptied(word string, left func(string) []string) {
	x.Helper()
	defer func() {
		if x.Failed() {
			x.Logf("what is left: %q", left(word))
		}
	}()
	x.eventually("the end of what the blob store has", func() bool { return len(left(word)) == 0 })
}
