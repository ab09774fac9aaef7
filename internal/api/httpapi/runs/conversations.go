package runs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"agentplatform/events"
	"agentplatform/internal/api/httpapi"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/tenant"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/run/intake"
	"agentplatform/internal/run/view"
	"agentplatform/internal/store/citation"
	"agentplatform/internal/store/record"
)

// ChatPath is the path of what belongs to a chat. It is exported because the framework fills embedded fields only then.
type ChatPath struct {
	ChatID string `path:"chat_id"`
}

func (h *handlers) conversationRoutes() {
	r := h.routes("chats")
	httpapi.Route(r, "GET /chats", "list-chats", "List chats, newest first", h.listChats)
	httpapi.Route(r, "GET /chats/{chat_id}", "read-chat", "Read a chat", h.readChat)
	httpapi.Route(r, "DELETE /chats/{chat_id}", "delete-chat",
		"Delete a chat with its runs, messages and files", h.deleteChat)
	httpapi.Route(r, "GET /chats/{chat_id}/runs", "list-chat-runs", "A chat's runs, newest first", h.listChatRuns)
	httpapi.Route(r, "GET /chats/{chat_id}/messages", "list-messages",
		"The conversation, oldest first", h.listMessages)
}

type chatView struct {
	ChatID      string  `json:"chat_id"`
	Title       string  `json:"title"`
	UserID      string  `json:"user_id"`
	ActiveRunID *string `json:"active_run_id"`
	LastRunID   *string `json:"last_run_id"`
	Turns       int     `json:"turns"`
	CreatedAt   string  `json:"created_at"`
	UpdatedAt   string  `json:"updated_at"`
}

func viewChat(c lifecycle.Chat) chatView {
	return chatView{
		ChatID:      c.ID,
		Title:       c.Title,
		UserID:      c.User,
		ActiveRunID: httpapi.Optional(c.ActiveRun),
		LastRunID:   httpapi.Optional(c.LastRun),
		Turns:       c.Turn,
		CreatedAt:   events.Time(c.CreatedAt),
		UpdatedAt:   events.Time(c.UpdatedAt),
	}
}

// ChatQuery is the query of a list of chats.
type ChatQuery struct {
	httpapi.Paging
	UserID  httpapi.ID `query:"user_id" doc:"who began it"`
	AgentID httpapi.ID `query:"agent_id" doc:"which took part"`
}

func (q ChatQuery) matches(c lifecycle.Chat) bool {
	return !c.Deleted && (q.UserID == "" || c.User == string(q.UserID)) &&
		(q.AgentID == "" || slices.Contains(c.Agents, string(q.AgentID)))
}

type chatList struct {
	Chats      []chatView `json:"chats"`
	NextCursor *string    `json:"next_cursor"`
}

func (h *handlers) listChats(
	ctx context.Context, p tenant.Principal, in *ChatQuery,
) (*answer[chatList], error) {
	chats, next, err := httpapi.Filter(ctx, in.Paging,
		func(ctx context.Context, after string, limit int) (record.Page[record.ChatEntity], error) {
			return h.Store.Chats(ctx, p.Scope(), after, limit)
		},
		func(e record.ChatEntity) (v chatView, may bool, err error) {
			if !in.matches(e.Value) {
				return v, false, nil
			}
			seen, may, err := h.Intake.Seen(ctx, p, e.Value)
			return viewChat(seen), may, err
		})
	return httpapi.Body(chatList{chats, next}), err
}

func (h *handlers) findChat(ctx context.Context, p tenant.Principal, id string) (record.ChatEntity, error) {
	if !intake.ValidChatID(id) {
		return record.ChatEntity{}, problem.Missing("chat " + id)
	}
	return h.Intake.Chat(ctx, p, id)
}

func (h *handlers) readChat(ctx context.Context, p tenant.Principal, in *ChatPath) (*answer[chatView], error) {
	e, err := h.findChat(ctx, p, in.ChatID)
	if err != nil {
		return nil, err
	}
	return httpapi.Versioned(e.Version(), viewChat(e.Value)), nil
}

