package runs_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/events"
	"agentplatform/internal/api/httpapi/httpapitest"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/run/transition"
	"agentplatform/internal/store/record"
)

// office is an organization whose users see different chats. Chats belong to their users.
type office struct {
	httpapitest.API // as its admin

	organization                       string
	owner, colleague, manager, monitor httpapitest.API
	users                              map[string]string // ids by role in the test
	runs                               map[string]string // ids by name
}

// newOffice makes an office. listed is whether its runs are listed by user.
func newOffice(t *testing.T, visibility catalog.Visibility, listed bool) office {
	t.Helper()
	o := office{API: httpapitest.New(t), users: map[string]string{}, runs: map[string]string{}}
	o.owner, _ = o.hire(t, "owner", "member", "run")
	o.colleague, _ = o.hire(t, "colleague", "member", "run")
	o.manager, _ = o.hire(t, "manager", "manager", "manage")
	var key string
	o.monitor, key = o.hire(t, "monitor", "member", "run")
	store, ctx := o.Executor.Store, t.Context()
	k, err := record.Change(ctx, store, record.System(), key, 0, func(k *catalog.APIKey, _ *record.Tx) error {
		k.Sees = catalog.SeesAll
		return nil
	})
	require.NoError(t, err)
	o.organization = k.Value.Organization
	_, err = record.Change(ctx, store, record.System(), o.organization, 0,
		func(v *catalog.Organization, _ *record.Tx) error {
			v.ChatVisibility, v.ListedByUser = visibility, listed
			return nil
		})
	require.NoError(t, err)
	return o
}

// hire makes a user with a key, and returns the user's id.
func (o office) hire(t *testing.T, name, role, level string) (as httpapitest.API, key string) {
	t.Helper()
	var made struct {
		UserID string `json:"user_id"`
		Key    string `json:"key"`
		KeyID  string `json:"api_key_id"`
	}
	w := o.Send("POST", "/users", fmt.Sprintf(`{"email":"%s@example.com","role":%q}`, name, role))
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &made), w.Body)
	o.users[name] = made.UserID
	w = o.Send("POST", "/api-keys", fmt.Sprintf(`{"name":"k","level":%q,"user_id":%q}`, level, made.UserID))
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &made), w.Body)
	return o.As(made.Key), made.KeyID
}

// begin begins a run by its name. A run that is to end is cancelled, with a delivery.
func (o office) begin(t *testing.T, as httpapitest.API, name, chat string, ends bool) {
	t.Helper()
	o.runs[name] = as.Begin(t, "chat_id", chat, "callback_url", "https://example.com/hook").RunID
	if ends {
		require.Equal(t, http.StatusOK, as.Send("POST", "/runs/"+o.runs[name]+"/cancel", "").Code)
	}
}

// asks has a run wait for an approval of a tool call.
func (o office) asks(t *testing.T, name string) {
	t.Helper()
	run := o.runs[name]
	head, err := o.Executor.Store.Run(t.Context(), record.System(), run)
	require.NoError(t, err)
	pause := lifecycle.Pause{Work: lifecycle.Work{Attempt: 1}, ExpiresAt: time.Now().Add(time.Hour),
		AgentVersion: head.Value.AgentVersion, Interrupts: []lifecycle.Pending{{ID: "i", Kind: lifecycle.Approval}}}
	list := []record.Interrupt{{Interrupt: events.Interrupt{ID: "i", Kind: string(lifecycle.Approval), Prompt: "May I?",
		CreatedAt: events.Time(time.Now())}}}
	for _, c := range []transition.Change{
		{Event: lifecycle.Claim{Holder: "w", Until: time.Now().Add(time.Hour)}}, {Event: pause, Interrupts: list},
	} {
		_, err := o.Executor.Do(t.Context(), record.System(), run,
			func(record.Run, *record.Tx) (transition.Change, error) { return c, nil })
		require.NoError(t, err)
	}
}

// listed are the values of a member of all rows of a list, page by page, in the order of the alphabet.
func listed(t *testing.T, as httpapitest.API, path, list, member string) []string {
	t.Helper()
	found := []string{}
	for cursor := ""; ; {
		w := as.Send("GET", path+cursor, "")
		require.Equal(t, http.StatusOK, w.Code, w.Body)
		var page map[string]json.RawMessage
		require.NoError(t, json.Unmarshal(w.Body.Bytes(), &page))
		var rows []map[string]any
		require.NoError(t, json.Unmarshal(page[list], &rows), w.Body)
		for _, row := range rows {
			found = append(found, row[member].(string))
		}
		var next *string
		require.NoError(t, json.Unmarshal(page["next_cursor"], &next))
		if next == nil {
			break
		}
		cursor = "&cursor=" + *next
	}
	slices.Sort(found)
	return found
}

