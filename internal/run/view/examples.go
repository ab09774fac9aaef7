package view

import (
	"encoding/json"

	"agentplatform/events"
	"agentplatform/internal/store/citation"
	"agentplatform/internal/store/record"
)

// The OpenAPI document shows these examples. They are one possible run, from its message to its answer.

// The ids in examples.
const (
	ExampleRun     = "65f0a1b2c3d4e5f601234567"
	ExampleAgent   = "65f0a1b2c3d4e5f601230001"
	ExampleRequest = "65f0a1b2c3d4e5f601230007"
)

const (
	exampleChat                = "trip-7"
	exampleKey, exampleUser    = "65f0a1b2c3d4e5f601230002", "65f0a1b2c3d4e5f601230003"
	exampleCall                = `{"expression":"2+3"}`
	exampleBegan, exampleEnded = "2026-01-02T03:04:05.678Z", "2026-01-02T03:04:07.912Z"
)

var exampleUsage = Usage{InputTokens: 212, OutputTokens: 18, ActiveMS: 2210, ModelCalls: 2, ToolCalls: 1}

// Example is a run that has completed. It implements apidoc.Exampler, as the others do.
func (Run) Example() any {
	began, ended := exampleBegan, exampleEnded
	result, _ := json.Marshal(Result{}.Example())
	return Run{
		RunID: ExampleRun, ChatID: exampleChat, AgentID: ExampleAgent, AgentVersion: 3, UserID: exampleUser,
		APIKeyID: exampleKey, Turn: 1, Version: 6, Status: "completed", Interrupts: []events.Interrupt{},
		Result: result, Usage: exampleUsage, Parked: []Parked{}, Attempt: 1, CreatedAt: began, QueuedAt: &began,
		StartedAt: &began, FinishedAt: &ended, UpdatedAt: ended, ActiveMS: exampleUsage.ActiveMS,
		Metadata: map[string]string{"ticket": "4711"},
	}
}

// Example is the answer of that run.
func (Result) Example() any {
	return Result{
		RunID: ExampleRun, ChatID: exampleChat, Answer: "2 + 3 is 5.", Citations: []citation.Citation{},
		Files: []record.FileRef{}, Steps: []ResultStep{{
			Name: "calculate", Arguments: json.RawMessage(exampleCall), Outcome: "succeeded", Output: "5",
		}}, Usage: exampleUsage, FinishReason: "stop",
	}
}

// Example is a run that waits for an approver.
func (ToDecide) Example() any {
	h, _ := Handle{}.Example().(Handle)
	return ToDecide{
		RunID: h.RunID, AgentName: "Adder", Status: h.Status, Interrupts: h.Interrupts, Message: "What is 2 + 3?",
		RequestedBy: Person{exampleUser, "Ann"},
	}
}

// Example is a run that waits for a person.
func (Handle) Example() any {
	return Handle{
		RunID: ExampleRun, Status: "awaiting_input", ChatID: exampleChat, AgentID: ExampleAgent,
		Interrupts: []events.Interrupt{{
			ID: "65f0a1b2c3d4e5f601230009", Kind: "approval", Prompt: "May the agent call calculate?",
			Tool:      &events.InterruptTool{Name: "calculate", Arguments: json.RawMessage(exampleCall)},
			CreatedAt: exampleBegan,
		}},
	}
}