func (h *handlers) deleteChat(ctx context.Context, p tenant.Principal, in *ChatPath) (*struct{}, error) {
	if !intake.ValidChatID(in.ChatID) {
		return nil, problem.Missing("chat " + in.ChatID)
	}
	job, err := h.Intake.DeleteChat(ctx, p, in.ChatID)
	return h.Began(ctx, job, p.Organization, err)
}

func (h *handlers) listChatRuns(ctx context.Context, p tenant.Principal, in *struct {
	ChatPath
	httpapi.Paging
	Active bool `query:"active" doc:"only runs that are queued, running or awaiting input"`
}) (*answer[runList], error) {
	after, err := httpapi.DecodeCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	chat, err := h.findChat(ctx, p, in.ChatID)
	if err != nil {
		return nil, err
	}
	list := runList{Runs: []view.Run{}}
	var rows []record.RunEntity
	if in.Active { // the chat itself says, and does not lag
		if rows, err = h.activeOf(ctx, p, in.ChatID, chat); err != nil {
			return nil, err
		}
	} else {
		all, err := h.Store.RunsOfChat(ctx, p.Scope(), chat.Value, after, in.Limit)
		if err != nil {
			return nil, err
		}
		rows, list.NextCursor = all.Rows, httpapi.EncodeCursor(all.Next)
	}
	first := slices.Clone(rows)
	if rows, err = h.Intake.RunsFor(ctx, p, rows); err != nil {
		return nil, err
	}
	room := httpapi.Page{}
	for _, e := range rows {
		v, err := h.shown(ctx, p, e)
		if err != nil {
			return nil, err
		}
		if !room.Takes(v) { // the page ends before it
			at := slices.IndexFunc(first, func(one record.RunEntity) bool { return one.Value.ID() == e.Value.ID() })
			shorter, err := h.Store.RunsOfChat(ctx, p.Scope(), chat.Value, after, at)
			if err != nil {
				return nil, err
			}
			list.NextCursor = httpapi.EncodeCursor(shorter.Next)
			break
		}
		list.Runs = append(list.Runs, v)
	}
	return httpapi.Body(list), nil
}

// activeTries bounds how often a chat is read again because its run has ended between two reads.
const activeTries = 8

// activeOf is the active run of a chat, if there is one. A run that ends hands the chat on in the same commit; so where
// the one that the chat named has ended, the chat names another by now, or none.
func (h *handlers) activeOf(
	ctx context.Context, p tenant.Principal, id string, chat record.ChatEntity,
) ([]record.RunEntity, error) {
	for range activeTries {
		if chat.Value.ActiveRun == "" {
			return nil, nil
		}
		rows, err := h.Store.Runs(ctx, p.Scope(), chat.Value.ActiveRun)
		if err != nil || len(rows) == 1 && rows[0].Value.Status.Active() {
			return rows, err
		}
		if chat, err = h.findChat(ctx, p, id); err != nil {
			return nil, err
		}
	}
	return nil, problem.Retry(errors.New("the chat kept changing"))
}

type messageView struct {
	Role      string              `json:"role" enum:"user,assistant"`
	Content   string              `json:"content"`
	RunID     string              `json:"run_id"`
	Turn      int                 `json:"turn"`
	Status    string              `json:"status" enum:"queued,running,awaiting_input,completed,failed,cancelled,timed_out" doc:"of the run"`
	Files     []record.FileRef    `json:"files"`
	Citations []citation.Citation `json:"citations" doc:"what an answer cites"`
	CreatedAt string              `json:"created_at"`
}

type messageList struct {
	Messages   []messageView `json:"messages"`
	NextCursor *string       `json:"next_cursor"`
}

