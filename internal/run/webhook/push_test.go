package webhook_test

import (
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/events"
	"agentplatform/internal/store/record"
)

// webhookJSON is a webhook that is converted to a form.
const webhookJSON = `{"run_id":"r","status":"completed","interrupts":[],"result":null}`

// pushed makes a delivery of a run with a push due.
func (s *stage) pushed(t *testing.T, h record.Delivery, p record.Push) {
	t.Helper()
	h.Organization, h.Body = record.NoOrganization, webhookJSON
	s.due(t, h)
	s.push(t, func(e *record.PushEntity) { e.Value = p })
	s.sender.Form = func(form, api string, w events.Webhook) (string, []byte, error) {
		if form != "shouted" {
			return "", nil, errors.New("no such form")
		}
		return "text/loud", []byte(api + " " + strings.ToUpper(w.Status)), nil
	}
}

// push writes the push of the delivery's run as its client would.
func (s *stage) push(t *testing.T, change func(e *record.PushEntity)) {
	t.Helper()
	e, _, err := s.store.Push(t.Context(), s.hook.RunID)
	require.NoError(t, err)
	change(&e)
	tx := s.store.Begin(s.clock.NewID())
	tx.PutPush(s.hook.Organization, s.hook.RunID, e)
	require.NoError(t, tx.Commit(t.Context()))
}

func (s *stage) unpush(t *testing.T) {
	t.Helper()
	e, found, err := s.store.Push(t.Context(), s.hook.RunID)
	require.NoError(t, err)
	require.True(t, found)
	tx := s.store.Begin(s.clock.NewID())
	tx.DeletePush(s.hook.RunID, e)
	require.NoError(t, tx.Commit(t.Context()))
}

// loud is a push in the form of the tests.
var loud = record.Push{URL: "https://example.com/loud", Form: "shouted", API: "api",
	Secrets: record.NoOrganization + "/push:" +
		`{"url":"https://example.com/loud","token":"t0ken","scheme":"Basic","credentials":"dTpw"}`}

// Every attempt posts the same bytes, signed, with the token. No stored part of the delivery has the token.
func TestAPushIsPostedInItsFormWithItsTokenAndOurSignature(t *testing.T) {
	for name, h := range map[string]record.Delivery{
		"written with the run's push":       {PushedTo: loud.URL},
		"written by a version without them": {},
	} {
		s := newStage(t)
		s.pushed(t, h, loud)
		s.answer = "t0ken dTpw" + strings.Repeat("x", 1010) + "t0ken and more"
		for _, status := range []int{500, 200} {
			s.status = status
			s.clock.now = s.clock.now.Add(time.Hour)
			s.handle(t)
			assert.Equal(t, []string{http.MethodPost, loud.URL, "api COMPLETED"},
				[]string{s.request.Method, s.request.URL.String(), s.body}, name)
			assert.Equal(t, "text/loud", s.request.Header.Get("Content-Type"), name)
			assert.Equal(t, "t0ken", s.request.Header.Get("X-A2A-Notification-Token"), name)
			assert.Equal(t, "Basic dTpw", s.request.Header.Get("Authorization"), name)
			assert.Equal(t, "agent-platform/1", s.request.Header.Get("User-Agent"), name)
			assert.Equal(t, s.hook.DeliveryID, s.request.Header.Get("Webhook-Id"), name)
			assert.NotEmpty(t, s.request.Header.Get("Webhook-Signature"), name)
			assert.NotEmpty(t, s.request.Header.Get("X-Agent-Signature"), name)
		}
		kept := s.now(t)
		assert.Equal(t, record.DeliveryDelivered, kept.State, name)
		assert.Equal(t, loud.URL, kept.Address(), name)
		assert.Empty(t, kept.CallbackURL, "%s: a sender that knows no pushes sends it nowhere", name)
		b, err := json.Marshal(kept)
		require.NoError(t, err)
		assert.NotContains(t, string(b), "t0ken", name)
		assert.Equal(t, "[secret] [secret]"+strings.Repeat("x", 1007), kept.Attempts[0].ResponseExcerpt, name)
	}
}

// A secret may be a part of another one.
func TestAnExcerptShowsNoPieceOfASecret(t *testing.T) {
	s := newStage(t)
	p := loud
	p.Secrets = record.NoOrganization + "/push:" +
		`{"url":"https://example.com/loud","token":"abc","scheme":"Bearer","credentials":"beginabcend"}`
	s.pushed(t, record.Delivery{PushedTo: loud.URL}, p)
	s.answer = "beginabcend abc beginabc"
	s.status = http.StatusOK
	s.handle(t)
	assert.Equal(t, "[secret] [secret] ", s.now(t).Attempts[0].ResponseExcerpt)
}

