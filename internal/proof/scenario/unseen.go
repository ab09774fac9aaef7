package scenario

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The part of the matrix for the owner of a chat: its owner by several keys, colleagues, keys for monitoring, managers.

// watchers makes the keys of users who see, or do not see, the chats of others: a member, whose keys may be for
// monitoring, and a manager.
func (m *matrix) watchers() {
	member := m.home.colleague("member", "run")
	m.keys["of a member"] = member.Key
	for _, level := range []string{"read", "run"} {
		m.keys["of a monitor at level "+level] = m.home.key(member, level, "organization").Key
	}
	m.keys["of a manager"] = m.home.colleague("manager", "manage").Key
	held := m.home.make("file")
	m.home.chat("message", "x", "file_ids", held["id"]).is(200)
	m.made["held file"] = held
}

// ofChats has the kinds of objects that are visible together with their chats.
var ofChats = []string{"run", "chat", "delivery", "file"}

// joins has requests that name a chat in their body, by their endpoints.
var joins = map[string]any{
	"POST /chat":      pairs{"message", "x", "agent_id", "{agent}", "chat_id", "{chat_id}", "on_conflict", "enqueue"},
	"POST /responses": object{"model": "{agent}", "input": "x", "conversation": "{chat_id}"},
}

// unseen returns the requests that an endpoint must refuse to users who do not see the chat of its object. A file that
// no run holds is for its uploader and for admins.
func (m *matrix) unseen(r right) []cell {
	if !slices.Contains(ofChats, r.object) || !covers("run", r.level) {
		return nil
	}
	of := func(what, key string, o thing) cell {
		return cell{what, m.keys[key], o, 403, "insufficient_permission", ""}
	}
	list := []cell{of("of another user's chat", "of a member", m.made["own "+r.object])}
	if r.object == "file" {
		list = append(list, of("of a file that another user's run holds", "of a member", m.made["held file"]),
			of("of a file that no run holds, by a manager", "of a manager", m.made["own file"]))
	}
	return list
}

// unlisted checks that no list of a member contains objects of the chats of others. It returns the number of requests.
func (m *matrix) unlisted(t *testing.T) (requests int) {
	for _, route := range slices.Sorted(maps.Keys(rights)) {
		if r := rights[route]; r.object != "" || r.level != "read" || !strings.HasPrefix(route, "GET ") {
			continue
		}
		requests++
		a := m.home.with(m.keys["of a member"]).ask(route, rights[route], thing{})
		assert.Equal(t, 200, a.status, "%s: %s", route, a.raw)
		hidden := []string{"held file"}
		for _, kind := range ofChats {
			hidden = append(hidden, "own "+kind)
		}
		for _, kind := range hidden {
			require.NotEmpty(t, m.made[kind], kind)
			for name, id := range m.made[kind] {
				assert.False(t, name != "agent" && strings.Contains(a.raw, id), "%s lists %s %s", route, kind, id)
			}
		}
	}
	return requests
}

// sends has the endpoints that only the user of their object may call, not even a user with a higher level.
var sends = map[string]bool{"PUT /files/{id}/content": true}
