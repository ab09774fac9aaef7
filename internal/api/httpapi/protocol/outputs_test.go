package protocol_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/events"
	"agentplatform/internal/api/httpapi/httpapitest"
	"agentplatform/internal/core/lifecycle"
	"agentplatform/internal/run/transition"
	"agentplatform/internal/store/blob/memblob"
	"agentplatform/internal/store/record"
)

// rival is a blob store that does something once, before it stores a file's bytes.
type rival struct {
	memblob.Store

	first func()
}

func (r *rival) Put(ctx context.Context, key string, from io.Reader, limit int64) (int64, error) {
	if first := r.first; first != nil && strings.HasPrefix(key, "files/") {
		r.first = nil
		first()
	}
	return r.Store.Put(ctx, key, from, limit)
}

// calling is a run that waits for the outputs of calls calls. It returns a request with these outputs, each with files
// files.
func calling(t *testing.T, e httpapitest.API, calls, files int) (request string) {
	run := e.Begin(t).RunID
	pause := lifecycle.Pause{Work: lifecycle.Work{Attempt: 1}, ExpiresAt: time.Now().Add(time.Hour)}
	var list []record.Interrupt
	var outputs []map[string]any
	for n := range calls {
		id := fmt.Sprintf("%024d", n)
		pause.Interrupts = append(pause.Interrupts,
			lifecycle.Pending{ID: id, Kind: lifecycle.Clarification, Call: true})
		list = append(list, record.Interrupt{Interrupt: events.Interrupt{
			ID: id, Kind: string(lifecycle.Clarification), CreatedAt: events.Time(time.Now()),
			Tool: &events.InterruptTool{Name: "paint", Arguments: json.RawMessage(`{}`)},
		}})
		var content []map[string]any
		for f := range files {
			content = append(content, map[string]any{
				"type": "input_file", "filename": "a.txt", "file_data": fmt.Sprintf("data:text/plain,%d", f),
			})
		}
		outputs = append(outputs, map[string]any{
			"type": "function_call_output", "call_id": "call_" + run + "_" + id, "output": content,
		})
	}
	for _, c := range []transition.Change{
		{Event: lifecycle.Claim{Holder: "w", Until: time.Now().Add(time.Hour)}}, {Event: pause, Interrupts: list},
	} {
		_, err := e.Executor.Do(t.Context(), record.System(), run,
			func(record.Run, *record.Tx) (transition.Change, error) { return c, nil })
		require.NoError(t, err)
	}
	body, err := json.Marshal(map[string]any{
		"model": e.Agent, "previous_response_id": "resp_" + run, "input": outputs,
	})
	require.NoError(t, err)
	return string(body)
}

// kept is how many files have bytes.
func (r *rival) kept() (n int) {
	for _, key := range r.Keys() {
		if strings.HasPrefix(key, "files/") {
			n++
		}
	}
	return n
}

// Of two equal requests at the same moment one continues the run, and the files of the other are removed.
func TestOutputsThatAreSentTwiceLeaveTheirFilesOnce(t *testing.T) {
	blobs := &rival{}
	e := httpapitest.Over(t, blobs)
	request := calling(t, e, 1, 1)
	blobs.first = func() { assert.Equal(t, http.StatusOK, e.Send("POST", "/responses", request).Code) }
	w := e.Send("POST", "/responses", request)
	assert.Equal(t, http.StatusOK, w.Code, w.Body)
	assert.Equal(t, 1, blobs.kept())
}

func TestOutputsHaveNoMoreFilesThanAMessage(t *testing.T) {
	blobs := &rival{}
	e := httpapitest.Over(t, blobs)
	w := e.Send("POST", "/responses", calling(t, e, 5, 10))
	assert.Equal(t, http.StatusBadRequest, w.Code)
	assert.Contains(t, w.Body.String(), "body.input: at most 10 files may be sent")
	assert.Zero(t, blobs.kept())
	w = e.Send("POST", "/responses", calling(t, e, 5, 2))
	assert.Equal(t, http.StatusOK, w.Code, w.Body)
	assert.Equal(t, 10, blobs.kept())
}
