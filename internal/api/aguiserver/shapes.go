package aguiserver

import "encoding/json"

// The shapes of AG-UI, protocol version 1.0 (https://docs.ag-ui.com). Members that it does not have are ignored.

const version = "1.0"

// RunAgentInput is the body of POST /agui/{agent_id}.
type RunAgentInput struct {
	ThreadID        string          `json:"threadId" required:"true" doc:"the chat id, which the client may choose: 1 to 128 characters of A-Z a-z 0-9 . _ : -"`
	RunID           string          `json:"runId" required:"true" doc:"the id of this exchange. A second request with the same id follows the run that the first one started"`
	ProtocolVersion string          `json:"protocolVersion,omitempty" nullable:"true" doc:"if absent, outcomes have the format of versions before 1.0"`
	ParentRunID     string          `json:"parentRunId,omitempty" nullable:"true" doc:"accepted and ignored"`
	State           json.RawMessage `json:"state,omitempty" shape:"object|object[]|string|number|boolean|null" doc:"accepted and ignored: the conversation is an agent's only state"`
	Messages        json.RawMessage `json:"messages" required:"true" shape:"object[]" doc:"the conversation; in an existing thread, only the messages after the last stored one are used"`
	Tools           []AGUITool      `json:"tools,omitempty" nullable:"true" doc:"functions that the client executes"`
	Context         []AGUIContext   `json:"context,omitempty" nullable:"true" doc:"added after the agent's instructions for the model"`
	ForwardedProps  json.RawMessage `json:"forwardedProps,omitempty" shape:"object|object[]|string|number|boolean|null" doc:"accepted and ignored"`
	Resume          []AGUIResume    `json:"resume,omitempty" nullable:"true" doc:"one answer for each interrupt that the thread waits for"`
}

// AGUITool is a function that a client executes.
type AGUITool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty" nullable:"true"`
	Parameters  json.RawMessage `json:"parameters,omitempty" shape:"object|null" doc:"a JSON schema"`
}

// AGUIContext is information of an application for the model.
type AGUIContext struct {
	Description string `json:"description"`
	Value       string `json:"value"`
}

// AGUIResume answers an interrupt.
type AGUIResume struct {
	InterruptID string          `json:"interruptId"`
	Status      string          `json:"status" enum:"resolved,cancelled"`
	Payload     json.RawMessage `json:"payload,omitempty" shape:"object|object[]|string|number|boolean|null" doc:"for an approval: {approved, editedArgs, reason}, true or false; for a question: a text"`
}

// AGUIEvent is an event of a stream. Its type decides which of the other members are present.
type AGUIEvent struct {
	Type            string             `json:"type" enum:"RUN_STARTED,TEXT_MESSAGE_START,TEXT_MESSAGE_CONTENT,TEXT_MESSAGE_END,TOOL_CALL_START,TOOL_CALL_ARGS,TOOL_CALL_END,TOOL_CALL_RESULT,MESSAGES_SNAPSHOT,RUN_FINISHED,RUN_ERROR"`
	ThreadID        string             `json:"threadId,omitempty"`
	RunID           string             `json:"runId,omitempty" doc:"the id of the request"`
	ProtocolVersion string             `json:"protocolVersion,omitempty"`
	Metadata        *AGUIMetadata      `json:"metadata,omitempty"`
	MessageID       string             `json:"messageId,omitempty"`
	Role            string             `json:"role,omitempty" enum:"assistant,tool"`
	Delta           *string            `json:"delta,omitempty"`
	ToolCallID      string             `json:"toolCallId,omitempty"`
	ToolCallName    string             `json:"toolCallName,omitempty"`
	ParentMessageID string             `json:"parentMessageId,omitempty"`
	Content         *string            `json:"content,omitempty" doc:"the output of a call"`
	Messages        *[]json.RawMessage `json:"messages,omitempty" shape:"object" doc:"replaces all messages of the thread"`
	Outcome         *AGUIOutcome       `json:"outcome,omitempty"`
	Result          *AGUIResult        `json:"result,omitempty"`
	Usage           []AGUIUsage        `json:"usage,omitempty"`
	Message         string             `json:"message,omitempty" doc:"the reason of the failure"`
	Code            string             `json:"code,omitempty" enum:"failed,timed_out,cancelled,deleted,stream_ended" doc:"stream_ended: the run continues; send the request again with the same runId to follow it. cancelled: only for clients before version 1.0"`
}

