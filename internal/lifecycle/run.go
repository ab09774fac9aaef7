package lifecycle

import (
	"slices"
	"time"
)

// Status is where a run stands.
type Status string

// The statuses of the specification.
const (
	Queued        Status = "queued"
	Running       Status = "running"
	AwaitingInput Status = "awaiting_input"
	Completed     Status = "completed"
	Failed        Status = "failed"
	Cancelled     Status = "cancelled"
	TimedOut      Status = "timed_out"
)

// Statuses lists all of them, active ones first.
func Statuses() []Status {
	return []Status{Queued, Running, AwaitingInput, Completed, Failed, Cancelled, TimedOut}
}

// Active says whether the run still holds its chat.
func (s Status) Active() bool { return s == Queued || s == Running || s == AwaitingInput }

// Terminal says whether the run has ended for good.
func (s Status) Terminal() bool { return s != "" && !s.Active() }

// Rests says whether nothing happens to the run by itself: it has ended, or waits for a human.
func (s Status) Rests() bool { return s == AwaitingInput || s.Terminal() }

// Counts says whether the run counts against the concurrency caps.
func (s Status) Counts() bool { return s == Queued || s == Running }

// Numbers that no setting changes.
const (
	MaxParked  = 5   // parked messages per run (specification, Limits)
	MaxCrashes = 5   // attempts that were lost since the last journalled step, then the run fails
	MaxHops    = 500 // hand-overs of one run, then it fails: no run hops for ever
)

// DispatchGrace is how long a nudge may take before the sweeper sends another.
const DispatchGrace = 20 * time.Second

// Ticket is what the core must know of a request before it becomes a run.
type Ticket struct {
	// Both are not in the stored shape: the item's key and its owner say them.
	RunID        string   `json:"-"`
	Organization string   `json:"-"` // "-" for none
	User         string   `json:"user_id"`
	APIKey       string   `json:"api_key_id"`
	Agent        string   `json:"agent_id"`
	AgentVersion int      `json:"agent_version"`
	Chat         string   `json:"chat_id"`
	OwnChatID    bool     `json:"own_chat_id,omitzero"` // the client made the chat's id up; it means something in its organisation only
	LimitMS      int64    `json:"active_limit_ms"`      // of active execution
	Callback     bool     `json:"callback,omitzero"`    // a webhook is due for its states
	Watched      bool     `json:"watched,omitzero"`     // somebody streams it from the start
	Waited       bool     `json:"waited,omitzero"`      // it was a parked message: who sent it may have gone since
	Budgets      []Budget `json:"budgets,omitzero"`
}

// Budget is one that the run's tokens count against.
type Budget struct {
	Name      string `json:"name"` // whose, and of which period
	MaxTokens int64  `json:"max_tokens"`
}

// ActiveLimit is how much active time the run may use.
func (t Ticket) ActiveLimit() time.Duration { return time.Duration(t.LimitMS) * time.Millisecond }

// Run is a run's whole control state.
type Run struct {
	Ticket

	Epoch      int    `json:"epoch"` // of its chat
	Turn       int    `json:"turn"`  // its number in the chat, from 1
	Previous   string `json:"previous_run_id,omitzero"`
	Status     Status `json:"status"`
	Transition int    `json:"transition"` // how many states it has entered

	Attempt int   `json:"attempt"` // how often it was claimed; the workers' fence
	Lease   Lease `json:"lease,omitzero"`
	Crashes int   `json:"crashes,omitzero"`
	Hops    int   `json:"hops,omitzero"`

	Pause      int       `json:"pause,omitzero"` // how often it has paused
	Interrupts []Pending `json:"interrupts,omitzero"`
	DecidedBy  string    `json:"decided_by,omitzero"`

	CancelRequested bool   `json:"cancel_requested,omitzero"`
	CancelReason    string `json:"cancel_reason,omitzero"`
	Error           string `json:"error,omitzero"`

	Parked []string `json:"parked,omitzero"` // ids of the runs that the parked messages will be, in order
	Slots  Slots    `json:"slots,omitzero"`

	Usage    Usage `json:"usage,omitzero"`
	ActiveMS int64 `json:"active_ms,omitzero"`
	Steps    int   `json:"steps,omitzero"` // journalled ones

	CreatedAt time.Time `json:"created_at,omitzero"`
	QueuedAt  time.Time `json:"queued_at,omitzero"`
	StartBy   time.Time `json:"start_by,omitzero"`
	StartedAt time.Time `json:"started_at,omitzero"`
	PausedAt  time.Time `json:"paused_at,omitzero"`
	// PausedAgentVersion is the newest version that the agent had when the pause began: no later edit decides who approves.
	// 0: nobody is to approve, or the pause was written by an earlier program.
	PausedAgentVersion int `json:"paused_agent_version,omitzero"`

	ExpiresAt  time.Time `json:"expires_at,omitzero"`
	FinishedAt time.Time `json:"finished_at,omitzero"`
	UpdatedAt  time.Time `json:"updated_at,omitzero"`

	// Due is when somebody must look at the run again at the latest. It is a lower bound; zero once the run has ended.
	Due time.Time `json:"-"`
}

