// Package webhook sends the webhooks of runs.
//
// A delivery is an item, created in the commit of the status that it reports, with its final bytes. A sender claims the
// item, posts, and stores the outcome. A receiver that keeps failing is retried with back-off; it cannot affect the
// run.
//
// A run may have a push (record.Push): its webhooks go there. The form of these bodies is not part of this package.
//
// It imports record, view, citation, events, egress, seal, problem, host, trace and the standard-webhooks library.
package webhook

import (
	"bytes"
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"go.opentelemetry.io/otel/attribute"
	oteltrace "go.opentelemetry.io/otel/trace"

	"agentplatform/events"
	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/egress"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/platform/trace"
	"agentplatform/internal/run/view"
	"agentplatform/internal/store/citation"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/seal"
)

// The rules of delivery (docs/specification.md, Webhooks).
const (
	maxCountedAttempts = 8
	firstRetry         = 5 * time.Second
	longestRetry       = 30 * time.Minute
	attemptTimeout     = 10 * time.Second
	claimTime          = 30 * time.Second
	excerptBytes       = 1024
	maxURL             = 2048
	concludeAttempts   = 4
	maxAttempts        = 50                    // kept in the item, redeliveries included
	conflict           = 50 * time.Millisecond // the wait after a conflict with another writer
)

// Post makes the HTTP call. It is an *http.Client, or a substitute in tests and the simulator.
type Post interface {
	Do(r *http.Request) (*http.Response, error)
}

// Sender is the use case. It is safe for concurrent use.
type Sender struct {
	Store  *record.Store
	Host   host.Host
	Client Post
	Log    *slog.Logger
	Secret string // for organizations without their own secret
	Sealer seal.Sealer
	// CitationFilter returns a reader that finds the documents which the sender of a run may not read now.
	CitationFilter func(organization, user, key string) citation.Reader
	// ProcessID is the process id if only one process runs: the claims of other process ids are then void. Else it is
	// empty.
	ProcessID string
	// Form converts a webhook into the form of a run's push, for the API at an address. It also returns the media type.
	// It returns the same bytes each time.
	Form func(form, api string, w events.Webhook) (contentType string, body []byte, err error)
	// OnAttempt is called after every attempt of a delivery. It may be nil.
	OnAttempt func(delivered bool)
}

// CheckURL checks a callback URL before it is stored. It returns a problem of kind Invalid (callback_url). The code is
// invalid_request, callback_url_not_https, or callback_url_forbidden if the policy refuses the URL.
func CheckURL(policy egress.Policy, raw string) error {
	refuse := func(code, why string) error {
		p := problem.InvalidField("callback_url", "%s", why)
		p.Code = code
		return p
	}
	if strings.ContainsFunc(raw, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }) {
		return refuse("invalid_request", "must not have spaces")
	}
	if scheme, _, _ := strings.Cut(raw, ":"); !strings.EqualFold(scheme, "https") {
		return refuse("callback_url_not_https", "must be an https URL")
	}
	u, err := url.Parse(raw)
	switch {
	case err != nil || len(raw) > maxURL:
		return refuse("invalid_request", fmt.Sprintf("must be a URL of at most %d characters", maxURL))
	case u.Hostname() == "":
		return refuse("callback_url_not_https", "must be an https URL with a host")
	case strings.ContainsAny(u.Hostname(), " %"):
		return refuse("invalid_request", "must name a host without spaces")
	case strings.HasSuffix(u.Host, ":") || !validPort(u.Port()):
		return refuse("invalid_request", "must have a port between 1 and 65535, or no port")
	case policy.CheckURL(u) != nil:
		return refuse("callback_url_forbidden", "this address is not allowed")
	}
	return nil
}

func validPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return port == "" || err == nil && n > 0
}

