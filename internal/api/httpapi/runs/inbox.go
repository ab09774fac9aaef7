package runs

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"agentplatform/events"
	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/platform/waiting"
	"agentplatform/internal/run/intake"
	"agentplatform/internal/run/view"
	"agentplatform/internal/store/record"
)

type inboxRow struct {
	events.Interrupt
	RunID       string      `json:"run_id"`
	RequestedBy view.Person `json:"asked_by" doc:"the user of the run"`
	Decidable   bool        `json:"decidable" doc:"true: this key may decide it"`

	ChatID    string `json:"chat_id,omitempty" example:"trip-7" doc:"absent for an approver without access to the agent"`
	AgentID   string `json:"agent_id,omitempty" example:"65f0a1b2c3d4e5f601230001" doc:"absent for an approver without access to the agent"`
	UserID    string `json:"user_id,omitempty" example:"65f0a1b2c3d4e5f601234567" doc:"the user of the run; absent for an approver without access to the agent"`
	ExpiresAt string `json:"expires_at,omitempty" example:"2026-01-05T03:04:05.678Z" doc:"absent for an approver without access to the agent"`

	AgentName string `json:"agent_name,omitempty" doc:"only for an approver without access to the agent"`
	Status    string `json:"status,omitempty" enum:"awaiting_input" doc:"only for an approver without access to the agent"`
	Message   string `json:"message,omitempty" doc:"the message that the run answers; only for an approver without access to the agent"`
}

type inbox struct {
	Interrupts []inboxRow `json:"interrupts"`
	Total      int        `json:"total" doc:"the count over all pages; if more than 1,000 runs wait, of the oldest 1,000"`
	Waiting    int        `json:"waiting" doc:"the part of total that this key may decide"`
	NextCursor *string    `json:"next_cursor"`
}

// InboxQuery is the query of the interrupts that wait for a human.
type InboxQuery struct {
	httpapi.Paging
	Status  string         `query:"status" enum:"pending" default:"pending"`
	AgentID httpapi.ID     `query:"agent_id"`
	ChatID  httpapi.ChatID `query:"chat_id"`
	WaitMS  int            `query:"wait_ms" minimum:"0" maximum:"20000" doc:"without If-None-Match, or if the ETag matches: wait at most this long until a run starts or stops waiting. Other changes, such as approvers, appear after the wait"`
}

func (h *handlers) listInterrupts(
	ctx context.Context, p tenant.Principal, in *InboxQuery,
) (*answer[inbox], error) {
	after, err := httpapi.DecodeCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	list, mark, err := h.inbox(ctx, p, in, after)
	if err != nil {
		return nil, err
	}
	known, err := httpapi.NotModified(ctx, list)
	if err == nil && in.WaitMS > 0 && known {
		list, err = h.nextInbox(ctx, p, in, after, list, mark)
	}
	return httpapi.Body(list), err
}

// nextInbox waits for an inbox that differs from one that was read with a mark.
func (h *handlers) nextInbox(
	ctx context.Context, p tenant.Principal, in *InboxQuery, after string, before inbox, mark string,
) (list inbox, err error) {
	old, err := httpapi.TagOf(0, before)
	if err != nil {
		return before, err
	}
	list = before
	began, wait := h.Host.Elapsed(), time.Duration(in.WaitMS)*time.Millisecond
	err = h.WhileAllowed(ctx, p, lifecycle.Whose{}, func(ctx context.Context) error {
		for {
			left := wait - (h.Host.Elapsed() - began)
			if err := h.Hub.UntilInbox(ctx, h.Store, p.Organization, mark, left); err != nil {
				return err
			}
			reader, err := h.Tenants.Sender(ctx, p.Organization, p.User, p.Key) // as it is after the wait
			if err != nil {
				return err
			}
			if list, mark, err = h.inbox(ctx, reader, in, after); err != nil || h.Host.Elapsed()-began >= wait ||
				waiting.Left(ctx, h.Host.Elapsed()-began) == 0 {
				return err
			}
			if now, err := httpapi.TagOf(0, list); err != nil || now != old {
				return err
			}
		}
	})
	return list, err
}

// maxWaiting bounds the runs that an answer reads, once to count and once for its page.
const maxWaiting = 1000