// Lease is a worker's right to a running run.
type Lease struct {
	Holder string    `json:"holder"` // empty once handed over
	Boot   string    `json:"boot"`   // the holder's process, where only one may live at a time
	Until  time.Time `json:"until"`
}

// Lapsed says whether the lease no longer protects its holder. A boot that is not empty says that the asking process is
// the only one, so that all leases of other processes are void.
func (l Lease) Lapsed(now time.Time, boot string) bool {
	return l.Holder == "" || !l.Until.After(now) || (boot != "" && l.Boot != boot)
}

// Slots names the rows a run holds in the partitions of its user and of its organisation.
type Slots struct {
	User         string `json:"user"`
	Organization string `json:"organization"`
}

// Pending is an interrupt as the core knows it.
type Pending struct {
	ID   string        `json:"id"`
	Kind InterruptKind `json:"kind"`
}

// InterruptKind says what sort of human input is wanted.
type InterruptKind string

// The kinds of interrupt.
const (
	Approval      InterruptKind = "approval"
	Clarification InterruptKind = "clarification"
)

// Usage is what a run has consumed.
type Usage struct {
	InputTokens  int64 `json:"input_tokens"`
	OutputTokens int64 `json:"output_tokens"`
	ModelCalls   int64 `json:"model_calls"`
	ToolCalls    int64 `json:"tool_calls"`
}

// Answerable says whether a plain message is the answer to what the run waits for: exactly one clarification.
func (r Run) Answerable() bool {
	return r.Status == AwaitingInput && len(r.Interrupts) == 1 && r.Interrupts[0].Kind == Clarification
}

// PendingIDs lists the ids of the pending interrupts.
func (r Run) PendingIDs() []string {
	ids := make([]string, 0, len(r.Interrupts))
	for _, p := range r.Interrupts {
		ids = append(ids, p.ID)
	}
	return ids
}

// Place is where in a chat a run begins.
type Place struct {
	Epoch    int
	Turn     int
	Previous string
	Parked   []string // what it inherits from the run before it
	Slots    Slots
}

// Accept makes the queued run of a ticket.
func Accept(t Ticket, p Place, now, startBy time.Time) Run {
	return Run{
		Ticket: t, Epoch: p.Epoch, Turn: p.Turn, Previous: p.Previous, Parked: p.Parked, Slots: p.Slots,
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

// Chat is a conversation: its lock and its place in time.
type Chat struct {
	ID           string    `json:"chat_id"`
	OwnID        bool      `json:"own_id,omitzero"` // made up by a client
	Organization string    `json:"organization_id"`
	User         string    `json:"user_id"`
	Title        string    `json:"title,omitzero"`
	Epoch        int       `json:"epoch"`
	Deleted      bool      `json:"deleted,omitzero"`
	ActiveRun    string    `json:"active_run_id,omitzero"` // the lock
	LastRun      string    `json:"last_run_id,omitzero"`
	Turn         int       `json:"turn"`
	Agents       []string  `json:"agents,omitzero"` // that took part, in their order; none where that was not noted from the first turn on
	CreatedAt    time.Time `json:"created_at"`
	UpdatedAt    time.Time `json:"updated_at"`
}

// Next is the place in the chat where its next run begins.
func (c Chat) Next() Place { return Place{Epoch: c.Epoch, Turn: c.Turn + 1, Previous: c.LastRun} }

// Begin gives the chat to a run.
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

// Release leaves the chat without an active run.
func (c Chat) Release(now time.Time) Chat {
	c.ActiveRun, c.UpdatedAt = "", now
	return c
}

// ID is the run's identifier.
func (r Run) ID() string { return r.RunID }
