package record

import (
	"context"
	"errors"
	"iter"
	"strings"
	"time"

	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/platform/share"
	"agentplatform/internal/store/blob"
	"agentplatform/internal/store/table"
)

// NoOrganization is the owner of data that belongs to no organization. It is a scope of its own.
const NoOrganization = table.NoOwner

// Scope is the set of organizations whose data a read may see. The zero scope sees nothing.
type Scope struct {
	organization string
	all          bool
}

// Of is the scope of one organization, or of [NoOrganization].
func Of(organization string) Scope { return Scope{organization: organization} }

// System is the scope of the platform's own workers, which see everything.
func System() Scope { return Scope{all: true} }

// Organization is the organization of the scope, empty for [System].
func (s Scope) Organization() string { return s.organization }

// Includes reports whether the scope sees the data of an organization.
func (s Scope) Includes(owner string) bool {
	return s.all || (s.organization != "" && s.organization == owner)
}

// Store reads and writes records. It is safe for concurrent use.
type Store struct {
	table table.Table
	blobs blob.Store
	host  host.Host
	// patience bounds a commit with its repetitions.
	patience time.Duration
	readOnly bool
	// spreadAbove is the largest cap with all its slots in one partition; nil: no slots are spread.
	spreadAbove *int
	// fileLimits bound the files of users and organizations.
	fileLimits FileLimits
	// disk divides the room for growing rows; nil: there is always some.
	disk    *share.Disk
	refused func(cause error) // see [Store.WithDisk]; it may be nil
}

// New makes a store over its two ports.
func New(t table.Table, b blob.Store, h host.Host) *Store {
	return &Store{table: t, blobs: b, host: h, patience: commitTime}
}

// Within returns the store with another bound for commits and their repetitions; it holds whether or not the caller's
// context has ended.
func (s *Store) Within(d time.Duration) *Store {
	bounded := *s
	bounded.patience = d
	return &bounded
}

// ReadOnly returns the store for a process that has no right to write: it never tries to. Last uses are not noted,
// [Store.EnsureDeployment] only reads, and every commit fails.
func (s *Store) ReadOnly() *Store {
	reader := *s
	reader.readOnly = true
	return &reader
}

// errReadOnly is the error of a commit by a process that may only read.
var errReadOnly = errors.New("record: this process may only read")

// Blobs is the blob store.
func (s *Store) Blobs() blob.Store { return s.blobs }

// load reads an entity within the scope. It returns a problem of kind NotFound or Forbidden when it cannot be seen.
func load[T any](ctx context.Context, r Reader, scope Scope, what string, key table.Key) (Entity[T], error) {
	items, err := r.reads().read(ctx, key)
	if err != nil {
		return Entity[T]{}, err
	}
	item, err := visible(scope, what, items[0])
	if err != nil {
		return Entity[T]{}, err
	}
	return decode[T](item)
}

// find reads an entity of any owner; the second result is false when there is none.
func find[T any](ctx context.Context, s *Store, key table.Key) (Entity[T], bool, error) {
	items, err := s.read(ctx, key)
	if err != nil || items[0] == nil {
		return Entity[T]{}, false, err
	}
	e, err := decode[T](items[0])
	return e, err == nil, err
}

// seen decodes those of some items that exist and are in the scope, in their order.
func seen[T any](scope Scope, items []*table.Item) ([]Entity[T], error) {
	var list []Entity[T]
	for _, item := range items {
		if item == nil || !scope.Includes(item.Owner) {
			continue
		}
		e, err := decode[T](item)
		if err != nil {
			return nil, err
		}
		list = append(list, e)
	}
	return list, nil
}

func visible(scope Scope, what string, item *table.Item) (*table.Item, error) {
	if item == nil {
		return nil, problem.Missing(what)
	}
	if !scope.Includes(item.Owner) {
		return nil, problem.Outside(what)
	}
	return item, nil
}

// read reads items of any owner, with repetitions when the table cannot be reached.
func (s *Store) read(ctx context.Context, keys ...table.Key) ([]*table.Item, error) {
	return again(ctx, s, func() ([]*table.Item, error) { return s.table.Get(ctx, keys...) })
}

