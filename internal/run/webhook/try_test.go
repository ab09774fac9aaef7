package webhook_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/events"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/egress"
	"agentplatform/internal/store/record"
)

// Every attempt posts the same bytes under the same id, wherever they are stored, with the time of the attempt. Its
// answer is read and closed, and its context ends.
func TestTryPostsTheSameBytesUnderTheSameID(t *testing.T) {
	for _, size := range []int{1, 10_000} {
		s := newStage(t)
		body := `{"x":"` + strings.Repeat("x", size) + `"}`
		s.due(t, record.Delivery{Organization: record.NoOrganization, CallbackURL: "https://example.com/hook?a=b",
			Body: body})
		for _, status := range []int{500, 200} {
			s.status = status
			posts, closed := s.posts, s.closed
			s.clock.now = s.clock.now.Add(time.Hour)
			s.handle(t)
			require.Equal(t, posts+1, s.posts)
			assert.Equal(t, closed+1, s.closed)
			require.Error(t, s.request.Context().Err())
			assert.Equal(t, []string{http.MethodPost, "https://example.com/hook?a=b", body},
				[]string{s.request.Method, s.request.URL.String(), s.body})
			assert.Equal(t, "application/json", s.request.Header.Get("Content-Type"))
			assert.Equal(t, "agent-platform/1", s.request.Header.Get("User-Agent"))
			assert.Equal(t, s.hook.DeliveryID, s.request.Header.Get("Webhook-Id"))
			assert.Equal(t, strconv.FormatInt(s.clock.now.Unix(), 10), s.request.Header.Get("Webhook-Timestamp"))
		}
	}
}

// An organization signs with its own secret, others with the deployment's. During a rotation X-Agent-Signature still
// uses the previous secret, and Standard Webhooks has both; otherwise there is one of each.
func TestOwnSecretSignsAndRotationSignsWithBoth(t *testing.T) {
	const whsec = "whsec_MDEyMzQ1Njc4OWFiY2RlZg==" // 0123456789abcdef
	for name, c := range map[string]struct {
		nobody            bool
		secret, previous  string
		overlap           time.Duration
		earlier           map[string]time.Duration
		deployment, plain string
		trio              []string // the keys themselves
	}{
		"none at all":               {},
		"the deployment's":          {deployment: "d", plain: "d", trio: []string{"d"}},
		"nobody's":                  {nobody: true, deployment: "d", plain: "d", trio: []string{"d"}},
		"its own":                   {secret: "own", deployment: "d", plain: "own", trio: []string{"own"}},
		"as the standard writes it": {secret: whsec, plain: whsec, trio: []string{"0123456789abcdef"}},
		"as nobody can read it":     {secret: "whsec_?", plain: "whsec_?", trio: []string{"whsec_?"}},
		"during a rotation": {
			secret: whsec, previous: "old", overlap: time.Second, plain: "old",
			trio: []string{"0123456789abcdef", "old"},
		},
		"during two": {
			secret: whsec, previous: "old", overlap: time.Second, earlier: map[string]time.Duration{"older": time.Hour},
			plain: "older", trio: []string{"0123456789abcdef", "old", "older"},
		},
		"when the earlier has ended": {
			secret: whsec, previous: "old", overlap: time.Second, earlier: map[string]time.Duration{"older": 0},
			plain: "old", trio: []string{"0123456789abcdef", "old"},
		},
		"when that ends": {secret: "new", previous: "old", plain: "new", trio: []string{"new"}},
		"a first secret": {
			secret: "new", overlap: time.Second, deployment: "d", plain: "new", trio: []string{"new"},
		},
	} {
		s := newStage(t)
		s.sender.Secret = c.deployment
		owner := record.NoOrganization
		if !c.nobody {
			o := catalog.Organization{ID: s.clock.NewID(), PreviousUntil: s.clock.now.Add(c.overlap)}
			owner = o.ID
			if c.secret != "" {
				o.Secret = owner + ":" + c.secret
			}
			if c.previous != "" {
				o.PreviousSecret = owner + ":" + c.previous
			}
			for secret, overlap := range c.earlier {
				o.EarlierSecrets = append(o.EarlierSecrets,
					catalog.Earlier{Value: owner + ":" + secret, Until: s.clock.now.Add(overlap)})
			}
			_, err := record.Create(t.Context(), s.store, o, "made")
			require.NoError(t, err)
		}
		s.due(t, record.Delivery{Organization: owner, CallbackURL: "https://example.com/", Body: "{}"})
		s.handle(t)
		require.Equal(t, 1, s.posts, name)
		header := s.request.Header
		if c.plain == "" {
			assert.Empty(t, header.Values("X-Agent-Signature"), name)
			assert.Empty(t, header.Values("Webhook-Signature"), name)
			continue
		}
		mac := hmac.New(sha256.New, []byte(c.plain))
		mac.Write([]byte("{}"))
		assert.Equal(
			t,
			[]string{"sha256=" + hex.EncodeToString(mac.Sum(nil))},
			header.Values("X-Agent-Signature"),
			name,
		)
		assert.Len(t, strings.Fields(header.Get("Webhook-Signature")), len(c.trio), name)
		for _, key := range c.trio {
			verifier, err := standardwebhooks.NewWebhookRaw([]byte(key))
			require.NoError(t, err)
			assert.NoError(t, verifier.VerifyIgnoringTimestamp([]byte("{}"), header), "%s: %s", name, key)
		}
	}
}

