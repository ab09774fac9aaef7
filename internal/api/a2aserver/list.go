package a2aserver

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"agentplatform/internal/api/a2a"
	"agentplatform/internal/api/bridge"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/store/record"
)

// Bounds of a page of tasks: its largest and its default number of tasks, the number of runs that are read for it, and
// its bytes. The first task alone may have more bytes.
const (
	maxPage    = 100
	usualPage  = 50
	maxScanned = 500
	maxBytes   = 1 << 20
)

// list returns a page of the agent's tasks, those with the newest messages first. A page that has read many runs of
// other agents may be short, and still have a token.
func (c *call) list(ctx context.Context, in listParams) (any, error) {
	size := usualPage
	if in.PageSize != nil {
		size = *in.PageSize
	}
	if size < 1 || size > maxPage {
		return nil, &fault{bridge.InvalidParams, fmt.Sprintf("pageSize must be between 1 and %d", maxPage)}
	}
	position, err := base64.RawURLEncoding.DecodeString(in.PageToken)
	if err != nil || len(position) > maxPosition {
		return nil, &fault{bridge.InvalidParams, "pageToken must be the nextPageToken of a previous page"}
	}
	if in.Status == a2a.Unspecified {
		in.Status = ""
	}
	if in.Status != "" {
		if occurs, known := a2a.States[in.Status]; !known {
			return nil, &fault{bridge.InvalidParams, "status must be a task state"}
		} else if !occurs {
			return page([]object{}, "", size), nil
		}
	}
	var chat *lifecycle.Chat // nil: all of the organization's runs are read
	if in.ContextID != "" {
		e, err := c.Intake.Chat(ctx, c.who, in.ContextID)
		if bridge.Unseen(err) {
			return page([]object{}, "", size), nil
		}
		if err != nil {
			return nil, err
		}
		chat = &e.Value
	}
	tasks, err := c.tasks(ctx, chat, in, string(position), size)
	return page(append([]object{}, tasks.Rows...), tasks.Next, size), err
}

// tasks are those of a page that begins at a place, and the place of the next page.
func (c *call) tasks(
	ctx context.Context, chat *lifecycle.Chat, in listParams, after string, size int,
) (record.Page[object], error) {
	own, err := c.Intake.Tenants.ListsOwn(ctx, c.who, c.agent.ID)
	if err != nil {
		return record.Page[object]{}, err
	}
	runs := func(ctx context.Context, after string, limit int) (record.Page[record.RunEntity], error) {
		switch {
		case chat != nil:
			return c.Store.RunsOfChat(ctx, c.who.Scope(), *chat, after, limit)
		case own:
			return c.Store.RunsOfUser(ctx, c.who.Scope(), c.who.User, after, limit)
		}
		return c.Store.RunsOfOrganization(ctx, c.who.Scope(), after, limit)
	}
	sees, rows, bytes := c.Intake.Sees(ctx, c.who), 0, 0
	return record.Filter(ctx, after, size, maxScanned, runs, func(e record.RunEntity) (t object, may bool, err error) {
		if !c.wanted(e.Value, in) {
			return nil, false, nil
		}
		if may, err = sees(e.Value); err != nil || !may {
			return nil, false, err
		}
		t, err = c.task(ctx, e, in.IncludeArtifacts, in.HistoryLength != nil && *in.HistoryLength > 0)
		if err != nil {
			return nil, false, err
		}
		text, err := json.Marshal(t)
		rows++
		if bytes += len(text); err == nil && bytes > maxBytes && rows > 1 {
			err = record.ErrPageFull
		}
		return t, true, err
	})
}

// maxPosition is how long the place in a listing may be, in bytes.
const maxPosition = 300

func (c *call) wanted(r record.Run, in listParams) bool {
	return r.Agent == c.agent.ID && !r.Removed && (in.Status == "" || c.Dialect.State(string(r.Status)) == in.Status) &&
		!r.UpdatedAt.Before(in.StatusTimestampAfter)
}

// page is the result: how many tasks there are in all is not counted, only whether there are more.
func page(tasks []object, after string, size int) object {
	total := len(tasks)
	if after != "" {
		total++
	}
	return object{
		"tasks": tasks, "nextPageToken": base64.RawURLEncoding.EncodeToString([]byte(after)), "pageSize": size,
		"totalSize": total,
	}
}
