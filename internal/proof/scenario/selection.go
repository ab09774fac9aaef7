package scenario

import (
	"fmt"

	"github.com/stretchr/testify/assert"
)

// offer adds operations that have a tag to the document of a tool server.
func (t *tools) offer(tag string, n int) {
	for i := range n {
		o := operation(fmt.Sprintf("%s_%d", tag, i), "")
		o["tags"] = []string{tag}
		t.set(fmt.Sprintf("/%s/%d", tag, i), "get", o)
	}
}

// chooseAPart uses a document of more operations than a toolkit may have.
func chooseAPart(x *Actor) {
	server, address := x.serveTools()
	server.offer("orders", 600)
	kit := object{
		"kind": "openapi", "name": "shop", "url": address + "/openapi.json",
		"credentials": object{"type": "bearer", "token": toolToken},
	}
	refused := x.post("/toolkits", kit).problem(400, "invalid_request")
	assert.Contains(x, refused.raw, "over 500 operations (607): choose some with include")
	kit["include"], kit["exclude"] = []string{"path:/weather", "order*", "hang"}, []string{"tag:orders"}
	made := x.post("/toolkits", kit).is(201)
	toolkit := "/toolkits/" + made.text("toolkit_id")
	assert.Equal(x, []any{"path:/weather", "order*", "hang"}, made.list("include"))
	assert.Equal(x, 3.0, made.number("enabled_count"))

	kit["include"] = []string{"hang", "tag:order"}
	assert.Contains(x, x.post("/toolkits", kit).problem(400, "invalid_request").raw, "body.include[1]")
	assert.Contains(x, x.patch(toolkit, object{"include": []string{"nothing"}}).problem(400, "invalid_request").raw,
		"body.include[0]")
	x.patch(toolkit, object{"include": []string{"hang"}, "name": "n"}).problem(400, "invalid_request")
	changed := x.patch(toolkit, object{"include": []string{"get_*", "orders_7"}, "exclude": nil}).is(200)
	assert.Equal(x, 2.0, changed.number("tool_count"))
	all, enabled := toolNames(x.get(toolkit + "/tools").is(200))
	assert.Equal(x, []string{"orders_7", "get_weather"}, all)
	assert.Equal(x, []string{"get_weather"}, enabled, "what comes in is not enabled")
	x.patch(toolkit, object{"enabled": []string{"orders_7"}}).is(200)
	x.post(toolkit+"/refresh", object{}).is(200)
	all, enabled = toolNames(x.get(toolkit + "/tools").is(200))
	assert.Equal(x, []string{"orders_7", "get_weather"}, all, "a refresh chooses again")
	assert.Equal(x, []string{"orders_7"}, enabled)
}

// most is the number of tools that a model is offered.
const most = 128

// haveTooManyTools gives an agent more tools than a model takes.
func haveTooManyTools(x *Actor) {
	server, address := x.serveTools()
	server.offer("orders", most)
	kit := object{
		"kind": "openapi", "name": "shop", "url": address + "/openapi.json", "include": []string{"tag:orders"},
		"credentials": object{"type": "bearer", "token": toolToken},
	}
	toolkit := x.post("/toolkits", kit).is(201).text("toolkit_id")
	spec := object{"name": "Clerk", "toolkit_ids": []string{toolkit}, "can_ask": true}
	refused := x.post("/agents", spec).problem(400, "invalid_request")
	assert.Contains(x, refused.raw, "the agent would have 129 tools, but the limit is 128")
	spec["can_ask"] = false
	agent := x.post("/agents", spec).is(201).text("agent_id")
	x.patch("/agents/"+agent, object{"can_ask": true}).problem(400, "invalid_request")
	x.chat("agent_id", agent, "message", "/tool orders_7 {}").is(200)
	client := x.post("/responses", object{"model": agent, "input": "hello", "tools": []object{
		{"type": "function", "name": "mine", "parameters": object{"type": "object", "properties": object{}}},
	}})
	assert.Equal(x, 400, client.status)
	assert.Contains(x, client.raw, "the agent and its client have 129 tools")

	delete(kit, "include")
	large := x.post("/toolkits", kit).is(201)
	assert.Equal(x, 0.0, large.number("enabled_count"))
	assert.Contains(x, large.text("note"), "The toolkit has 135 tools, and a model takes 128. None is enabled")
	other := x.post("/toolkits", object{"kind": "openapi", "name": "weather", "url": address + "/openapi.json",
		"credentials": kit["credentials"], "enabled": []string{}, "include": []string{"get_weather"}}).is(201)
	x.patch("/agents/"+agent, object{"toolkit_ids": []string{toolkit, other.text("toolkit_id")}}).is(200)
	x.patch("/toolkits/"+other.text("toolkit_id")+"/tools/get_weather", object{"enabled": true}).is(200)
	x.eventually("a run that fails in words", func() bool { // agents' tools may be some seconds old
		failed := x.chat("agent_id", agent, "message", "hello")
		return failed.status == 500 && assert.Contains(x, failed.raw,
			"the agent and its client have 129 tools, but the limit is 128")
	})
}