// A post that cannot be signed, or whose bytes cannot be read, is not made. The attempt has failed with a reason, and
// another one follows.
func TestUnsignablePostIsRetried(t *testing.T) {
	for name, c := range map[string]struct {
		secret, previous string
		large            bool
		host             string
		error            string
	}{
		"another's secret":          {secret: "another:s", error: "the secret could not be read"},
		"another's previous secret": {previous: "another:s", error: "the secret could not be read"},
		"a body that is gone":       {large: true, error: "the body could not be read"},
		"an address that is none":   {host: "exa mple.", error: "the request failed"},
	} {
		s := newStage(t)
		o := catalog.Organization{
			ID:             s.clock.NewID(),
			Secret:         c.secret,
			PreviousSecret: c.previous,
			PreviousUntil:  s.clock.now.Add(time.Hour),
		}
		_, err := record.Create(t.Context(), s.store, o, "made")
		require.NoError(t, err)
		h := record.Delivery{Organization: o.ID, CallbackURL: "https://" + c.host + "example.com/", Body: "{}"}
		if c.large {
			h.Body = strings.Repeat("x", 10_000)
		}
		s.due(t, h)
		if c.large {
			require.NoError(t, s.store.DropBodies(t.Context(), s.hook.Organization, s.hook.RunID))
		}
		assert.Positive(t, s.handle(t), name)
		assert.Zero(t, s.posts, name)
		after := s.now(t)
		assert.Equal(t, []record.DeliveryAttempt{{At: s.clock.now, Error: c.error}}, after.Attempts, name)
		assert.Equal(t, record.DeliveryPending, after.State, name)
	}
}

// 2xx ends a delivery. 5xx, 429 and a failed connection are retried. Any other status ends it as failed. Each attempt
// is kept with its time, its latency and the beginning of the answer.
func TestStatusDecidesBetweenRetryAndEnd(t *testing.T) {
	const delivered, failed, pending = record.DeliveryDelivered, record.DeliveryFailed, record.DeliveryPending
	for status, state := range map[int]record.DeliveryState{
		101: failed, 199: failed, 200: delivered, 204: delivered, 299: delivered, 300: failed, 308: failed, 400: failed,
		410: failed,
		428: failed, 429: pending, 430: failed, 499: failed, 500: pending, 501: pending, 503: pending, 599: pending,
	} {
		s := newStage(t)
		began := s.clock.now
		s.status = status
		s.meanwhile = func() {
			h := s.now(t)
			assert.NotEmpty(t, h.Claim)
			assert.Equal(t, []time.Time{s.clock.now.Add(30 * time.Second), {}}, []time.Time{h.ClaimUntil, h.CheckAt})
			s.clock.now, s.clock.elapsed = s.clock.now.Add(time.Second), 1234*time.Millisecond
		}
		again := s.handle(t)
		h := s.now(t)
		assert.Equal(t, state, h.State, status)
		attempt := record.DeliveryAttempt{At: began, Status: status, LatencyMS: 1234, ResponseExcerpt: "thanks"}
		assert.Equal(t, []record.DeliveryAttempt{attempt}, h.Attempts)
		assert.Equal(t, []any{"", time.Time{}, 1}, []any{h.Claim, h.ClaimUntil, h.CountedAttempts})
		assert.Equal(t, state == pending, again > 0)
		assert.Equal(t, state == pending, !h.NextAttempt.IsZero())
		assert.Equal(t, []bool{state == delivered}, s.attempts, status)
	}
	for _, c := range []struct {
		err   error
		state record.DeliveryState
		words string
	}{
		{fmt.Errorf("dial: %w", egress.ErrForbidden), failed, "this address is not allowed"},
		{fmt.Errorf("dial: %w", syscall.ECONNREFUSED), pending, "the connection was refused"},
		{fmt.Errorf("post: %w", context.DeadlineExceeded), pending, "no answer came in time"},
		{errors.New("10.1.2.3 says no"), pending, "the request failed"},
	} {
		s := newStage(t)
		s.err = c.err
		again := s.handle(t)
		h := s.now(t)
		assert.Equal(t, []any{c.state, c.state == pending}, []any{h.State, again > 0}, "%v", c.err)
		assert.Equal(t, []record.DeliveryAttempt{{At: s.clock.now, Error: c.words}}, h.Attempts)
	}
}