// inbox is a page of the waiting interrupts, and the mark of their runs. Those that have waited longest come first.
func (h *handlers) inbox(
	ctx context.Context, p tenant.Principal, in *InboxQuery, after string,
) (list inbox, mark string, err error) {
	paused, mark, err := h.Store.PausedRuns(ctx, p.Organization)
	if err == nil {
		paused, err = h.concerning(ctx, p, paused)
	}
	if err != nil {
		return list, mark, err
	}
	first, rest := paused[:min(len(paused), maxWaiting)], paused[min(len(paused), maxWaiting):]
	runs, err := h.waiting(ctx, p, in, first)
	if err != nil {
		return list, mark, err
	}
	for _, r := range runs {
		list.Total += r.Interrupts
		if r.Decides {
			list.Waiting += r.Interrupts
		}
	}
	if len(rest) > 0 && after > inboxPosition(first[len(first)-1].Slot, maxInterrupts-1) {
		behind := func(i int) bool { return inboxPosition(rest[i].Slot, maxInterrupts) > after }
		rest = rest[sort.Search(len(rest), behind):]
		first, rest = rest[:min(len(rest), maxWaiting)], rest[min(len(rest), maxWaiting):]
		if runs, err = h.waiting(ctx, p, in, first); err != nil {
			return list, mark, err
		}
	}
	list.Interrupts, list.NextCursor, err = h.inboxPage(ctx, p, runs, after, in.Limit)
	if err == nil && list.NextCursor == nil && len(rest) > 0 {
		list.NextCursor = httpapi.EncodeCursor(inboxPosition(first[len(first)-1].Slot, maxInterrupts))
	}
	return list, mark, err
}

// concerning leaves out the paused runs of others that the principal neither sees nor approves: a principal in no group
// approves no calls of others. It reuses the array.
func (h *handlers) concerning(
	ctx context.Context, p tenant.Principal, paused []record.PausedRun,
) ([]record.PausedRun, error) {
	if len(paused) == 0 || len(p.Groups) > 0 {
		return paused, nil
	}
	own, err := h.Tenants.ListsOwn(ctx, p, "")
	if err != nil || !own {
		return paused, err
	}
	ids, err := h.Store.WaitingRunsOfUser(ctx, p.Scope(), p.User)
	return slices.DeleteFunc(paused, func(r record.PausedRun) bool {
		_, concerns := slices.BinarySearch(ids, r.RunID)
		return !concerns
	}), err
}

// waiting reads the runs that the query selects, and that the principal may see or decide.
func (h *handlers) waiting(
	ctx context.Context, p tenant.Principal, in *InboxQuery, paused []record.PausedRun,
) ([]intake.Waiting, error) {
	ids, slots := make([]string, 0, len(paused)), map[string]string{}
	for _, r := range paused {
		ids = append(ids, r.RunID)
		slots[r.RunID] = r.Slot
	}
	runs, err := h.Store.Runs(ctx, p.Scope(), ids...)
	if err != nil {
		return nil, err
	}
	q := RunQuery{AgentID: in.AgentID, ChatID: in.ChatID, Status: []string{string(lifecycle.AwaitingInput)}}
	runs = slices.DeleteFunc(runs, func(e record.RunEntity) bool {
		// A run that has gone on and waits again meanwhile has another place in the order, where the next answer has
		// it.
		return !q.matches(e.Value) || e.Value.Slots.Organization != slots[e.Value.ID()]
	})
	list, err := h.Intake.Waiting(ctx, p, runs)
	named := in.AgentID != "" || in.ChatID != "" // the result would reveal the run's agent or chat
	return slices.DeleteFunc(list, func(w intake.Waiting) bool { return named && w.Outside }), err
}

// inboxPage is the page after a place of the interrupts of runs that are in order.
func (h *handlers) inboxPage(
	ctx context.Context, p tenant.Principal, runs []intake.Waiting, after string, limit int,
) (page []inboxRow, next *string, err error) {
	page, last, room := []inboxRow{}, "", httpapi.Page{}
	runs = slices.DeleteFunc(runs, func(r intake.Waiting) bool {
		return inboxPosition(r.Run.Value.Slots.Organization, maxInterrupts) <= after
	})
	persons := view.Persons(ctx, h.Store, p.Scope())
	for some := range slices.Chunk(runs, limit) {
		heads := make([]record.RunEntity, 0, len(some))
		for _, r := range some {
			heads = append(heads, r.Run)
		}
		lists, err := h.Store.InterruptsOf(ctx, heads)
		if err != nil {
			return nil, nil, err
		}
		for i, r := range some {
			rows, err := h.inboxRows(ctx, r, record.Public(lists[i]), persons)
			if err != nil {
				return nil, nil, err
			}
			for n, row := range rows {
				position := inboxPosition(r.Run.Value.Slots.Organization, n)
				if position <= after {
					continue
				}
				if len(page) == limit || !room.Takes(row) {
					return page, httpapi.EncodeCursor(last), nil
				}
				page, last = append(page, row), position
			}
		}
	}
	return page, nil, nil
}