// Variants are the members of an event, by its type: see apidoc.Varied.
func (AGUIEvent) Variants() (by string, variants map[string][]string) {
	return "type", map[string][]string{
		"RUN_STARTED":          {"threadId", "runId", "protocolVersion", "metadata"},
		"TEXT_MESSAGE_START":   {"messageId", "role"},
		"TEXT_MESSAGE_CONTENT": {"messageId", "delta"},
		"TEXT_MESSAGE_END":     {"messageId"},
		"TOOL_CALL_START":      {"toolCallId", "toolCallName", "parentMessageId"},
		"TOOL_CALL_ARGS":       {"toolCallId", "delta"},
		"TOOL_CALL_END":        {"toolCallId"},
		"TOOL_CALL_RESULT":     {"messageId", "toolCallId", "content", "role"},
		"MESSAGES_SNAPSHOT":    {"messages"},
		"RUN_FINISHED":         {"threadId", "runId", "outcome?", "result?", "usage?"},
		"RUN_ERROR":            {"message", "code", "usage?"},
	}
}

// AGUIMetadata is the service's part of RUN_STARTED.
type AGUIMetadata struct {
	Run AGUIRun `json:"agentplatform"`
}

// AGUIRun names the durable run.
type AGUIRun struct {
	RunID string `json:"run_id" doc:"the run's id in other endpoints, like /runs/{run_id}"`
}

// AGUIOutcome is how a run has ended.
type AGUIOutcome struct {
	Type       string          `json:"type" enum:"success,interrupt,cancelled"`
	Pending    []string        `json:"pendingToolCallIds,omitempty" doc:"calls of the client's functions; the client sends their outputs"`
	Interrupts []AGUIInterrupt `json:"interrupts,omitempty"`
}

// AGUIInterrupt is an approval or a question.
type AGUIInterrupt struct {
	ID             string          `json:"id"`
	Reason         string          `json:"reason" enum:"tool_call,input_required"`
	Message        string          `json:"message"`
	ToolCallID     string          `json:"toolCallId,omitempty"`
	ResponseSchema json.RawMessage `json:"responseSchema" shape:"object"`
	ExpiresAt      string          `json:"expiresAt,omitempty"`
}

// AGUIResult is the result of a completed run.
type AGUIResult struct {
	Answer    string          `json:"answer"`
	Output    json.RawMessage `json:"output,omitempty" shape:"any" doc:"only if the agent has an output_schema"`
	Citations json.RawMessage `json:"citations" shape:"Citation[]" doc:"as in the run's result"`
	Files     json.RawMessage `json:"files" shape:"FileRef[]" doc:"as in the run's result"`
}

// AGUIUsage is the usage since the stream's part of the run began.
type AGUIUsage struct {
	InputTokens  int64 `json:"inputTokens"`
	OutputTokens int64 `json:"outputTokens"`
	TotalTokens  int64 `json:"totalTokens"`
}

// snapshotMessage is a message of ours in a snapshot.
type snapshotMessage struct {
	ID         string     `json:"id"`
	Role       string     `json:"role"`
	Content    string     `json:"content"`
	ToolCalls  []toolCall `json:"toolCalls,omitempty"`
	ToolCallID string     `json:"toolCallId,omitempty"`
}

type toolCall struct {
	ID       string         `json:"id"`
	Type     string         `json:"type"`
	Function functionToCall `json:"function"`
}

type functionToCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}