func TestAWebhookOfOursHasNoToken(t *testing.T) {
	s := newStage(t)
	s.pushed(t, record.Delivery{CallbackURL: "https://example.com/ours"}, loud)
	s.handle(t)
	assert.Equal(t, []string{"https://example.com/ours", webhookJSON}, []string{s.request.URL.String(), s.body})
	assert.Equal(t, "application/json", s.request.Header.Get("Content-Type"))
	assert.Empty(t, s.request.Header.Get("X-A2A-Notification-Token"))
}

// The replaced push applies to webhooks that have not been sent yet.
func TestAPushThatWasReplacedIsSentToTheNewAddress(t *testing.T) {
	s := newStage(t)
	s.pushed(t, record.Delivery{PushedTo: loud.URL}, loud)
	s.status = http.StatusInternalServerError
	s.handle(t)
	s.push(t, func(e *record.PushEntity) { e.Value.URL, e.Value.Secrets = "https://example.com/new", "" })
	s.status = http.StatusOK
	s.clock.now = s.clock.now.Add(time.Hour)
	s.handle(t)
	assert.Equal(t, "https://example.com/new", s.request.URL.String())
	assert.Empty(t, s.request.Header.Get("X-A2A-Notification-Token"))
	assert.Equal(t, "https://example.com/new", s.now(t).Address())
}

func TestAPushThatWasDeletedIsNotSent(t *testing.T) {
	for name, h := range map[string]record.Delivery{
		"written with the run's push":       {PushedTo: loud.URL},
		"written by a version without them": {},
	} {
		s := newStage(t)
		s.pushed(t, h, loud)
		s.unpush(t)
		assert.Zero(t, s.handle(t), name)
		assert.Zero(t, s.posts, name)
		assert.Equal(t, record.DeliveryFailed, s.now(t).State, name)
		assert.Equal(t, "the push notification configuration was deleted", s.now(t).Attempts[0].Error, name)
	}
}

// Earlier versions stored pushes with their tokens in plain text.
func TestAPushOfAnEarlierVersionIsSentWithItsToken(t *testing.T) {
	s := newStage(t)
	p := loud
	p.Secrets, p.Token = "", "old"
	s.pushed(t, record.Delivery{PushedTo: loud.URL}, p)
	s.handle(t)
	assert.Equal(t, "old", s.request.Header.Get("X-A2A-Notification-Token"))
}

func TestAPushWhoseSecretsDoNotOpenIsTriedAgain(t *testing.T) {
	s := newStage(t)
	p := loud
	p.Secrets = "another/push:{}"
	s.pushed(t, record.Delivery{PushedTo: loud.URL}, p)
	assert.Positive(t, s.handle(t))
	assert.Zero(t, s.posts)
	assert.Equal(t, "the secrets of the push notification configuration could not be read", s.now(t).Attempts[0].Error)
}

// A user who can write to the store can write another address next to the secrets, but not into them.
func TestSecretsAreNotSentToAnAddressThatTheyAreNotFor(t *testing.T) {
	s := newStage(t)
	p := loud
	p.URL = "https://elsewhere.example.com/"
	s.pushed(t, record.Delivery{PushedTo: loud.URL}, p)
	assert.Positive(t, s.handle(t))
	assert.Zero(t, s.posts)
	assert.Equal(t, "the secrets of the push notification configuration could not be read", s.now(t).Attempts[0].Error)
}

// A sender of another version may know the form.
func TestAPushInAnUnknownFormIsTriedAgain(t *testing.T) {
	s := newStage(t)
	p := loud
	p.Form = "sung"
	s.pushed(t, record.Delivery{PushedTo: loud.URL}, p)
	assert.Positive(t, s.handle(t))
	s.sender.Form = nil
	s.clock.now = s.clock.now.Add(time.Hour)
	assert.Positive(t, s.handle(t))
	assert.Zero(t, s.posts)
	assert.Equal(t, "the body could not be encoded", s.now(t).Attempts[1].Error)
	assert.Equal(t, record.DeliveryPending, s.now(t).State)
}

func TestAPushThatCannotBeReadIsAnErrorOfTheStore(t *testing.T) {
	s := newStage(t)
	s.pushed(t, record.Delivery{PushedTo: loud.URL}, loud)
	n := 0
	s.fails = func() bool { n++; return n > 1 }
	_, err := s.sender.Handle(t.Context(), s.hook.WakeupID())
	require.Error(t, err)
	s.fails = nil
	assert.Zero(t, s.posts)
	assert.Empty(t, s.now(t).Claim)
}
