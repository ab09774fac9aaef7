package events

import (
	"encoding/json"
	"time"
)

// What a function that may not open secrets asks the broker, which may: a named operation with its arguments. Whoever
// asks has authenticated and authorized its own client before.

// AskOperation names what is asked of the broker.
type AskOperation string

// The operations, with the types of their arguments and results.
const (
	AskRefresh AskOperation = "toolkit.refresh" // AskedRefresh, Difference
	AskBrowse  AskOperation = "toolkit.browse"  // AskedToolkit, Offerings
	AskTry     AskOperation = "toolkit.try"     // AskedTry, ToolAttempt
	AskProbe   AskOperation = "webhook.probe"   // AskedProbe, ProbeResult
	AskModels  AskOperation = "models.list"     // AskedModels, ModelList
	AskModel   AskOperation = "models.check"    // AskedModel, Done
	AskEmbed   AskOperation = "embed"           // AskedVectors, Vectors
)

// Bounds of an ask and of its answer as JSON, in bytes. Lambda takes and gives at most 6 MB in a synchronous call.
const (
	MaxAsk    = 2 << 20
	MaxAnswer = 5 << 20
)

// Ask is one question to the broker. While a deploy goes on, or is taken back, asker and broker may be of two
// versions. So a broker overlooks members of an ask, and of its author, that it does not know. It refuses arguments
// that have such members: one may be what keeps something from being done, as dry_run does. What must not be
// overlooked is an argument.
type Ask struct {
	Operation AskOperation    `json:"operation"`
	WaitMS    int64           `json:"wait_ms"`          // milliseconds for which the answer is waited for, from now on
	Author    *AskAuthor      `json:"author,omitempty"` // for the audit log
	Arguments json.RawMessage `json:"arguments"`
	// Traceparent names the span that asks, as W3C Trace Context writes it; none where that is not sampled.
	Traceparent string `json:"traceparent,omitempty"`
}

// AskAuthor is the user on whose behalf is asked.
type AskAuthor struct {
	Organization string `json:"organization_id"`
	UserID       string `json:"user_id"`
	APIKeyID     string `json:"api_key_id"`
	Operation    string `json:"operation"`
	AsOperator   bool   `json:"as_operator,omitempty"`
}

// AskedToolkit names a toolkit. The organization is "-" for what belongs to none, here and below.
type AskedToolkit struct {
	Organization string `json:"organization_id"`
	Toolkit      string `json:"toolkit_id"`
}

// AskedRefresh has a toolkit's server asked for its tools.
type AskedRefresh struct {
	AskedToolkit

	DryRun bool `json:"dry_run,omitempty"` // only say what would change
}

// AskedTry has a tool called.
type AskedTry struct {
	AskedToolkit

	Tool      string          `json:"tool"`
	Arguments json.RawMessage `json:"arguments"` // an object in its normal form
	Approved  bool            `json:"approved,omitempty"`
}

// AskedProbe has a test event posted.
type AskedProbe struct {
	Organization string `json:"organization_id"`
	CallbackURL  string `json:"callback_url"`
}

// AskedModels has the models of all providers listed.
type AskedModels struct{}

// AskedModel has a model looked for.
type AskedModel struct {
	Provider string `json:"provider"`
	Name     string `json:"name"`
	Skip     bool   `json:"skip,omitempty"` // do not ask the provider
}

// AskedVectors has texts embedded.
type AskedVectors struct {
	Provider   string   `json:"provider"`
	Name       string   `json:"name"`
	Dimensions int      `json:"dimensions,omitempty"`
	Purpose    string   `json:"purpose"`
	Texts      []string `json:"texts"`
}

// Answer is the broker's answer: a result, a failure, or both where what was done until the failure matters.
type Answer struct {
	Result  json.RawMessage `json:"result,omitempty"`
	Failure *Failure        `json:"failure,omitempty"`
}

// Done is the result of what has none.
type Done struct{}