// tasks are the ids of the tasks that A2A lists.
func tasks(t *testing.T, as httpapitest.API) []string {
	t.Helper()
	w := as.Send("POST", "/a2a/"+as.Agent, `{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{}}`)
	var answer struct {
		Result struct {
			Tasks []struct{ ID string }
		}
	}
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &answer), w.Body)
	found := []string{}
	for _, task := range answer.Result.Tasks {
		found = append(found, task.ID)
	}
	slices.Sort(found)
	return found
}

// matched is the number of active runs that a cancel of many matches; it cancels none of them.
func matched(t *testing.T, as httpapitest.API, filter string) string {
	t.Helper()
	w := as.Send("POST", "/runs/cancel", `{"filter":`+filter+`,"confirm_count":999}`)
	require.Equal(t, http.StatusConflict, w.Code, w.Body)
	var refusal struct{ Matched int }
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &refusal))
	return fmt.Sprint(refusal.Matched)
}

// The runs of an office at work, by name.
const (
	first, second, toOwner = "owner's first", "owner's second", "manager's, in the owner's chat"
	done, waits, others    = "colleague's first", "colleague's second", "manager's"
)

// work begins the runs of the office.
func (o office) work(t *testing.T) {
	t.Helper()
	o.begin(t, o.owner, first, "o1", true)
	o.begin(t, o.manager, toOwner, "o1", false)
	o.begin(t, o.owner, second, "o2", false)
	o.begin(t, o.colleague, done, "c1", true)
	o.begin(t, o.colleague, waits, "c2", false)
	o.begin(t, o.manager, others, "m", true)
	for _, run := range []string{toOwner, second, waits} {
		pauses(t, o.API, o.runs[run], 1)
	}
}

// named are the ids of runs, in the order of the alphabet.
func (o office) named(names ...string) []string {
	ids := []string{}
	for _, name := range names {
		ids = append(ids, o.runs[name])
	}
	slices.Sort(ids)
	return ids
}

// lists are the rows of each list by its reader; empty: a reader who sees all chats.
func (o office) lists() map[string]map[string][]string {
	all := o.named(first, toOwner, second, done, waits, others)
	ofOwner, ofColleague := o.named(first, toOwner, second), o.named(done, waits)
	colleague := o.users["colleague"]
	return map[string]map[string][]string{
		"/runs?limit=2":                {"": all, "owner": ofOwner, "colleague": ofColleague},
		"/webhooks/deliveries?limit=1": {"": all, "owner": ofOwner, "colleague": ofColleague},
		"ListTasks":                    {"": all, "owner": ofOwner, "colleague": ofColleague},
		"/runs?limit=1&status=running,awaiting_input": {
			"": o.named(toOwner, second, waits), "owner": o.named(toOwner, second), "colleague": o.named(waits)},
		"/interrupts?limit=1": {
			"": o.named(toOwner, second, waits), "owner": o.named(toOwner, second), "colleague": o.named(waits)},
		"/runs?user_id=" + colleague: {"": ofColleague, "owner": {}, "colleague": ofColleague},
		"/runs?chat_id=o1": {
			"": o.named(first, toOwner), "owner": o.named(first, toOwner), "colleague": {}},
		"/chats?limit=1": {
			"": {"c1", "c2", "m", "o1", "o2"}, "owner": {"o1", "o2"}, "colleague": {"c1", "c2"}},
		"/chats?user_id=" + colleague:     {"": {"c1", "c2"}, "owner": {}, "colleague": {"c1", "c2"}},
		`{}`:                              {"": {"3"}, "owner": {"2"}, "colleague": {"1"}},
		`{"chat_id":"o1"}`:                {"": {"1"}, "owner": {"1"}, "colleague": {"0"}},
		`{"user_id":"` + colleague + `"}`: {"": {"1"}, "owner": {"0"}, "colleague": {"1"}},
	}
}

// Where chats are their users' own, each list has the rows of these chats, of any sender. Managers and keys for
// monitoring find all. So it is where the runs are not listed by user yet. Where chats are shared, all find all.
func TestEachListHasWhatItsReaderSees(t *testing.T) {
	for name, c := range map[string]struct {
		visibility catalog.Visibility
		listed     bool
	}{
		"own": {catalog.SeesOwn, true}, "own, of an earlier version": {catalog.SeesOwn, false},
		"shared": {catalog.SeesAll, true}, "shared, of an earlier version": {"", false},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOffice(t, c.visibility, c.listed)
			o.work(t)
			readers := map[string]httpapitest.API{
				"owner": o.owner, "colleague": o.colleague, "manager": o.manager, "monitor": o.monitor,
			}
			check := func(list string, rows map[string][]string) {
				for who, as := range readers {
					want, own := rows[who]
					if !own || c.visibility != catalog.SeesOwn {
						want = rows[""]
					}
					assert.Equal(t, want, o.read(t, as, list), "%s: %s", who, list)
				}
			}
			for list, rows := range o.lists() {
				check(list, rows)
			}
			gone, err := o.Executor.Store.Run(t.Context(), record.System(), o.runs[toOwner])
			require.NoError(t, err)
			require.NoError(t, o.Executor.Store.EraseRun(t.Context(), gone, "erased", false))
			const deliveries = "/webhooks/deliveries?limit=1" // also of a run that is gone
			check(deliveries, o.lists()[deliveries])
		})
	}
}