// Handle makes an attempt of the delivery with this id if it is due. It returns the wait until the next call. It
// returns 0 for none: the delivery is not pending, another sender has claimed it, or its run was deleted.
//
// The error is one of the store, or the delivery changed at every attempt to store the outcome. The sweeper returns to
// it when the claim ends. A failed post is an outcome, not an error.
func (s *Sender) Handle(ctx context.Context, id string) (again time.Duration, err error) {
	run, sequence, ok := record.ParseDeliveryID(id)
	if !ok {
		return 0, nil
	}
	e, found, err := s.Store.DeliveryAt(ctx, run, sequence)
	if err != nil || !found {
		return 0, err
	}
	now, began := s.Host.Now(), s.Host.Elapsed()
	h := e.Value
	if h.State != record.DeliveryPending && !h.Redeliver {
		return 0, nil
	}
	if h.NextAttempt.After(now) {
		return h.NextAttempt.Sub(now), nil
	}
	if h.Claimed(now, s.ProcessID) {
		return 0, nil // by another sender; if that is lost, the sweeper returns when its claim ends
	}
	push, err := s.push(ctx, h)
	if err != nil {
		return 0, err
	}
	if push != nil {
		h.PushedTo = cmp.Or(push.URL, h.PushedTo)
	}
	claim := s.Host.NewID()
	h.Claim, h.ProcessID, h.ClaimUntil, h.CheckAt = claim, s.ProcessID, now.Add(claimTime), time.Time{}
	claimed, err := s.save(ctx, e, h, claim)
	if errors.Is(err, record.ErrConflict) {
		// Another sender has claimed it, or the sweeper has moved its due time forward and relies on this call.
		return conflict, nil
	}
	if err != nil {
		return 0, err
	}
	if gone, err := s.isOrphan(ctx, h); err != nil || gone {
		return 0, err // no webhook after deletion; the removal deletes the item
	}
	// Never after the claim's end, by either clock: another sender may deliver then.
	left := host.Trusted(claimTime) - max(s.Host.Elapsed()-began, s.Host.Now().Sub(now))
	if left <= 0 {
		return 0, nil // the sweeper returns when the claim ends
	}
	trying, cancel := s.Host.WithTimeout(ctx, left)
	defer cancel()
	trying, span := spanOf(trying, h)
	defer span.End()
	var o outcome
	if died := host.Catch(func() { o = s.attempt(trying, claimed.Value, push) }); died != nil { // a failed attempt
		s.Log.Error("a webhook's try panicked",
			"run_id", h.RunID, "delivery_id", h.DeliveryID, "panic", died.Value, "stack", string(died.Stack))
		o = outcome{DeliveryAttempt: record.DeliveryAttempt{At: now, Error: "the service failed to send the delivery"}}
	}
	endSpan(span, o)
	return s.conclude(ctx, claimed, o)
}

// spanOf begins the span of an attempt. It has no address, which may contain a secret of the receiver.
func spanOf(ctx context.Context, h record.Delivery) (context.Context, oteltrace.Span) {
	ctx, span := trace.StartOf(ctx, h.RunID, oteltrace.SpanKindClient, "deliver", "webhook")
	if span.IsRecording() {
		span.SetAttributes(attribute.String("http.request.method", http.MethodPost),
			trace.RunID.String(h.RunID), trace.OrganizationID.String(h.Organization),
			attribute.String("agentplatform.delivery.id", h.DeliveryID),
			attribute.String("agentplatform.run.status", h.Status),
			attribute.Int("agentplatform.delivery.try", h.CountedAttempts+1))
	}
	return ctx, span
}

func endSpan(span oteltrace.Span, o outcome) {
	switch {
	case o.Status == 0:
		trace.Fail(span, "not_sent")
	case !o.delivered():
		trace.Fail(span, strconv.Itoa(o.Status))
	}
	if o.Status != 0 {
		span.SetAttributes(attribute.Int("http.response.status_code", o.Status))
	}
	span.End()
}

// push reads the push of a delivery, or nil if the delivery is for a callback URL. The push is empty if the client has
// deleted it.
func (s *Sender) push(ctx context.Context, h record.Delivery) (*record.Push, error) {
	if h.CallbackURL != "" {
		return nil, nil //nolint:nilnil // there is none
	}
	e, _, err := s.Store.Push(ctx, h.RunID)
	return &e.Value, err
}

// isOrphan reports whether the run of a delivery has been deleted.
func (s *Sender) isOrphan(ctx context.Context, h record.Delivery) (bool, error) {
	_, err := s.Store.LiveRun(ctx, record.System(), h.RunID)
	if problem.Is(err, "not_found") {
		return true, nil
	}
	return false, err
}

func (s *Sender) save(
	ctx context.Context, e record.DeliveryEntity, h record.Delivery, writeID string,
) (record.DeliveryEntity, error) {
	e.Value = h
	tx := s.Store.Begin(writeID)
	return tx.PutDelivery(e), tx.Commit(ctx)
}

// outcome is the result of an attempt.
type outcome struct {
	record.DeliveryAttempt

	retryAfter time.Duration // requested by the receiver; 0 or less: no request
	final      bool          // further attempts would not help
}

func (o outcome) delivered() bool { return o.Status >= 200 && o.Status < 300 }

