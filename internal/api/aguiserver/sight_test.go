package aguiserver

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/org/catalog"
	"agentplatform/internal/org/tenant"
)

// A colleague may see a thread for another agent's part in it. An answer to a run of the part out of sight is refused
// like an answer to a run that does not exist.
func TestAnAnswerToARunOutOfSightIsRefusedAsToNone(t *testing.T) {
	w := newWorld(t)
	spec := w.Intake.Tenants.DefaultSpec(w.who.Organization)
	spec.Name, spec.ChatVisibility = "Private", catalog.SeesOwn
	private, err := w.Intake.Tenants.CreateAgent(t.Context(), w.who.Organization, spec, true)
	require.NoError(t, err)
	shared := w.agent
	w.agent = private.Value.ID
	hidden := w.runs("r1", hello)[0]
	w.complete(hidden)
	w.agent = shared
	w.complete(w.runs("r2", hello)[0])

	w.agent, w.who.User, w.who.Level = private.Value.ID, "colleague", tenant.LevelRun
	require.True(t, w.who.Shared)
	var refusals []string
	for _, run := range []string{hidden, approval} {
		_, err = w.ask("r3", hello, AGUIResume{
			InterruptID: nameOf("int_", run, question), Status: "resolved", Payload: json.RawMessage(`"Oslo"`),
		})
		wrong(t, err, "body.resume[0].interruptId")
		refusals = append(refusals, err.Error())
	}
	assert.Equal(t, refusals[0], refusals[1])
}