// Difference is what a refresh finds.
type Difference struct {
	Added   []string      `json:"added,omitempty"`
	Removed []string      `json:"removed,omitempty"`
	Changed []string      `json:"changed,omitempty"`
	Tools   []ChangedTool `json:"tools,omitempty"` // of a dry run
}

// ChangedTool is a tool before and after a refresh, as its toolkit's list of tools has it; none where it is missing.
type ChangedTool struct {
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
}

// Offerings are what a toolkit's server offers beside tools.
type Offerings struct {
	Resources []OfferedResource `json:"resources,omitempty"`
	Prompts   []OfferedPrompt   `json:"prompts,omitempty"`
}

// OfferedResource is something that clients of a server can read.
type OfferedResource struct {
	URI         string `json:"uri"`
	Name        string `json:"name"`
	Description string `json:"description"`
	ContentType string `json:"content_type"`
}

// OfferedPrompt is a message template.
type OfferedPrompt struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Arguments   []string `json:"arguments,omitempty"`
}

// ToolAttempt is the outcome of a call of a tool.
type ToolAttempt struct {
	Result    string `json:"result"`
	Error     string `json:"error,omitempty"`
	ElapsedNS int64  `json:"elapsed_ns"`
}

// ProbeResult is the outcome of a test event.
type ProbeResult struct {
	At              time.Time `json:"at"`
	Status          int       `json:"status,omitempty"` // none where the post failed
	LatencyMS       int64     `json:"latency_ms"`
	Error           string    `json:"error,omitempty"`
	ResponseExcerpt string    `json:"response_excerpt,omitempty"`
}

// ModelList is what providers say of their models.
type ModelList struct {
	Models      []ListedModel     `json:"models,omitempty"`
	Unreachable map[string]string `json:"unreachable,omitempty"` // reasons, by provider
}

// ListedModel is a model of a provider.
type ListedModel struct {
	Provider    string `json:"provider"`
	Name        string `json:"name"`
	Description string `json:"description"`
}

// Vectors are those of texts, in order. Beside a failure they are missing, and the tokens are those used before it.
type Vectors struct {
	Vectors [][]float32 `json:"vectors,omitempty"`
	Tokens  int64       `json:"tokens"`
}

// FailureKind says what a failure is for whoever asked.
type FailureKind string

// The kinds of failure.
const (
	FailureProblem    FailureKind = "problem"    // what clients are told
	FailureTool       FailureKind = "tool"       // what models are told
	FailureEmbedding  FailureKind = "embedding"  // of an embedding model
	FailureUnapproved FailureKind = "unapproved" // the call needs an approval that was not given
	FailureConflict   FailureKind = "conflict"   // somebody else was faster
	FailureSealed     FailureKind = "sealed"     // a sealed text does not open
	FailureDeadline   FailureKind = "deadline"   // the time was over
	FailureCancelled  FailureKind = "cancelled"  // it was given up
	FailureInternal   FailureKind = "internal"   // anything else
)

// Failure is an error on its way to whoever asked. Its text is for the log, unless its kind says something else.
type Failure struct {
	Kind      FailureKind       `json:"kind"`
	Text      string            `json:"text"`
	Problem   *FailureToClient  `json:"problem,omitempty"`
	Embedding *FailureOfVectors `json:"embedding,omitempty"`
}

// FailureToClient is a problem.
type FailureToClient struct {
	Kind       string         `json:"kind"`
	Code       string         `json:"code"`
	Fields     []FailureField `json:"fields,omitempty"`
	Extras     map[string]any `json:"extras,omitempty"`
	RetryAfter time.Duration  `json:"retry_after_ns,omitempty"`
	Cause      *Failure       `json:"cause,omitempty"`
}

// FailureField is a fault of one field of a request.
type FailureField struct {
	Location string `json:"location"`
	Message  string `json:"message"`
}

// FailureOfVectors says what may be done about an embedding model's failure.
type FailureOfVectors struct {
	Kind string        `json:"kind"`
	Wait time.Duration `json:"wait_ns,omitempty"`
}