// read reads a list by its path, by its method of A2A, or by the filter of a cancel.
func (office) read(t *testing.T, as httpapitest.API, list string) []string {
	t.Helper()
	switch {
	case list == "ListTasks":
		return tasks(t, as)
	case list[0] == '{':
		return []string{matched(t, as, list)}
	case list[:5] == "/runs":
		return listed(t, as, list, "runs", "run_id")
	case list[:5] == "/chat":
		return listed(t, as, list, "chats", "chat_id")
	case list[:5] == "/inte":
		return listed(t, as, list, "interrupts", "run_id")
	}
	return listed(t, as, list, "deliveries", "run_id")
}

// An approver finds in the inbox the calls that it approves in chats that it does not see. No other list has these
// runs.
func TestAnApproverFindsCallsInTheInboxAlone(t *testing.T) {
	o := newOffice(t, catalog.SeesOwn, true)
	approver, _ := o.hire(t, "approver", "member", "run")
	var group struct {
		ID string `json:"group_id"`
	}
	w := o.Send("POST", "/groups", `{"name":"g"}`)
	require.NoError(t, json.Unmarshal(w.Body.Bytes(), &group), w.Body)
	w = o.Send("POST", "/groups/"+group.ID+"/members", `{"user_id":"`+o.users["approver"]+`"}`)
	require.Less(t, w.Code, 300, w.Body)
	w = o.Send("PATCH", "/agents/"+o.Agent+"?publish=true", `{"approver_group_ids":["`+group.ID+`"]}`)
	require.Equal(t, http.StatusOK, w.Code, w.Body)
	o.begin(t, o.owner, "owner's", "o", false)
	o.asks(t, "owner's")
	assert.Equal(t, []string{o.runs["owner's"]}, o.read(t, approver, "/interrupts?limit=1"))
	assert.Equal(t, []string{o.runs["owner's"]}, o.read(t, o.owner, "/interrupts?limit=1"))
	assert.Empty(t, o.read(t, o.colleague, "/interrupts?limit=1"))
	for _, list := range []string{"/runs?limit=1", "/runs?status=awaiting_input", "/chats?limit=1", "ListTasks"} {
		assert.Empty(t, o.read(t, approver, list), list)
	}
	w = approver.Send("GET", "/interrupts", "")
	assert.NotContains(t, w.Body.String(), "chat_id")
}

// The reads of a member's lists do not grow with the runs of its colleagues.
func TestAListOfAMemberReadsNothingOfItsColleagues(t *testing.T) {
	o := newOffice(t, catalog.SeesOwn, true)
	o.begin(t, o.owner, "first", "o1", true)
	o.begin(t, o.owner, "second", "o2", false)
	lists := []string{
		"/runs?limit=20", "/runs?status=queued,running", "/runs?agent_id=" + o.Agent, "/runs?status=completed",
		"/runs?user_id=" + o.users["colleague"], "/chats?limit=20", "/chats?user_id=" + o.users["colleague"],
		"/webhooks/deliveries?limit=20", "/webhooks/deliveries?state=failed", "/interrupts?limit=20", "ListTasks",
		`{}`, `{"status":"queued"}`, `{"user_id":"` + o.users["colleague"] + `"}`,
	}
	costs := map[string]int64{}
	queries := map[string]int64{}
	for round, more := range []int{0, 150} {
		for n := range more {
			o.begin(t, o.colleague, "others", fmt.Sprint("c", n), n%2 == 0)
		}
		for _, list := range lists {
			items, calls := o.Items.Items.Load(), o.Items.Queries.Load()
			o.read(t, o.owner, list)
			items, calls = o.Items.Items.Load()-items, o.Items.Queries.Load()-calls
			if round == 0 {
				costs[list], queries[list] = items, calls
				continue
			}
			assert.LessOrEqual(t, items, costs[list], list)
			assert.LessOrEqual(t, calls, queries[list], list)
			assert.LessOrEqual(t, calls, int64(2*16+6), "%s: twice the shards of its slots", list)
		}
	}
}