// inboxRows are the rows of a run that waits for some interrupts.
func (h *handlers) inboxRows(
	ctx context.Context, w intake.Waiting, list []events.Interrupt, persons func(string) (view.Person, error),
) (rows []inboxRow, err error) {
	r, row := w.Run.Value, inboxRow{RunID: w.Run.Value.ID(), Decidable: w.Decides}
	if w.Outside {
		v, err := view.ToDecideOf(ctx, h.Store, r)
		if err != nil {
			return nil, err
		}
		list, row.AgentName, row.Status, row.Message, row.RequestedBy =
			v.Interrupts, v.AgentName, v.Status, v.Message, v.RequestedBy
	} else {
		row.ChatID, row.AgentID, row.UserID, row.ExpiresAt = r.Chat, r.Agent, r.User, events.Time(r.ExpiresAt)
		if row.RequestedBy, err = persons(r.User); err != nil {
			return nil, err
		}
	}
	for _, row.Interrupt = range list {
		rows = append(rows, row)
	}
	return rows, nil
}

// maxInterrupts is more than a pause has.
const maxInterrupts = 999_999

// inboxPosition is the place of the nth interrupt of the run that has a slot.
func inboxPosition(slot string, n int) string { return fmt.Sprintf("%s %06d", slot, n) }

type verdict struct {
	Decision  string          `json:"decision" enum:"approve,reject,edit,answer"`
	Arguments json.RawMessage `json:"arguments,omitempty" shape:"object" doc:"the arguments that replaced those of the call"`
	Message   string          `json:"message,omitempty"`
	DecidedBy string          `json:"decided_by"`
	At        string          `json:"at"`
}

type pastInterrupt struct {
	events.Interrupt
	Pause    int                       `json:"pause" doc:"the number of the pause in the run, from 1"`
	Decision httpapi.Nullable[verdict] `json:"decision" doc:"null: not decided yet"`
}

type pastInterrupts struct {
	Interrupts []pastInterrupt `json:"interrupts"`
	NextCursor *string         `json:"next_cursor"`
}

// pausesAtOnce is how many pauses are read at a time; each may have 256 interrupts.
const pausesAtOnce = 10

// listRunInterrupts reads the interrupts of a run, in order.
func (h *handlers) listRunInterrupts(ctx context.Context, p tenant.Principal, in *struct {
	RunPath
	httpapi.LongPaging
}) (*answer[pastInterrupts], error) {
	run, err := h.Intake.Run(ctx, p, in.RunID)
	if err != nil {
		return nil, err
	}
	list, next, err := httpapi.Filter(ctx, httpapi.Paging(in.LongPaging), func(
		ctx context.Context, after string, _ int,
	) (page record.Page[pastInterrupt], err error) {
		return h.pastInterrupts(ctx, run.Value.ID(), after)
	}, httpapi.Bounded(func(i pastInterrupt) (pastInterrupt, bool, error) { return i, true, nil }))
	return httpapi.Body(pastInterrupts{list, next}), err
}

// pastInterrupts reads the interrupts of a few pauses after a place.
func (h *handlers) pastInterrupts(
	ctx context.Context, run, after string,
) (page record.Page[pastInterrupt], err error) {
	first := 1
	if number, _, _ := strings.Cut(after, " "); after != "" {
		if first, err = strconv.Atoi(number); err != nil || first < 1 {
			return page, problem.InvalidField("query.cursor", "must be the cursor of a previous page")
		}
	}
	pauses, err := h.Store.PausesOf(ctx, run, first-1, pausesAtOnce)
	if err != nil {
		return page, err
	}
	for _, pause := range pauses {
		for n, i := range pause.Interrupts {
			if position := pastPosition(pause.Number, n); position > after {
				v := pastInterrupt{Interrupt: i.Interrupt, Pause: pause.Number}
				v.Decision.Value = verdictOn(i, pause.Decided)
				page.Rows, page.Positions = append(page.Rows, v), append(page.Positions, position)
			}
		}
	}
	if len(pauses) == pausesAtOnce {
		page.Next = pastPosition(pauses[len(pauses)-1].Number, maxInterrupts)
	}
	return page, nil
}

// pastPosition is the place of the nth interrupt of a pause.
func pastPosition(pause, n int) string { return fmt.Sprintf("%06d %06d", pause, n) }

// verdictOn is the decision about an interrupt; nil for none.
func verdictOn(i record.Interrupt, d *record.Decisions) *verdict {
	if d == nil {
		return nil
	}
	for _, one := range d.List {
		if one.InterruptID == i.ID {
			return &verdict{one.Decision, one.Arguments, one.Message, d.By, events.Time(d.At)}
		}
	}
	return nil
}
