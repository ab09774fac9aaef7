package worker_test

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/tool"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/store/record"
)

// A run fails if its answer, step or pause of any size does not fit on the disk. A cancelled run ends, too. Its worker
// is free, and nothing uncommitted is left.
func TestARunWithoutRoomOnTheDiskFails(t *testing.T) {
	long := strings.Repeat("long ", 10_000)
	returns := func(text string) func(*stage) {
		return func(s *stage) {
			s.tools = []tool.Offer{offer("look",
				func(context.Context) (tool.Result, error) { return tool.TextResult(text), nil })}
			s.converse = func(_ context.Context, _ model.Request, _ func(string)) (model.Reply, error) {
				if len(s.requests) == 1 {
					reply := calls("look")
					reply.Text = text
					return reply, nil
				}
				return model.Reply{Text: text, Finish: "stop"}, nil
			}
		}
	}
	noBlobs := func(s *stage) { s.room.Store(100) }
	noRows := func(s *stage) { s.rows.Store(100) }
	for name, c := range map[string]struct {
		made, full func(*stage)
	}{
		"a large answer": {func(s *stage) { s.converse = textReply(long) }, noBlobs},
		"a small answer": {func(s *stage) { s.converse = textReply(long[:1000]) }, noRows},
		"a large step":   {returns(long), noBlobs},
		"a small step":   {returns("text"), noRows},
		"a pause": {func(s *stage) {
			s.edit(func(spec *catalog.AgentSpec) { spec.Approval.Mode = "always" })
			returns(long)(s)
		}, noBlobs},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t, mute)
			c.made(s)
			run := s.post()
			c.full(s)
			s.handle(t.Context(), run)
			r := s.run(run)
			assert.Equal(t, lifecycle.Failed, r.Status)
			assert.Contains(t, r.Error, "insufficient_storage: ")
			assert.Empty(t, s.blobs.Keys())

			s = newStage(t, mute)
			c.made(s)
			answers := s.converse
			s.converse = func(ctx context.Context, r model.Request, emit func(string)) (model.Reply, error) {
				s.cancel(run)
				return answers(ctx, r, emit)
			}
			run = s.post()
			c.full(s)
			s.handle(t.Context(), run)
			assert.Equal(t, lifecycle.Cancelled, s.run(run).Status, "a cancel needs no room")
		})
	}
}

// A cancelled run whose text does not fit on the disk ends without it.
func TestACancelledRunNeedsNoRoomForItsText(t *testing.T) {
	s := newStage(t, mute)
	s.tools = []tool.Offer{fine("look")}
	var run string
	s.converse = func(context.Context, model.Request, func(string)) (model.Reply, error) {
		if len(s.requests) == 1 {
			reply := calls("look")
			reply.Text = strings.Repeat("long ", 10_000)
			return reply, nil
		}
		s.room.Store(100)
		s.cancel(run)
		return model.Reply{Text: "done", Finish: "stop"}, nil
	}
	run = s.post()
	s.handle(t.Context(), run)
	assert.Equal(t, lifecycle.Cancelled, s.run(run).Status)
	assert.Len(t, s.journal(run), 2)
}

// A run continues if its user has no space for a file of a tool. The model gets the reason. No part of the file is kept
// or counted.
func TestAFileWithoutRoomIsNotKept(t *testing.T) {
	for why, full := range map[string]func(*stage){
		"the disk is full, so nothing was stored; try again when there is space": func(s *stage) { s.room.Store(4) },
		"this user has a limit of 1 files and has 1; delete files, or chats with files": func(s *stage) {
			*s.store = *s.store.LimitFiles(record.FileLimits{User: record.FileUse{Count: 1}})
			f := s.store.NewFile(s.who.Organization, s.who.User, "a", "")
			require.NoError(s, s.store.CreateFile(s.Context(), f))
		},
	} {
		s := newStage(t, mute)
		full(s)
		before, err := s.store.FilesOf(t.Context(), s.who.Organization, s.who.User)
		require.NoError(t, err)
		s.tools = []tool.Offer{offer("draw", func(context.Context) (tool.Result, error) {
			return tool.Result{Files: []tool.File{
				{Name: "cat.txt", ContentType: "text/plain", Data: []byte("miaow")},
			}}, nil
		})}
		s.converse = talks("draw")
		run := s.post()
		s.handle(t.Context(), run)
		require.Equal(t, lifecycle.Completed, s.run(run).Status)
		r := s.result(run)
		assert.Equal(t, "[5 bytes of text/plain; they are not stored: "+why+"]", r.Steps[0].Output)
		assert.Empty(t, r.Files)
		page, err := s.store.UserFiles(t.Context(), s.who.Scope(), s.who.User, "", 10)
		require.NoError(t, err)
		for _, e := range page.Rows {
			if e.Value.Removed {
				require.NoError(t, s.store.RemoveFile(t.Context(), e.Value.ID, func(record.File) bool { return true }))
			}
		}
		after, err := s.store.FilesOf(t.Context(), s.who.Organization, s.who.User)
		require.NoError(t, err)
		assert.Equal(t, before, after)
	}
}
