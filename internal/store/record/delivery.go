package record

import (
	"cmp"
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/table"
)

// Delivery is a webhook delivery: one for each status that a run entered and its client subscribed to. Its body is
// final.
type Delivery struct {
	DeliveryID   string `json:"delivery_id"`
	Organization string `json:"organization_id"`
	User         string `json:"user_id,omitzero"`  // the run's; empty: of an earlier version
	Owner        string `json:"owner_id,omitzero"` // of the run's chat; empty: not known
	RunID        string `json:"run_id"`
	Sequence     int    `json:"sequence"`
	Event        string `json:"event"`
	Status       string `json:"status_of_run"`
	// CallbackURL is empty if the run has a [Push]: the push then has the address when the delivery is sent. So a
	// sender that knows no pushes sends nothing, and one that does comes later.
	CallbackURL string `json:"callback_url"`
	PushedTo    string `json:"pushed_to,omitzero"` // the push's address, when it was last read

	Body     string `json:"body,omitzero"` // as text, so that no store changes its bytes; empty: in the blob store
	BodyBlob string `json:"body_blob,omitzero"`

	State           DeliveryState     `json:"state"`
	Attempts        []DeliveryAttempt `json:"attempts,omitzero"`
	Redeliver       bool              `json:"redeliver,omitzero"` // a client asked for one more try
	Claim           string            `json:"claim,omitzero"`     // the write id of the sender's claim
	ProcessID       string            `json:"boot,omitzero"`      // the sender's process id
	ClaimUntil      time.Time         `json:"claim_until,omitzero"`
	NextAttempt     time.Time         `json:"next_attempt_at,omitzero"`
	CheckAt         time.Time         `json:"look_at,omitzero"` // a wake-up message is under way; the sweeper comes then
	CountedAttempts int               `json:"tries,omitzero"`   // counted against the maximum
}

// Address is the target of the delivery.
func (h Delivery) Address() string { return cmp.Or(h.CallbackURL, h.PushedTo) }

// EndedBefore reports whether the last attempt of the delivery was before a time, and no attempt will follow.
func (h Delivery) EndedBefore(at time.Time) bool {
	return h.State != DeliveryPending && !h.Redeliver && len(h.Attempts) > 0 &&
		h.Attempts[len(h.Attempts)-1].At.Before(at)
}

// DeliveryState is the state of a delivery.
type DeliveryState string

// The states of a delivery.
const (
	DeliveryPending   DeliveryState = "pending"
	DeliveryDelivered DeliveryState = "delivered"
	DeliveryFailed    DeliveryState = "failed"
)

// DeliveryAttempt is one attempt of a delivery.
type DeliveryAttempt struct {
	At              time.Time `json:"at"`
	Status          int       `json:"status,omitzero"`
	LatencyMS       int64     `json:"latency_ms"`
	Error           string    `json:"error,omitzero"`
	ResponseExcerpt string    `json:"response_excerpt,omitzero"`
}

// DeliveryEntity is a delivery with the data that a write needs.
type DeliveryEntity = Entity[Delivery]

// DeliveryKey is the key of a delivery.
func DeliveryKey(run string, sequence int) table.Key {
	return table.Key{Part: "hook/" + run, Sort: padded(6, int64(sequence))}
}

// spread is the distance between the ids of a run's deliveries.
const spread = 0x9e3779b97f4b

// DeliveryID is the id of a run's delivery. It is derived, so it is the same however often the commit is repeated.
func DeliveryID(run string, sequence int) string { return shifted(run, uint64(sequence)*spread) }

// shifted adds to the random part of an identifier.
func shifted(id string, by uint64) string {
	tail, _ := strconv.ParseUint(id[12:], 16, 64)
	return id[:12] + fmt.Sprintf("%012x", (tail+by)&0xffffffffffff)
}

// WakeupID is the id of a wakeup for the delivery: <run id>/<sequence>.
func (h Delivery) WakeupID() string { return h.RunID + "/" + strconv.Itoa(h.Sequence) }

// Claimed reports whether a sender has claimed the delivery. Where only one process runs, processID is its id, and
// claims of others are void; else processID is empty.
func (h Delivery) Claimed(now time.Time, processID string) bool {
	return h.Claim != "" && h.ClaimUntil.After(now) && (processID == "" || h.ProcessID == processID)
}

// NewDelivery writes a new delivery; the body goes to the blob store when it is over 8 KiB.
func (tx *Tx) NewDelivery(ctx context.Context, h Delivery) {
	if len(h.Body) > inlineLimit && tx.err == nil {
		h.BodyBlob = fmt.Sprintf("%s%d/%s", documentBlobs("hook/"+h.RunID), h.Sequence, tx.writeID)
		tx.putBlob(ctx, h.Organization, h.BodyBlob, []byte(h.Body))
		h.Body = ""
	}
	tx.PutDelivery(Fresh(h))
}

