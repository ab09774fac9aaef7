// Command conversation has a conversation with the service through a client that oapi-codegen has made from its OpenAPI
// document. It prints its observations as JSON. It is a module of its own, because the package api is made when the
// tests run.
//
//	conversation URL KEY
package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log"
	"mime/multipart"
	"net/http"
	"os"
	"strings"

	"conversation/api"
)

func main() {
	key := os.Args[2]
	client, err := api.NewClientWithResponses(strings.TrimSuffix(os.Args[1], "/api/v1"),
		api.WithRequestEditorFn(func(_ context.Context, r *http.Request) error {
			r.Header.Set("Authorization", "Bearer "+key)
			return nil
		}))
	must(err)
	ctx := context.Background()

	agent, err := client.CreateAgentWithResponse(ctx, api.CreateAgentRequest{Name: "From Go"})
	must(err)
	id := there(agent.JSON201, agent.Body).AgentId

	kind, form := formOf("file", "note.txt")
	sent, err := client.CreateFileWithBodyWithResponse(ctx, nil, kind, form)
	must(err)
	file := there(sent.JSON201, sent.Body)

	chat := func(pairs ...string) *api.ChatResponse {
		kind, form := formOf("", "", append(pairs, "agent_id", id)...)
		answer, err := client.ChatWithBodyWithResponse(ctx, nil, kind, form)
		must(err)
		return answer
	}
	answered := chat("message", "hello", "file_ids", file.FileId, "wait", "true")
	done, err := there(answered.JSON200, answered.Body).AsCompleted()
	must(err)
	attached := func(run, file string) {
		messages, err := client.ListRunMessagesWithResponse(ctx, run, nil)
		must(err)
		if list := there(messages.JSON200, messages.Body).Messages; list[0].Files[0].Name != file {
			log.Fatalf("other files: %v", list[0].Files)
		}
	}
	attached(done.RunId, "note.txt")

	question := chat("message", "/ask Which city?", "wait", "false")
	run := there(question.JSON202, question.Body).RunId
	follow := func(run string, see func(any) bool) {
		response, err := client.StreamRun(ctx, run, nil)
		must(err)
		events(response, see)
	}
	var pause api.Interrupt
	follow(run, first(&pause))
	city := "Paris"
	resume := func(run string, decision api.DecisionBody) *api.ResumeRunResponse {
		answer, err := client.ResumeRunWithResponse(ctx, run,
			api.ResumeRunRequest{Decisions: []api.DecisionBody{decision}})
		must(err)
		return answer
	}
	answer := api.DecisionBody{InterruptId: pause.Id, Decision: "answer", Message: &city}
	resumed := resume(run, answer)
	there(resumed.JSON200, resumed.Body)
	var ended api.Run
	follow(run, last(&ended))

	toolkits, err := client.ListToolkitsWithResponse(ctx, nil)
	must(err)
	always := api.AgentBodyApprovalStructMode("always")
	careful, err := client.CreateAgentWithResponse(ctx, api.CreateAgentRequest{
		Name: "Careful", ToolkitIds: &[]string{there(toolkits.JSON200, toolkits.Body).Toolkits[0].ToolkitId},
		Approval: &api.AgentBodyApprovalStruct{Mode: &always},
	})
	must(err)
	kind, form = formOf("files", "with.txt", "agent_id", there(careful.JSON201, careful.Body).AgentId,
		"message", `/tool echo {"text": "one"}`, "streaming", "true")
	lines, err := client.ChatWithBody(ctx, nil, kind, form)
	must(err)
	var call api.Interrupt
	events(lines, first(&call))
	if call.Tool.Name != "echo" || call.Tool.Arguments["text"] != "one" {
		log.Fatalf("another call: %v", call)
	}
	run = lines.Header.Get("X-Agent-Run-Id")
	attached(run, "with.txt")
	resumed = resume(run, api.DecisionBody{
		InterruptId: call.Id, Decision: "edit", Arguments: &map[string]any{"text": "two"},
	})
	there(resumed.JSON200, resumed.Body)
	var edited api.Run
	follow(run, last(&edited))
	late := resume(run, answer)
	if of := there(late.JSON409, late.Body).RunStatus; of == nil || *of != "completed" {
		log.Fatalf("another error: %s", late.Body)
	}

	runs, one := 0, int64(1)
	for query := (api.ListRunsParams{AgentId: &id, Limit: &one}); ; {
		page, err := client.ListRunsWithResponse(ctx, &query)
		must(err)
		list := there(page.JSON200, page.Body)
		runs += len(list.Runs)
		if query.Cursor = list.NextCursor; query.Cursor == nil {
			break
		}
	}
	missing, err := client.ReadRunWithResponse(ctx, strings.Repeat("0", 24), nil)
	must(err)
	must(json.NewEncoder(os.Stdout).Encode(map[string]any{
		"answer": done.Answer, "asked": pause.Prompt, "kind": pause.Kind, "resumed": ended.Result.Answer, "runs": runs,
		"error": there(missing.JSON404, missing.Body).Code, "call": call.Kind, "edited": edited.Result.Steps[0].Output,
		"late": late.JSON409.Code,
	}))
}

// first stores the first interrupt of a run in pause.
func first(pause *api.Interrupt) func(any) bool {
	return func(event any) bool {
		var list []api.Interrupt
		switch e := event.(type) {
		case api.EventInit:
			list = e.Run.Interrupts
		case api.EventStatus:
			list = e.Interrupts
		}
		if len(list) > 0 {
			*pause = list[0]
		}
		return len(list) > 0
	}
}

// last stores the final state of the run in run.
func last(run *api.Run) func(any) bool {
	return func(event any) bool {
		e, is := event.(api.EventDone)
		*run = e.Run
		return is
	}
}

// events calls see with each event of a response, in lines of JSON or Server-Sent Events, until it returns true. The
// event has the type that its discriminator names.
func events(response *http.Response, see func(any) bool) {
	defer func() { _ = response.Body.Close() }()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		data := bytes.TrimPrefix(lines.Bytes(), []byte("data: "))
		if !bytes.HasPrefix(data, []byte("{")) {
			continue
		}
		var union api.RunEvent
		must(json.Unmarshal(data, &union))
		event, err := union.ValueByDiscriminator()
		must(err)
		if see(event) {
			return
		}
	}
	log.Fatal("the stream ended early: ", lines.Err())
}

// formOf makes a form of fields, each a name and its value. It also has a file in another field, unless that has no
// name.
func formOf(field, file string, pairs ...string) (string, *bytes.Buffer) {
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for i := 0; i < len(pairs); i += 2 {
		must(w.WriteField(pairs[i], pairs[i+1]))
	}
	if field != "" {
		part, err := w.CreateFormFile(field, file)
		must(err)
		_, err = part.Write([]byte("a text"))
		must(err)
	}
	must(w.Close())
	return w.FormDataContentType(), &b
}

// there returns the decoded response. If there is none, it ends the conversation.
func there[T any](value *T, body []byte) *T {
	if value == nil {
		log.Fatal(fmt.Sprintf("another answer: %s", body))
	}
	return value
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
