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

// ChatPath is the path of a chat's resources. It is exported because the framework fills embedded fields only then.
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
	UserID  httpapi.ID `query:"user_id" doc:"chats that this user started"`
	AgentID httpapi.ID `query:"agent_id" doc:"chats with this agent"`
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
	own, err := h.Tenants.ListsOwn(ctx, p, "")
	if err != nil {
		return nil, err
	}
	chats, next, err := httpapi.Filter(ctx, in.Paging,
		func(ctx context.Context, after string, limit int) (page record.Page[record.ChatEntity], err error) {
			switch {
			case own && in.UserID != "" && string(in.UserID) != p.User:
				return page, nil
			case own:
				return h.Store.ChatsOfUser(ctx, p.Scope(), p.User, after, limit)
			}
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
	return httpapi.Shows(viewChat)(h.findChat(ctx, p, in.ChatID))
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
	chat, err := h.findChat(ctx, p, in.ChatID)
	if err != nil {
		return nil, err
	}
	page := h.runsOfChat(p, chat)
	if in.Active { // the chat's own row has it, and does not lag
		page = func(ctx context.Context, _ string, _ int) (record.Page[record.RunEntity], error) {
			return h.activeOf(ctx, p, in.ChatID, chat)
		}
	}
	sees := h.Intake.Sees(ctx, p)
	runs, next, err := httpapi.Filter(ctx, in.Paging, page, httpapi.Bounded(
		func(e record.RunEntity) (v view.Run, may bool, err error) {
			if may, err = sees(e.Value); err == nil && may {
				v, err = h.shown(ctx, p, e)
			}
			return v, may, err
		}))
	return httpapi.Body(runList{runs, next}), err
}

// maxActiveReads bounds how often a chat is read again because its run has ended between two reads.
const maxActiveReads = 8

// activeOf is the active run of a chat, if there is one. A run that ends gives the chat to its successor in the same
// commit. So when the run in the chat's row has ended, the chat names another run by now, or none.
func (h *handlers) activeOf(
	ctx context.Context, p tenant.Principal, id string, chat record.ChatEntity,
) (page record.Page[record.RunEntity], err error) {
	for range maxActiveReads {
		if chat.Value.ActiveRun == "" {
			return page, nil
		}
		rows, err := h.Store.Runs(ctx, p.Scope(), chat.Value.ActiveRun)
		if err != nil || len(rows) == 1 && rows[0].Value.Status.Active() {
			return record.Page[record.RunEntity]{Rows: rows, Positions: []string{chat.Value.ActiveRun}}, err
		}
		if chat, err = h.findChat(ctx, p, id); err != nil {
			return page, err
		}
	}
	return page, problem.Retry(errors.New("the chat kept changing"))
}

type messageView struct {
	Role      string              `json:"role" enum:"user,assistant"`
	Content   string              `json:"content"`
	RunID     string              `json:"run_id"`
	Turn      int                 `json:"turn"`
	Status    string              `json:"status" enum:"queued,running,awaiting_input,completed,failed,cancelled,timed_out" doc:"the status of the run"`
	Files     []record.FileRef    `json:"files"`
	Citations []citation.Citation `json:"citations" doc:"the citations of an answer"`
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
	chat, err := h.findChat(ctx, p, in.ChatID)
	if err != nil {
		return nil, err
	}
	sees, reads := h.Intake.Sees(ctx, p), h.Tenants.CitationFilter(p)
	messages, next, err := httpapi.Filter(ctx, in.Paging, h.turnsOf(p, chat.Value), httpapi.Bounded(
		func(m message) (v messageView, may bool, err error) {
			if may, err = sees(m.run); err == nil && may {
				return h.viewMessage(ctx, m, reads)
			}
			return v, false, err
		}))
	return httpapi.Body(messageList{messages, next}), err
}

// roles are those of a turn's messages, in order.
var roles = []string{"user", "assistant"}

// message is a message of a run: its question, or its answer.
type message struct {
	run  record.Run
	role string
}

// turnsOf lists the messages of a chat, oldest first. The place of one is its turn and its role.
func (h *handlers) turnsOf(p tenant.Principal, chat lifecycle.Chat) record.Listing[message] {
	position := func(turn int, role string) string { return fmt.Sprintf("%d/%s", turn, role) }
	return func(ctx context.Context, after string, limit int) (page record.Page[message], err error) {
		turn, half := 0, ""
		if after != "" {
			number, rest, _ := strings.Cut(after, "/")
			if turn, err = strconv.Atoi(number); err != nil || turn < 0 {
				return page, problem.InvalidField("query.cursor", "must be the cursor of a previous page")
			}
			if half = rest; half == "user" {
				turn-- // the turn itself is read again, for its other half
			}
		}
		runs, next, err := h.Store.TurnsOfChat(ctx, p.Scope(), chat, turn, limit+1)
		for _, e := range runs {
			for _, role := range roles {
				shown := half == "user" && e.Value.Turn == turn+1 && role == "user"
				absent := role == "assistant" && e.Value.Output == nil && !e.Value.Outside
				if !shown && !absent {
					page.Rows = append(page.Rows, message{e.Value, role})
					page.Positions = append(page.Positions, position(e.Value.Turn, role))
				}
			}
		}
		if next > 0 {
			page.Next = position(next, "assistant")
		}
		return page, err
	}
}

func (h *handlers) listRunMessages(
	ctx context.Context, p tenant.Principal, in *RunPath,
) (*answer[messageList], error) {
	e, err := h.Intake.Run(ctx, p, in.RunID)
	if err != nil {
		return nil, err
	}
	list, reads := messageList{Messages: []messageView{}}, h.Tenants.CitationFilter(p)
	for _, role := range roles {
		m, there, err := h.viewMessage(ctx, message{e.Value, role}, reads)
		if err != nil {
			return nil, err
		}
		if there {
			list.Messages = append(list.Messages, m)
		}
	}
	return httpapi.Body(list), nil
}

// viewAnswer adds a run's answer to its message, or the text that a cancelled run had.
func (h *handlers) viewAnswer(
	ctx context.Context, v messageView, r record.Run, reads citation.Reader,
) (_ messageView, there bool, err error) {
	v.CreatedAt = events.Time(r.FinishedAt)
	if partial, err := view.PartialOf(ctx, h.Store, r); err != nil || partial != nil {
		if partial != nil {
			v.Content, v.Files = partial.Answer, []record.FileRef{}
		}
		return v, partial != nil, err
	}
	out, err := view.ResultOf(ctx, h.Store, r, reads)
	if err != nil || out == nil {
		return v, false, err
	}
	var result view.Result
	err = json.Unmarshal(out, &result)
	v.Content, v.Files, v.Citations = result.Answer, result.Files, result.Citations
	return v, true, err
}

// viewMessage reads a message; there is false for an answer that the run has not.
func (h *handlers) viewMessage(
	ctx context.Context, m message, reads citation.Reader,
) (v messageView, there bool, err error) {
	r := m.run
	v = messageView{
		Role: m.role, RunID: r.ID(), Turn: r.Turn, Status: string(r.Status), Citations: []citation.Citation{},
	}
	if m.role == "assistant" {
		return h.viewAnswer(ctx, v, r, reads)
	}
	in, err := h.Store.Input(ctx, r)
	if err != nil {
		return v, false, err
	}
	v.Content, v.Files, v.CreatedAt = in.Message, append([]record.FileRef{}, in.Files...), events.Time(r.CreatedAt)
	if r.Pause > 0 { // files may have come with answers
		pauses, decided, err := h.Store.Pauses(ctx, r.ID())
		if err != nil {
			return v, false, err
		}
		for _, pause := range pauses {
			for _, i := range pause {
				v.Files = append(v.Files, decided[i.ID].Files...)
			}
		}
	}
	return v, true, nil
}
