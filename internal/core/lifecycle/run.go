package lifecycle

import (
	"slices"
	"time"
)

// Status is the state of a run.
type Status string

// The statuses (specification, States and transitions).
const (
	Queued        Status = "queued"
	Running       Status = "running"
	AwaitingInput Status = "awaiting_input"
	Completed     Status = "completed"
	Failed        Status = "failed"
	Cancelled     Status = "cancelled"
	TimedOut      Status = "timed_out"
)

// Statuses lists all statuses, the active ones first.
func Statuses() []Status {
	return []Status{Queued, Running, AwaitingInput, Completed, Failed, Cancelled, TimedOut}
}

// Active reports whether the run holds the lock of its chat: queued, running or awaiting input.
func (s Status) Active() bool { return s == Queued || s == Running || s == AwaitingInput }

// Terminal reports whether the run has ended. The empty status is not terminal.
func (s Status) Terminal() bool { return s != "" && !s.Active() }

// EndedOrWaiting reports whether the run has ended or waits for a person. No worker then acts on it.
func (s Status) EndedOrWaiting() bool { return s == AwaitingInput || s.Terminal() }

// Counts reports whether the run counts against the concurrency caps of its user and its organization.
func (s Status) Counts() bool { return s == Queued || s == Running }

// Limits that no setting changes.
const (
	MaxParked  = 5   // parked messages of a run (specification, Limits)
	MaxCrashes = 5   // lost attempts since the last journalled step; with this one the run fails
	MaxHops    = 500 // releases of a run; it fails after this many, so that releases end
)

// MaxQueued is the longest time that a run may be queued, however often its start deadline moves.
const MaxQueued = 24 * time.Hour

// DispatchGrace is how long a wakeup may take to reach a worker. After it the sweeper sends another one.
const DispatchGrace = 20 * time.Second

// RunSpec is the specification of a run: the part of a request that the core knows before the request becomes a run.
type RunSpec struct {
	// RunID and Organization are not encoded: they are the key and the owner of the stored item.
	RunID        string `json:"-"`
	Organization string `json:"-"` // "-" for none
	User         string `json:"user_id"`
	APIKey       string `json:"api_key_id"`
	Agent        string `json:"agent_id"`
	AgentVersion int    `json:"agent_version"`
	Chat         string `json:"chat_id"`
	OwnChatID    bool   `json:"own_chat_id,omitzero"` // a client chose the chat's id: unique in its organization only
	// ChatUser owns the chat, if that user is not the User of its first turn. Read [Run.Owner].
	ChatUser string `json:"chat_user_id,omitzero"`
	LimitMS  int64  `json:"active_limit_ms"`   // limit of active time, in milliseconds
	Callback bool   `json:"callback,omitzero"` // webhooks are sent for its states
	Watched  bool   `json:"watched,omitzero"`  // its client streams it from the start
	// It was a parked message; its sender may have been deleted since.
	Waited  bool     `json:"waited,omitzero"`
	Budgets []Budget `json:"budgets,omitzero"` // until the run is claimed: see [Counting]
	Model   string   `json:"model,omitzero"`   // of the agent's version, for the ledger; unset by earlier versions
}

// Budget is a token budget that includes the run's tokens.
type Budget struct {
	Name      string `json:"name"` // names its owner and its period
	MaxTokens int64  `json:"max_tokens"`
}

// Counting is the state of counting a run's tokens in its budgets. The claim moves the budgets here from [RunSpec].
// Earlier versions kept them there, and counted only at the end of the run.
type Counting struct {
	Budgets []Budget `json:"budgets"`
	Settled int64    `json:"settled"` // tokens in the counters that all runs share
	Open    int64    `json:"open"`    // tokens in the counters of this run; none unless it is running
}

// ActiveLimit is the run's limit of active time; 0 means no limit.
func (t RunSpec) ActiveLimit() time.Duration { return time.Duration(t.LimitMS) * time.Millisecond }