// conclude stores the outcome of the attempt of a claimed delivery. A redelivery that was requested during the attempt
// is kept, and so is the outcome.
func (s *Sender) conclude(
	ctx context.Context, claimed record.DeliveryEntity, o outcome,
) (again time.Duration, err error) {
	ctx = context.WithoutCancel(ctx)
	if s.OnAttempt != nil {
		s.OnAttempt(o.delivered())
	}
	e := claimed
	for range concludeAttempts {
		h := s.after(e.Value, o)
		requested := e.Value.Redeliver && e.Value.NextAttempt.After(claimed.Value.NextAttempt)
		if requested { // for a redelivery, since the claim
			h.Redeliver, h.NextAttempt = true, e.Value.NextAttempt
		}
		_, err := s.save(ctx, e, h, s.Host.NewID())
		if err == nil {
			message := "webhook attempt failed"
			if o.delivered() {
				message = "webhook delivered"
			}
			s.Log.Info(message, "run_id", h.RunID, "delivery_id", h.DeliveryID, "status", o.Status,
				"state", h.State, "tries", h.CountedAttempts)
			if h.NextAttempt.IsZero() {
				return 0, nil
			}
			return max(time.Millisecond, h.NextAttempt.Sub(s.Host.Now())), nil
		}
		if !errors.Is(err, record.ErrConflict) {
			return 0, err
		}
		fresh, found, err := s.Store.DeliveryAt(ctx, e.Value.RunID, e.Value.Sequence)
		if err != nil || !found || fresh.Value.Claim != claimed.Value.Claim {
			return 0, err // deleted, or claimed by another sender by now
		}
		e = fresh
	}
	return 0, errors.New("webhook: the delivery kept changing")
}

// after returns a claimed delivery with the result of an attempt.
func (s *Sender) after(h record.Delivery, o outcome) record.Delivery {
	h.Attempts = append(h.Attempts, o.DeliveryAttempt)
	h.Attempts = h.Attempts[max(0, len(h.Attempts)-maxAttempts):]
	redelivery := h.Redeliver && h.State != record.DeliveryPending
	h.Claim, h.ProcessID, h.ClaimUntil, h.Redeliver, h.NextAttempt = "", "", time.Time{}, false, time.Time{}
	h.CountedAttempts++
	switch {
	case o.delivered():
		h.State = record.DeliveryDelivered
	case redelivery: // one attempt, which was made
	case o.final || h.CountedAttempts >= maxCountedAttempts:
		h.State = record.DeliveryFailed
	default:
		h.NextAttempt = s.Host.Now().Add(s.backOff(h.CountedAttempts, o.retryAfter))
	}
	return h
}

// backOff is the wait before the next attempt: doubling, capped, with full jitter. Retry-After, within the cap, has
// precedence.
func (s *Sender) backOff(attempts int, retryAfter time.Duration) time.Duration {
	if retryAfter > 0 {
		return min(retryAfter, longestRetry)
	}
	return time.Second/10 + host.Jitter(s.Host, min(firstRetry<<(attempts-1), longestRetry))
}

// attempt posts once. push is that of the run, or nil for a webhook in our own form.
func (s *Sender) attempt(ctx context.Context, h record.Delivery, push *record.Push) (o outcome) {
	began := s.Host.Elapsed()
	o.At = s.Host.Now()
	defer func() { o.LatencyMS = (s.Host.Elapsed() - began).Milliseconds() }()
	if push != nil && push.URL == "" {
		o.Error, o.final = "the push notification configuration was deleted", true
		return o
	}
	body, err := s.body(ctx, h)
	if err != nil {
		o.Error = "the body could not be read"
		return o
	}
	header := http.Header{"Content-Type": {"application/json"}}
	var known record.PushSecrets
	if push != nil {
		h.CallbackURL = push.URL
		if body, err = s.inForm(*push, body, header); err != nil {
			o.Error = "the body could not be encoded"
			return o
		}
		if known, err = s.identify(ctx, h.Organization, *push, header); err != nil {
			o.Error = "the secrets of the push notification configuration could not be read"
			return o
		}
	}
	secrets, err := s.secrets(ctx, h.Organization)
	if err != nil {
		o.Error = "the secret could not be read"
		return o
	}
	ctx, cancel := s.Host.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	response, err := s.post(ctx, h, header, body, secrets)
	if err != nil {
		failure, _ := egress.Plain(err)
		o.Error, o.final = failure.Error(), errors.Is(err, egress.ErrForbidden)
		return o
	}
	defer func() { _ = response.Body.Close() }()
	excerpt, _ := io.ReadAll(io.LimitReader(response.Body, excerptBytes))
	o.Status, o.ResponseExcerpt = response.StatusCode, without(excerpt, known.Token, known.Credentials)
	// 410 ends this delivery only: later ones have the same address.
	o.final = response.StatusCode < 500 && response.StatusCode != http.StatusTooManyRequests
	o.retryAfter = egress.RetryAfter(response.Header.Get("Retry-After"), s.Host.Now())
	return o
}