func (s *Store) query(ctx context.Context, r table.Range) ([]*table.Item, error) {
	return again(ctx, s, func() ([]*table.Item, error) { return s.table.Query(ctx, r) })
}

func (s *Store) list(ctx context.Context, index table.Index, r table.Range) ([]table.Entry, error) {
	return again(ctx, s, func() ([]table.Entry, error) { return s.table.List(ctx, index, r) })
}

// pages visits the items of a range in pages of its limit, the last of which may be empty. An error is the last.
func (s *Store) pages(ctx context.Context, r table.Range) iter.Seq2[[]*table.Item, error] {
	return func(yield func([]*table.Item, error) bool) {
		for {
			page, err := s.query(ctx, r)
			if !yield(page, err) || err != nil || len(page) < r.Limit {
				return
			}
			r.After = page[len(page)-1].Sort
		}
	}
}

// items visits the items of a range, as many as its limit at a time. An error is the last.
func (s *Store) items(ctx context.Context, r table.Range) iter.Seq2[*table.Item, error] {
	return func(yield func(*table.Item, error) bool) {
		for page, err := range s.pages(ctx, r) {
			if err != nil {
				yield(nil, err)
				return
			}
			for _, item := range page {
				if !yield(item, nil) {
					return
				}
			}
		}
	}
}

// maxAttempts bounds how often a call is repeated; with the back-off below that is a few seconds.
const maxAttempts = 8

// again makes a call of the table, and repeats it if that may help.
func again[T any](ctx context.Context, s *Store, call func() (T, error)) (found T, err error) {
	err = s.repeat(ctx, func() error {
		found, err = call()
		return err
	}, func(err error) bool {
		failure, is := errors.AsType[*table.Error](err)
		return is && failure.Kind != table.TooLarge
	})
	return found, err
}

func (s *Store) repeat(ctx context.Context, call func() error, passes func(error) bool) error {
	var err error
	for attempt := range maxAttempts {
		if err = call(); err == nil || !passes(err) {
			return err
		}
		if s.host.Sleep(ctx, s.backOff(attempt)) != nil {
			break
		}
	}
	return problem.Retry(err)
}

func (s *Store) backOff(attempt int) time.Duration {
	return time.Millisecond + host.Jitter(s.host, min(5*time.Millisecond<<attempt, time.Second))
}

// Page is a part of a listing.
type Page[T any] struct {
	Rows      []T
	Positions []string // of the rows in the listing: a page may also begin behind one of them
	Next      string   // where the next page begins; empty at the end
}

// EndAt ends a page of a listing, newest first, before the rows behind a place.
func (p *Page[T]) EndAt(position string) {
	for i, at := range p.Positions {
		if at < position {
			p.Rows, p.Positions, p.Next = p.Rows[:i], p.Positions[:i], ""
			return
		}
	}
}

// keep leaves out the rows that are not wanted.
func (p *Page[T]) keep(wanted func(T) bool) {
	rows, positions := p.Rows[:0], p.Positions[:0]
	for i, row := range p.Rows {
		if wanted(row) {
			rows, positions = append(rows, row), append(positions, p.Positions[i])
		}
	}
	p.Rows, p.Positions = rows, positions
}

// DueShards is the number of shards of the due index.
const DueShards = table.DueShards

// DueItem names an item that is due.
type DueItem struct {
	Kind     string // run, hook (a webhook delivery), job, file, or one of a newer version
	ID       string // of a delivery: the run's id
	Position string // among the items of the id: a delivery's sequence number
}

// Due lists at most limit items of a shard that were due before until, the oldest first.
func (s *Store) Due(ctx context.Context, shard int, until time.Time, limit int) ([]DueItem, error) {
	entries, err := again(ctx, s, func() ([]table.Entry, error) { return s.table.Due(ctx, shard, until, limit) })
	due := make([]DueItem, 0, len(entries))
	for _, e := range entries {
		kind, id, _ := strings.Cut(e.Part, "/")
		due = append(due, DueItem{kind, id, e.Sort})
	}
	return due, err
}