// PutDelivery writes a delivery and returns it as it is after the commit.
func (tx *Tx) PutDelivery(e DeliveryEntity) DeliveryEntity {
	h := e.Value
	item := table.Item{
		Key: DeliveryKey(h.RunID, h.Sequence), Owner: h.Organization,
		Lists: []table.Listing{{Index: table.ByOwner, Part: "hooks/" + h.Organization, Sort: h.DeliveryID}},
	}
	if h.Owner != "" {
		item.Lists = append(item.Lists,
			table.Listing{Index: table.ByChat, Part: deliveriesOfUser(h.Organization, h.Owner), Sort: h.DeliveryID})
	}
	if h.State == DeliveryPending || h.Redeliver {
		for _, at := range []time.Time{h.NextAttempt, h.ClaimUntil, h.CheckAt} {
			if at.After(item.Due) {
				item.Due = at
			}
		}
	}
	return put(tx, e, item)
}

// DeliveryAt reads a delivery; the second result is false when there is none.
func (s *Store) DeliveryAt(ctx context.Context, run string, sequence int) (DeliveryEntity, bool, error) {
	return find[Delivery](ctx, s, DeliveryKey(run, sequence))
}

// DeliveryBody reads the bytes of a delivery. The errors are those of the blob store.
func (s *Store) DeliveryBody(ctx context.Context, h Delivery) ([]byte, error) {
	if h.BodyBlob == "" {
		return []byte(h.Body), nil
	}
	return s.getBlob(ctx, h.BodyBlob)
}

// Deliveries lists an organization's deliveries, newest first. after is Page.Next of the page before.
func (s *Store) Deliveries(ctx context.Context, scope Scope, after string, limit int) (Page[DeliveryEntity], error) {
	return listed[Delivery](ctx, s, scope, "hooks/"+scope.organization, after, limit)
}

// OldDeliveries lists an organization's deliveries, oldest first, for retention.
func (s *Store) OldDeliveries(ctx context.Context, owner, after string, limit int) (Page[DeliveryEntity], error) {
	return listedIn[Delivery](ctx, s, System(), table.ByOwner,
		table.Range{Part: "hooks/" + owner, After: after, Limit: limit})
}

// DeleteDelivery deletes a delivery on condition that it is as it was read, and adds the job that deletes its body.
func (tx *Tx) DeleteDelivery(e DeliveryEntity) {
	h := e.Value
	tx.delete(DeliveryKey(h.RunID, h.Sequence), table.VersionIs(e.version))
	if h.BodyBlob != "" {
		tx.PutJob(Fresh(Job{ID: DerivedID("blob", h.BodyBlob), Organization: h.Organization, Kind: RemoveBlob,
			Subject: h.BodyBlob, Due: tx.store.host.Now()}))
	}
}

// DeliveriesOfRun reads a run's deliveries, newest first, at most 1000.
func (s *Store) DeliveriesOfRun(ctx context.Context, scope Scope, run string) ([]DeliveryEntity, error) {
	items, err := s.query(ctx, table.Range{Part: "hook/" + run, Limit: 1000, Reverse: true})
	if err != nil {
		return nil, err
	}
	return seen[Delivery](scope, items)
}

// Delivery finds a delivery by its id. It returns a problem of kind NotFound or Forbidden.
func (s *Store) Delivery(ctx context.Context, scope Scope, id string) (DeliveryEntity, error) {
	entries, err := s.list(ctx, table.ByOwner, table.Range{Part: "hooks/" + scope.organization, Prefix: id, Limit: 1})
	if err != nil {
		return DeliveryEntity{}, err
	}
	if len(entries) == 0 {
		return DeliveryEntity{}, s.notListed(ctx, scope, id)
	}
	return load[Delivery](ctx, s, scope, "delivery "+id, entries[0].Key)
}

// notListed returns the error for a delivery that the scope does not list. It belongs to another organization
// (Forbidden) or does not exist (NotFound). Its key follows from its id and its sequence number; the first numbers are
// tried.
func (s *Store) notListed(ctx context.Context, scope Scope, id string) error {
	keys := make([]table.Key, 0, table.MaxGetKeys)
	for sequence := range table.MaxGetKeys {
		keys = append(keys, DeliveryKey(shifted(id, -uint64(sequence)*spread), sequence))
	}
	items, err := s.read(ctx, keys...)
	if err != nil {
		return err
	}
	for _, item := range items {
		if item != nil && !scope.Includes(item.Owner) {
			return problem.Outside("delivery " + id)
		}
	}
	return problem.Missing("delivery " + id)
}

// EraseDeliveries deletes the deliveries of an owner's run. The errors are those of the blob store and of [Tx.Commit].
func (s *Store) EraseDeliveries(ctx context.Context, owner, run string) error {
	if err := s.dropBlobs(ctx, owner, documentBlobs("hook/"+run)); err != nil {
		return err
	}
	return s.erase(ctx, table.Range{Part: "hook/" + run})
}

// ParseDeliveryID splits the id of a wakeup for a delivery into run and sequence number; ok is false if it is
// malformed.
func ParseDeliveryID(id string) (run string, sequence int, ok bool) {
	run, n, ok := strings.Cut(id, "/")
	if !ok {
		return "", 0, false
	}
	sequence, err := strconv.Atoi(n)
	return run, sequence, err == nil
}
