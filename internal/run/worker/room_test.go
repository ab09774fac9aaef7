package worker_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/store/record"
)

// A run whose answer or step finds no room on the disk keeps it, however long, and goes on when there is room.
func TestARunWaitsForRoomOnTheDisk(t *testing.T) {
	long := strings.Repeat("long ", 10_000)
	answers := func(s *stage) { s.said = says(long) }
	steps := func(s *stage) {
		s.tools = []tool.Offer{offer("look",
			func(context.Context) (tool.Result, error) { return tool.TextResult(long), nil })}
		s.said = talks("look")
	}
	for name, c := range map[string]struct {
		made  func(*stage)
		calls int
	}{"an answer": {answers, 1}, "a step": {steps, 2}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, mute)
				c.made(s)
				run := s.post()
				s.room.Store(100)
				ended := s.begin(t.Context(), run)
				time.Sleep(9 * time.Minute)
				require.Equal(t, lifecycle.Running, s.run(run).Status)
				s.room.Store(1 << 30)
				<-ended
				r := s.run(run)
				assert.Equal(t, []any{lifecycle.Completed, 1, c.calls}, []any{r.Status, r.Attempt, len(s.asked)})
				assert.Equal(t, 1, strings.Count(s.log.String(), "the run waits until the disk has room"))
			})
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, mute)
				c.made(s)
				run := s.post()
				s.room.Store(100)
				ended := s.begin(t.Context(), run)
				time.Sleep(9 * time.Minute)
				s.cancel(run)
				<-ended
				assert.Equal(t, lifecycle.Cancelled, s.run(run).Status, "a cancel needs no room")
			})
			synctest.Test(t, func(t *testing.T) {
				s := newStage(t, mute)
				c.made(s)
				run := s.post()
				s.room.Store(100)
				ctx, stop := context.WithCancel(t.Context())
				ended := s.begin(ctx, run)
				time.Sleep(time.Minute)
				began := time.Now()
				stop()
				<-ended
				assert.Less(t, time.Since(began), drain+time.Second, "nor does a stop wait for it")
				s.room.Store(1 << 30)
				time.Sleep(lease)
				s.handle(t.Context(), run)
				assert.Equal(t, lifecycle.Completed, s.run(run).Status)
			})
		})
	}
}

// A run whose tool returns a file that its user has no room for goes on, and the model reads why. Nothing of the file
// is kept, or counted.
func TestAFileWithoutRoomIsNotKept(t *testing.T) {
	for why, full := range map[string]func(*stage){
		"there is no room to store this; nothing was done": func(s *stage) { s.room.Store(4) },
		"this user may have 1 files, and has 1; delete files, or chats with files": func(s *stage) {
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
		s.said = talks("draw")
		run := s.post()
		s.handle(t.Context(), run)
		require.Equal(t, lifecycle.Completed, s.run(run).Status)
		r := s.result(run)
		assert.Equal(t, "[5 bytes of text/plain; they are not kept: "+why+"]", r.Steps[0].Output)
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