// without returns the excerpt of an answer without the secrets in it, also without the start of one at the excerpt's
// end. The longest secret is replaced first: it may contain others.
func without(excerpt []byte, secrets ...string) string {
	slices.SortFunc(secrets, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	for _, secret := range secrets {
		if secret != "" {
			excerpt = bytes.ReplaceAll(excerpt, []byte(secret), []byte("[secret]"))
		}
		for n := min(len(secret), len(excerpt)); n > 0; n-- {
			if bytes.HasSuffix(excerpt, []byte(secret[:n])) {
				excerpt = excerpt[:len(excerpt)-n]
				break
			}
		}
	}
	return strings.ToValidUTF8(string(excerpt[:min(len(excerpt), excerptBytes)]), "\uFFFD")
}

// tokenHeader is the header with the token of a push. The receiver recognizes the service by it.
const tokenHeader = "X-A2a-Notification-Token"

// identify sets the headers by which the receiver of a push recognizes the service, and returns the secrets in them.
func (s *Sender) identify(
	ctx context.Context, organization string, push record.Push, header http.Header,
) (record.PushSecrets, error) {
	secrets := record.PushSecrets{Token: push.Token}
	if push.Secrets != "" {
		plain, err := s.Sealer.Open(ctx, record.PushSealedFor(organization), push.Secrets)
		if err != nil {
			return secrets, err
		}
		if err := json.Unmarshal([]byte(plain), &secrets); err != nil {
			return secrets, err
		}
		if secrets.URL != push.URL {
			return secrets, errors.New("webhook: the secrets are for another address")
		}
	}
	if secrets.Token != "" {
		header.Set(tokenHeader, secrets.Token)
	}
	if secrets.Credentials != "" {
		header.Set("Authorization", secrets.Scheme+" "+secrets.Credentials)
	}
	return secrets, nil
}

// inForm converts a body into the form of a push, and sets its content type.
func (s *Sender) inForm(push record.Push, body []byte, header http.Header) ([]byte, error) {
	var event events.Webhook
	if err := json.Unmarshal(body, &event); err != nil {
		return nil, err
	}
	if s.Form == nil {
		return nil, errors.New("webhook: this sender knows no forms")
	}
	contentType, formed, err := s.Form(push.Form, push.API, event)
	header.Set("Content-Type", contentType)
	return formed, err
}

func (s *Sender) post(
	ctx context.Context, h record.Delivery, header http.Header, body []byte, secrets []string,
) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, h.CallbackURL, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header = header
	request.Header.Set("User-Agent", "agent-platform/1")
	if err := sign(request.Header, h.DeliveryID, s.Host.Now(), body, secrets); err != nil {
		return nil, err
	}
	return s.Client.Do(request)
}

// body returns the body of a delivery. A result quotes only the documents that the run's sender may read now.
func (s *Sender) body(ctx context.Context, h record.Delivery) ([]byte, error) {
	stored, err := s.Store.DeliveryBody(ctx, h)
	if err != nil || !view.Quotes(stored) {
		return stored, err
	}
	run, err := s.Store.Run(ctx, record.System(), h.RunID)
	if err != nil {
		return nil, err
	}
	var event events.Webhook
	if err := json.Unmarshal(stored, &event); err != nil {
		return nil, err
	}
	r := run.Value
	event.Result, err = view.Rendered(ctx, event.Result, s.CitationFilter(r.Organization, r.User, r.APIKey))
	if err != nil {
		return nil, err
	}
	return json.Marshal(event)
}

// secrets returns the secrets with which an organization signs: its own secret, or else the deployment's, which may be
// empty. During overlaps of rotations the earlier ones follow, the newest first.
func (s *Sender) secrets(ctx context.Context, organization string) ([]string, error) {
	list := []string{s.Secret}
	if organization == record.NoOrganization {
		return list, nil
	}
	e, err := record.Resource[catalog.Organization](ctx, s.Store, record.System(), organization)
	if err != nil {
		return nil, err
	}
	o := e.Value
	if o.Secret != "" {
		if list[0], err = s.Sealer.Open(ctx, o.ID, o.Secret); err != nil {
			return nil, err
		}
	}
	for _, e := range append([]catalog.Earlier{{Value: o.PreviousSecret, Until: o.PreviousUntil}},
		o.EarlierSecrets...) {
		if e.Value == "" || !s.Host.Now().Before(e.Until) {
			continue
		}
		earlier, err := s.Sealer.Open(ctx, o.ID, e.Value)
		if err != nil {
			return nil, err
		}
		list = append(list, earlier)
	}
	return list, nil
}

