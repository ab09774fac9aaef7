package a2aserver

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"

	"agentplatform/internal/api/a2a"
	"agentplatform/internal/api/bridge"
	"agentplatform/internal/run/view"
	"agentplatform/internal/store/record"
)

// Bounds of a page of tasks: how many there are at most, unless told, how many runs are looked at for them, and how
// many bytes the tasks have; the first may have more by itself.
const (
	maxPage     = 100
	usualPage   = 50
	maxLookedAt = 500
	maxBytes    = 1 << 20
)

// list returns a page of the agent's tasks, the newest first: those whose messages came last. One that has looked at
// many runs of other agents may be short, and still have a token.
func (c *call) list(ctx context.Context, in listParams) (Reply, error) {
	size := usualPage
	if in.PageSize != nil {
		size = *in.PageSize
	}
	if size < 1 || size > maxPage {
		return Reply{}, &fault{bridge.InvalidParams, fmt.Sprintf("pageSize must be between 1 and %d", maxPage)}
	}
	place, err := base64.RawURLEncoding.DecodeString(in.PageToken)
	if err != nil || len(place) > maxPlace {
		return Reply{}, &fault{bridge.InvalidParams, "pageToken is not one that a page had"}
	}
	if in.Status == a2a.Unspecified {
		in.Status = ""
	}
	if in.Status != "" {
		if occurs, known := a2a.States[in.Status]; !known {
			return Reply{}, &fault{bridge.InvalidParams, "status is not a state of tasks"}
		} else if !occurs {
			return c.page([]object{}, "", size), nil
		}
	}
	read, err := c.listing(ctx, in.ContextID)
	if err != nil {
		return Reply{}, err
	}
	tasks, bytes, after := []object{}, 0, string(place)
	for looked := 0; looked < maxLookedAt; looked += maxPage {
		page, err := read(ctx, after, maxPage)
		if err != nil {
			return Reply{}, err
		}
		for i, e := range page.Rows {
			if !c.wanted(e.Value, in) {
				after = page.Places[i]
				continue
			}
			t, err := c.listed(ctx, e, in)
			if err != nil {
				return Reply{}, err
			}
			shown, err := json.Marshal(t)
			if err != nil {
				return Reply{}, err
			}
			if bytes += len(shown); bytes > maxBytes && len(tasks) > 0 {
				return c.page(tasks, after, size), nil
			}
			after = page.Places[i]
			if tasks = append(tasks, t); len(tasks) == size {
				if i == len(page.Rows)-1 {
					after = page.Next
				}
				return c.page(tasks, after, size), nil
			}
		}
		if after = page.Next; after == "" {
			break
		}
	}
	return c.page(tasks, after, size), nil
}

// maxPlace is how long the place in a listing may be, in bytes.
const maxPlace = 300

type runPage func(ctx context.Context, after string, limit int) (record.Page[record.RunEntity], error)

// listing reads the runs of a context, or of the organization.
func (c *call) listing(ctx context.Context, chat string) (runPage, error) {
	if chat == "" {
		return func(ctx context.Context, after string, limit int) (record.Page[record.RunEntity], error) {
			return c.Store.RunsOfOrganization(ctx, c.who.Scope(), after, limit)
		}, nil
	}
	e, err := c.Intake.Chat(ctx, c.who, chat)
	if bridge.Unseen(err) {
		return func(context.Context, string, int) (page record.Page[record.RunEntity], err error) {
			return page, nil
		}, nil
	}
	return func(ctx context.Context, after string, limit int) (record.Page[record.RunEntity], error) {
		return c.Store.RunsOfChat(ctx, c.who.Scope(), e.Value, after, limit)
	}, err
}

func (c *call) wanted(r record.Run, in listParams) bool {
	return r.Agent == c.agent.ID && !r.Removed && (in.Status == "" || c.Dialect.State(string(r.Status)) == in.Status) &&
		!r.UpdatedAt.Before(in.StatusTimestampAfter)
}

// listed is a task of a page.
func (c *call) listed(ctx context.Context, e record.RunEntity, in listParams) (object, error) {
	v, err := view.Of(ctx, c.Store, e)
	if err == nil && in.IncludeArtifacts {
		v, err = v.For(ctx, c.Intake.Tenants.Reads(c.who))
	}
	if err != nil {
		return nil, err
	}
	t := c.Task(v)
	if !in.IncludeArtifacts {
		delete(t, "artifacts")
	}
	if in.HistoryLength != nil && *in.HistoryLength > 0 {
		if t["history"], err = c.historyOf(ctx, e, v); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// page is the result: how many tasks there are in all is not counted, only whether there are more.
func (c *call) page(tasks []object, after string, size int) Reply {
	total := len(tasks)
	if after != "" {
		total++
	}
	return c.result(object{
		"tasks": tasks, "nextPageToken": base64.RawURLEncoding.EncodeToString([]byte(after)), "pageSize": size,
		"totalSize": total,
	})
}
