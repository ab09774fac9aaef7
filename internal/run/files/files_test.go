package files_test

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/run/files"
	"agentplatform/internal/store/blob/memblob"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table/memtable"
)

// Only the user who announced a file may send its bytes, and only the run that makes a file those of it. Others get the
// same refusal when the bytes are there.
func TestOnlyTheUploaderSendsBytes(t *testing.T) {
	h := host.System()
	store := record.New(memtable.New(h.Now), &memblob.Store{}, h)
	s := &files.Files{Store: store, Log: slog.New(slog.DiscardHandler)}
	scope := record.Of("o")
	send := func(user, id, bytes string) string {
		_, err := s.Send(t.Context(), scope, user, id, strings.NewReader(bytes), -1)
		if p, is := problem.As(err); is {
			return p.Code
		}
		require.NoError(t, err)
		return ""
	}
	announced, address, err := s.Announce(t.Context(), files.New{Organization: "o", User: "u", Name: "a.txt", Size: 4})
	require.NoError(t, err)
	assert.Nil(t, address)
	assert.Equal(t, "insufficient_permission", send("another", announced.ID, "EVIL"))
	assert.Equal(t, "insufficient_permission", send("", announced.ID, "EVIL"))
	assert.Empty(t, send("u", announced.ID, "good"))
	assert.Equal(t, "insufficient_permission", send("another", announced.ID, "EVIL"))
	assert.Equal(t, "conflict", send("u", announced.ID, "again"))

	made := store.NewFile("o", "u", "made.txt", "text/plain") // without bytes yet
	made.Made = true
	_, err = record.Create(t.Context(), store, made, made.ID)
	require.NoError(t, err)
	assert.Equal(t, "insufficient_permission", send("u", made.ID, "EVIL"))
}