// listMessages reads the conversation, which is the chat's runs in order of their turn.
func (h *handlers) listMessages(ctx context.Context, p tenant.Principal, in *struct {
	ChatPath
	httpapi.Paging
}) (*answer[messageList], error) {
	place, err := httpapi.DecodeCursor(in.Cursor)
	if err != nil {
		return nil, err
	}
	chat, err := h.findChat(ctx, p, in.ChatID)
	if err != nil {
		return nil, err
	}
	turn, half := 0, ""
	if place != "" {
		number, rest, _ := strings.Cut(place, "/")
		if turn, err = strconv.Atoi(number); err != nil || turn < 0 {
			return nil, problem.InvalidField("query.cursor", "is not one that a page has given")
		}
		half = rest
		turn-- // the turn itself is read again, for its other half
	}
	runs, next, err := h.Store.TurnsOfChat(ctx, p.Scope(), chat.Value, turn, in.Limit+1)
	if err != nil {
		return nil, err
	}
	list, room := messageList{Messages: []messageView{}}, httpapi.Page{}
	reachable, reads := h.Tenants.Reachable(ctx, p), h.Tenants.Reads(p)
	for _, e := range runs {
		may, err := reachable(e.Value.Agent)
		if err != nil {
			return nil, err
		}
		if !may {
			continue
		}
		both, err := h.messagesOf(ctx, e.Value, reads)
		if err != nil {
			return nil, err
		}
		for _, m := range both {
			if half != "" && m.Turn == turn+1 && (half == "assistant" || m.Role == "user") {
				continue
			}
			if len(list.Messages) == in.Limit || !room.Takes(m) {
				last := list.Messages[len(list.Messages)-1]
				list.NextCursor = placeInChat(last.Turn, last.Role)
				return httpapi.Body(list), nil
			}
			list.Messages = append(list.Messages, m)
		}
	}
	if next > 0 { // a page may be short without being the last: what is not for this client is left out
		list.NextCursor = placeInChat(next, "assistant")
	}
	return httpapi.Body(list), nil
}

func (h *handlers) listRunMessages(
	ctx context.Context, p tenant.Principal, in *RunPath,
) (*answer[messageList], error) {
	e, err := h.Intake.Run(ctx, p, in.RunID)
	if err != nil {
		return nil, err
	}
	both, err := h.messagesOf(ctx, e.Value, h.Tenants.Reads(p))
	return httpapi.Body(messageList{Messages: both}), err
}

// placeInChat is the cursor behind a message, told by its turn and its role.
func placeInChat(turn int, role string) *string {
	return httpapi.EncodeCursor(fmt.Sprintf("%d/%s", turn, role))
}

func (h *handlers) messagesOf(ctx context.Context, r record.Run, reads citation.Reader) ([]messageView, error) {
	in, err := h.Store.Input(ctx, r)
	if err != nil {
		return nil, err
	}
	m := messageView{
		Role:      "user",
		Content:   in.Message,
		RunID:     r.ID(),
		Turn:      r.Turn,
		Status:    string(r.Status),
		Files:     in.Files,
		Citations: []citation.Citation{},
		CreatedAt: events.Time(r.CreatedAt),
	}
	if r.Pause > 0 { // files may have come with answers
		pauses, decided, err := h.Store.Pauses(ctx, r.ID())
		if err != nil {
			return nil, err
		}
		for _, pause := range pauses {
			for _, i := range pause {
				m.Files = append(m.Files, decided[i.ID].Files...)
			}
		}
	}
	if m.Files == nil {
		m.Files = []record.FileRef{}
	}
	both := []messageView{m}
	out, err := view.ResultOf(ctx, h.Store, r, reads)
	if err != nil || out == nil {
		return both, err
	}
	var result view.Result
	if err := json.Unmarshal(out, &result); err != nil {
		return nil, err
	}
	m.Role, m.Content, m.Files, m.CreatedAt = "assistant", result.Answer, result.Files, events.Time(r.FinishedAt)
	m.Citations = result.Citations
	return append(both, m), nil
}
