package removal_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/store/record"
)

// A chat that is to be forgotten is deleted a minute after its run has ended. No run of another user is deleted with
// it.
func TestAChatIsForgottenWhenItsRunHasEnded(t *testing.T) {
	for name, c := range map[string]struct {
		age, ended time.Duration // how long ago; 0: it has not ended
		chat       lifecycle.Chat
		wait       time.Duration // until the job looks again; 0: it is done
		gone       bool          // whether the chat is then deleted
	}{
		"it runs":       {age: time.Minute, chat: lifecycle.Chat{ActiveRun: "r", LastRun: "r"}, wait: time.Minute},
		"it runs on":    {age: 40 * time.Minute, chat: lifecycle.Chat{ActiveRun: "r"}, wait: 3 * time.Minute},
		"it runs long":  {age: time.Hour, chat: lifecycle.Chat{ActiveRun: "r"}, wait: 15 * time.Minute},
		"it waits":      {age: 72 * time.Hour, chat: lifecycle.Chat{ActiveRun: "r"}, wait: 15 * time.Minute},
		"it just ended": {age: time.Hour, ended: 20 * time.Second, wait: 40 * time.Second},
		"it has ended":  {age: time.Hour, ended: time.Minute, chat: lifecycle.Chat{LastRun: "r", Turn: 1}, gone: true},
		"another runs":  {age: time.Hour, ended: time.Minute, chat: lifecycle.Chat{LastRun: "r", ActiveRun: "s"}},
		"another ended": {age: time.Hour, ended: time.Minute, chat: lifecycle.Chat{LastRun: "s"}},
		"it is deleted": {age: time.Hour, ended: time.Minute, chat: lifecycle.Chat{Deleted: true}, gone: true},
	} {
		o := newOffice(t)
		finished := o.Now().Add(-c.ended)
		if c.ended == 0 {
			finished = time.Time{}
		}
		o.old("r", o.Now().Add(-c.age), finished)
		c.chat.ID, c.chat.Organization = "c", "o"
		tx := o.store.Begin(o.NewID())
		tx.PutChat(record.Fresh(c.chat))
		require.NoError(t, tx.Commit(t.Context()))
		job := o.begin(record.Job{Kind: record.ForgetChat, Subject: "r"})
		o.handle(job)
		if c.wait > 0 {
			assert.WithinDuration(t, o.Now().Add(c.wait), o.job(job).Due, time.Second, name)
		}
		chat, found, err := o.store.ChatOf(t.Context(), lifecycle.RunSpec{Organization: "o", Chat: "c"})
		require.NoError(t, err)
		require.True(t, found)
		assert.Equal(t, c.gone, chat.Value.Deleted, name)
		assert.Equal(t, map[bool]string{true: "yes", false: "no"}[c.wait > 0], o.are("r"), name)
		o.handle(o.begin(record.Job{Kind: record.ForgetChat, Subject: "none"}))
	}
}