// Run is the whole control state of a run.
type Run struct {
	RunSpec

	Epoch      int    `json:"epoch"` // the epoch of its chat
	Turn       int    `json:"turn"`  // its position in the chat, from 1
	Previous   string `json:"previous_run_id,omitzero"`
	Status     Status `json:"status"`
	Transition int    `json:"transition"` // number of states it has entered

	Attempt int   `json:"attempt"` // number of claims; fences the reports of earlier workers
	Lease   Lease `json:"lease,omitzero"`
	Crashes int   `json:"crashes,omitzero"`
	Hops    int   `json:"hops,omitzero"`

	Pause      int       `json:"pause,omitzero"` // number of pauses so far
	Interrupts []Pending `json:"interrupts,omitzero"`
	DecidedBy  string    `json:"decided_by,omitzero"`

	CancelRequested bool   `json:"cancel_requested,omitzero"`
	CancelReason    string `json:"cancel_reason,omitzero"`
	Deleted         bool   `json:"deleted,omitzero"` // with its chat; its worker may still have to end it
	Error           string `json:"error,omitzero"`
	// Refused is set if the model's provider refused the content of the message. No later turn includes the message.
	Refused bool `json:"refused,omitzero"`

	Parked []string `json:"parked,omitzero"` // ids of the runs that the parked messages will become, in order
	Slots  Slots    `json:"slots,omitzero"`

	Usage    Usage    `json:"usage,omitzero"`
	Counting Counting `json:"counting,omitzero"`
	ActiveMS int64    `json:"active_ms,omitzero"`
	QueueMS  int64    `json:"queue_ms,omitzero"` // time queued until it last left the queue
	Steps    int      `json:"steps,omitzero"`    // number of journalled steps

	CreatedAt time.Time `json:"created_at,omitzero"` // when its message arrived, also if that was parked
	QueuedAt  time.Time `json:"queued_at,omitzero"`
	StartBy   time.Time `json:"start_by,omitzero"`
	StartedAt time.Time `json:"started_at,omitzero"`
	PausedAt  time.Time `json:"paused_at,omitzero"`
	// PausedAgentVersion is the published version of the agent when the last pause began. It decides who may approve,
	// so that no later edit changes that. It is 0 if no approval was needed, or if an earlier version of this program
	// stored the pause.
	PausedAgentVersion int `json:"paused_agent_version,omitzero"`

	ExpiresAt  time.Time `json:"expires_at,omitzero"`
	FinishedAt time.Time `json:"finished_at,omitzero"`
	UpdatedAt  time.Time `json:"updated_at,omitzero"`

	// Due is the latest time at which the sweeper must reconcile the run. It is zero once the run has ended.
	Due time.Time `json:"-"`
}

// Whose names an agent and the user who owns the chat. It belongs to a run, a part of a chat, or a file's reference.
type Whose struct {
	Agent string `json:"agent_id"`          // empty: no agent
	Owner string `json:"user_id,omitempty"` // empty: not known, and no user matches
}

// Owner is the user who owns the chat of the run; another user may have sent the run. It is empty if not known: earlier
// versions stored the owner for first turns only.
func (r Run) Owner() string {
	if r.ChatUser == "" && r.Turn == 1 {
		return r.User
	}
	return r.ChatUser
}

// Whose returns the agent and the owner of the run.
func (r Run) Whose() Whose { return Whose{Agent: r.Agent, Owner: r.Owner()} }

// Lease is a worker's exclusive right to a running run, until a point in time.
type Lease struct {
	Holder    string    `json:"holder"` // id of the claim; empty after a release
	ProcessID string    `json:"boot"`   // process id of the holder, where only one process may live at a time
	Until     time.Time `json:"until"`
}

// Lapsed reports whether the lease no longer protects its holder. If processID is not empty, it is the id of the only
// living process. The leases of all other processes are then void.
func (l Lease) Lapsed(now time.Time, processID string) bool {
	return l.Holder == "" || !l.Until.After(now) || (processID != "" && l.ProcessID != processID)
}

// Slots names the rows of a run in the slot partitions of its user and its organization.
type Slots struct {
	User         string `json:"user"`
	Organization string `json:"organization"`
}

// Pending is a pending interrupt: a request for input by a person.
type Pending struct {
	ID   string        `json:"id"`
	Kind InterruptKind `json:"kind"`
	// Call marks a clarification whose answer is the output of a call. The run's client makes the call; no message can
	// answer.
	Call bool `json:"call,omitzero"`
}

// InterruptKind is the kind of the requested input.
type InterruptKind string

// The kinds of interrupt.
const (
	Approval      InterruptKind = "approval"
	Clarification InterruptKind = "clarification"
)

// Usage counts the consumption of a run.
type Usage struct {
	InputTokens  int64 `json:"input_tokens"` // of the model, and of the embeddings of searches
	OutputTokens int64 `json:"output_tokens"`
	ModelCalls   int64 `json:"model_calls"`
	ToolCalls    int64 `json:"tool_calls"`

	Embedded Embeddings `json:"embedded,omitzero"` // not stored by earlier versions
}

// Tokens is the number of tokens used: input plus output.
func (u Usage) Tokens() int64 { return u.InputTokens + u.OutputTokens }