// The first kilobyte of an answer is kept, as valid UTF-8.
func TestFirstKilobyteOfAnAnswerIsKept(t *testing.T) {
	for answer, kept := range map[string]string{
		"": "", "Gr\u00fc\u00dfe": "Gr\u00fc\u00dfe", "a\xffb": "a\ufffdb",
		strings.Repeat("x", 1024):            strings.Repeat("x", 1024),
		strings.Repeat("y", 1025):            strings.Repeat("y", 1024),
		strings.Repeat("z", 1023) + "\u00fc": strings.Repeat("z", 1023) + "\ufffd",
	} {
		s := newStage(t)
		s.answer = answer
		s.handle(t)
		assert.Equal(t, kept, s.now(t).Attempts[0].ResponseExcerpt)
	}
}

// An attempt has 10 s, but never more than the rest of the time for which a claim is trusted, by the wall clock and by
// the monotonic clock. If that is over before the post, the post is not made.
func TestTryEndsBeforeItsClaim(t *testing.T) {
	const trusted = 25 * time.Second // of 30, see host.Trusted
	for _, took := range []time.Duration{0, time.Second, trusted - 2, trusted, trusted + 2, time.Hour} {
		for _, pass := range []func(s *stage){
			func(s *stage) { s.clock.now = s.clock.now.Add(took) },
			func(s *stage) { s.clock.elapsed = took },
			func(s *stage) { s.clock.now, s.clock.elapsed = s.clock.now.Add(took/2), took },
		} {
			s := newStage(t)
			s.items.Overtake(func() { pass(s) }) // the claim takes its time
			s.handle(t)
			if took >= trusted {
				assert.Zero(t, s.posts, took)
				assert.Empty(t, s.now(t).Attempts, took)
				assert.NotEmpty(t, s.now(t).Claim, "the sweeper looks when the claim ends")
				continue
			}
			require.Equal(t, 1, s.posts, took)
			assert.Equal(t, []time.Duration{trusted - took, 10 * time.Second}, s.bounds, took)
		}
	}
}

// A probe is an ordinary post of a test event; nothing is stored.
func TestProbePostsATestEventAndStoresNothing(t *testing.T) {
	s := newStage(t)
	s.status, s.answer = http.StatusTeapot, "short and stout"
	before := s.now(t)
	attempt, err := s.sender.Probe(t.Context(), record.NoOrganization, "https://example.com/test")
	require.NoError(t, err)
	want := record.DeliveryAttempt{At: s.clock.now, Status: http.StatusTeapot, ResponseExcerpt: "short and stout"}
	assert.Equal(t, want, attempt)
	assert.Equal(t, "https://example.com/test", s.request.URL.String())
	id := s.request.Header.Get("Webhook-Id")
	assert.NotEmpty(t, id)
	var body events.Webhook
	require.NoError(t, json.Unmarshal([]byte(s.body), &body))
	assert.Equal(t, events.Webhook{
		Version: 1, Event: events.WebhookTest, DeliveryID: id, Interrupts: json.RawMessage("[]"),
		Result: json.RawMessage("null"), Metadata: map[string]string{}, OccurredAt: events.Time(s.clock.now),
	}, body)
	assert.Equal(t, []time.Duration{10 * time.Second}, s.bounds)
	require.Error(t, s.request.Context().Err(), "what was begun for it has ended")
	assert.Equal(t, before, s.now(t))
	s.err = egress.ErrForbidden
	attempt, err = s.sender.Probe(t.Context(), record.NoOrganization, "https://example.com/test")
	require.NoError(t, err)
	assert.Equal(t, "this address is not allowed", attempt.Error)
	attempt, err = s.sender.Probe(t.Context(), record.NoOrganization, "https://exa mple.com/")
	require.NoError(t, err)
	assert.Equal(t, "the request failed", attempt.Error)
}