// sign sets the header X-Agent-Signature and the three headers of Standard Webhooks. X-Agent-Signature has one value:
// during a rotation that of the oldest secret. The signature of Standard Webhooks has all values. Without a secret sign
// signs nothing.
func sign(header http.Header, id string, at time.Time, body []byte, secrets []string) error {
	header.Set("Webhook-Id", id)
	header.Set("Webhook-Timestamp", strconv.FormatInt(at.Unix(), 10))
	if secrets[0] == "" {
		return nil
	}
	signatures := make([]string, 0, len(secrets))
	for _, secret := range secrets {
		signer, err := standardwebhooks.NewWebhookRaw(trioKey(secret))
		if err != nil {
			return err
		}
		signature, err := signer.Sign(id, at, body)
		if err != nil {
			return err
		}
		signatures = append(signatures, signature)
	}
	header.Set("Webhook-Signature", strings.Join(signatures, " "))
	header.Set("X-Agent-Signature", Signature(secrets[len(secrets)-1], body))
	return nil
}

// Signature is the value of X-Agent-Signature: sha256=<hex HMAC-SHA256 of the raw body>. The key is the secret as it is
// written.
func Signature(secret string, body []byte) string {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	return "sha256=" + hex.EncodeToString(mac.Sum(nil))
}

// trioKey is the key for Standard Webhooks: the decoded bytes of a whsec_ secret, or the bytes of any other secret.
func trioKey(secret string) []byte {
	if encoded, ok := strings.CutPrefix(secret, "whsec_"); ok {
		if key, err := base64.StdEncoding.DecodeString(encoded); err == nil {
			return key
		}
	}
	return []byte(secret)
}

// Redeliver requests another attempt of a delivery with the same id and the same bytes. force allows deliveries that
// have not failed. The same commit writes the user of the request to the audit log. It returns a problem of kind
// NotFound or Forbidden, or of kind Unavailable if the delivery kept changing. If the delivery has not failed and force
// is not set, it returns one of kind Conflict with the delivery's state.
func (s *Sender) Redeliver(ctx context.Context, scope record.Scope, id string, force bool) (record.Delivery, error) {
	for range 8 {
		e, err := s.Store.Delivery(ctx, scope, id)
		if err != nil {
			return record.Delivery{}, err
		}
		h := e.Value
		if h.State != record.DeliveryFailed && !force {
			return h, problem.New(problem.Conflict, "conflict",
				"the delivery is %s; only failed deliveries are sent again, unless force is true", h.State).
				With("state", h.State)
		}
		h.Redeliver, h.NextAttempt = true, s.Host.Now()
		e.Value = h
		tx := s.Store.Begin(s.Host.NewID())
		after := tx.PutDelivery(e)
		tx.AuditDeed(ctx, h.Organization, "delivery", h.DeliveryID)
		if err := tx.Commit(ctx); !errors.Is(err, record.ErrConflict) {
			return after.Value, err
		}
	}
	return record.Delivery{}, problem.Retry(errors.New("the delivery kept changing"))
}

// Prober posts test events. [Sender] does so itself; a program that may not open secrets uses another one (package
// broker).
type Prober interface {
	Probe(ctx context.Context, organization, callback string) (record.DeliveryAttempt, error)
}

// Probe posts a test event to an address immediately and returns the outcome, also of a post that failed. Nothing is
// stored. The error is that of encoding the event.
func (s *Sender) Probe(ctx context.Context, organization, callback string) (record.DeliveryAttempt, error) {
	id := s.Host.NewID()
	body, err := json.Marshal(events.Webhook{
		Version: 1, Event: events.WebhookTest, DeliveryID: id, Interrupts: json.RawMessage("[]"),
		Result: json.RawMessage("null"), Metadata: map[string]string{}, OccurredAt: events.Time(s.Host.Now()),
	})
	if err != nil {
		return record.DeliveryAttempt{}, err
	}
	return s.attempt(ctx, record.Delivery{
		DeliveryID: id, Organization: organization, CallbackURL: callback, Body: string(body),
	}, nil).DeliveryAttempt, nil
}