// Answerable reports whether a plain message can answer: exactly one interrupt is pending, and it is a question.
func (r Run) Answerable() bool {
	return r.Status == AwaitingInput && len(r.Interrupts) == 1 && r.Interrupts[0].Kind == Clarification &&
		!r.Interrupts[0].Call
}

// Extendable reports whether the start deadline of the run may move. The run is queued, for less than [MaxQueued].
func (r Run) Extendable(now time.Time) bool {
	return r.Status == Queued && now.Before(r.QueuedAt.Add(MaxQueued))
}

// Passed is the number of the run's pauses that were decided. A pause that has expired or was cancelled does not count.
func (r Run) Passed() int {
	if r.Pause > 0 && !r.PausedAt.IsZero() {
		return r.Pause - 1
	}
	return r.Pause
}

// PendingIDs lists the ids of the pending interrupts.
func (r Run) PendingIDs() []string {
	ids := make([]string, 0, len(r.Interrupts))
	for _, p := range r.Interrupts {
		ids = append(ids, p.ID)
	}
	return ids
}

// ChatPosition is the position in a chat at which a run begins.
type ChatPosition struct {
	User     string // the owner of the chat
	Epoch    int
	Turn     int
	Previous string
	Parked   []string // the parked messages of the run before it
	Slots    Slots
}

// Accept makes the queued run of a specification at a position of its chat. The run must start by startBy.
func Accept(t RunSpec, p ChatPosition, now, startBy time.Time) Run {
	if p.Turn > 1 || p.User != t.User {
		t.ChatUser = p.User
	}
	return Run{
		RunSpec: t, Epoch: p.Epoch, Turn: p.Turn, Previous: p.Previous, Parked: p.Parked, Slots: p.Slots,
		Status: Queued, Transition: 1,
		CreatedAt: now, QueuedAt: now, StartBy: startBy, UpdatedAt: now, Due: dispatchDue(now, startBy),
	}
}

func dispatchDue(now, startBy time.Time) time.Time {
	due := now.Add(DispatchGrace)
	if startBy.Before(due) {
		return startBy
	}
	return due
}

// Chat is a conversation with its lock, the active run.
type Chat struct {
	ID           string    `json:"chat_id"`
	OwnID        bool      `json:"own_id,omitzero"` // a client chose the id
	Organization string    `json:"organization_id"`
	User         string    `json:"user_id"`
	Title        string    `json:"title,omitzero"`
	Epoch        int       `json:"epoch"`
	Deleted      bool      `json:"deleted,omitzero"`
	ActiveRun    string    `json:"active_run_id,omitzero"` // the lock
	LastRun      string    `json:"last_run_id,omitzero"`
	Turn         int       `json:"turn"`
	Agents       []string  `json:"agents,omitzero"` // participants, by first turn; empty if not recorded since turn 1
	CreatedAt    time.Time `json:"created_at"`
	UpdatedAt    time.Time `json:"updated_at"`
}

// Whose returns an agent that takes part in the chat, with the owner of the chat.
func (c Chat) Whose(agent string) Whose { return Whose{Agent: agent, Owner: c.User} }

// Next is the position at which the chat's next run begins.
func (c Chat) Next() ChatPosition {
	return ChatPosition{User: c.User, Epoch: c.Epoch, Turn: c.Turn + 1, Previous: c.LastRun}
}

// Begin gives the lock of the chat to a run and records its agent as a participant.
func (c Chat) Begin(r Run, now time.Time) Chat {
	switch {
	case c.Turn == 0:
		c.Agents = []string{r.Agent}
	case len(c.Agents) > 0 && !slices.Contains(c.Agents, r.Agent):
		c.Agents = append(slices.Clone(c.Agents), r.Agent)
	}
	c.ActiveRun, c.LastRun, c.Turn, c.UpdatedAt = r.ID(), r.ID(), r.Turn, now
	return c
}

// Release frees the lock of the chat.
func (c Chat) Release(now time.Time) Chat {
	c.ActiveRun, c.UpdatedAt = "", now
	return c
}

// Billed reports whether the run is billed: it has ended with its answer.
func (r Run) Billed() bool { return r.Status == Completed }

// ID returns the run's identifier.
func (r Run) ID() string { return r.RunID }

// Delete marks the chat as deleted and begins a new epoch. A later chat with the same id is a different chat.
func (c *Chat) Delete() {
	c.Deleted, c.ActiveRun, c.LastRun, c.Title = true, "", "", ""
	c.Epoch++
	c.Turn, c.Agents = 0, nil
}
