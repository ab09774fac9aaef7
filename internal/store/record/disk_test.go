package record_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/org/catalog"
	"agentplatform/internal/platform/share"
	"agentplatform/internal/store/blob"
	"agentplatform/internal/store/record"
)

// Growth by clients and models needs room, however small it is. The end of a run and the start of a deletion need none.
func TestRowsThatGrowNeedRoom(t *testing.T) {
	w := newRunWorld(t)
	left := int64(0)
	existing, err := record.Resource[catalog.Group](w.ctx(), w.Store, record.Of("o"), "g")
	require.NoError(t, err)
	s := w.WithDisk(share.NewDisk(func() int64 { return left }, 0), nil)
	group := func(organization string) catalog.Group {
		return catalog.Group{ID: w.host.NewID(), Organization: organization}
	}
	grow := map[string]func(tx *record.Tx){
		"a run":      func(tx *record.Tx) { tx.NewRun(record.Fresh(runIn(w.host.NewID(), 1, 0))) },
		"a step":     func(tx *record.Tx) { tx.PutStep(w.ctx(), w.head.Value, record.Step{Index: 20}) },
		"a pause":    func(tx *record.Tx) { tx.PutPause(w.ctx(), w.head.Value, 9, nil) },
		"a resource": func(tx *record.Tx) { record.PutResource(tx, record.Fresh(group("o"))) },
		"a run token": func(tx *record.Tx) {
			tx.PutRunToken("hash", record.RunToken{Organization: "o", End: w.host.Now().Add(time.Hour)})
		},
		"a version": func(tx *record.Tx) { record.PutVersion(tx, group("o"), 2) },
		"an output": func(tx *record.Tx) {
			r := runIn(w.host.NewID(), 1, 0)
			tx.SetOutput(w.ctx(), &r, runOutput)
		},
	}
	for name, do := range grow {
		assert.True(t, record.IsFull(committed(w.ctx(), s, w.host.NewID(), do)), name)
	}
	assert.True(t, record.IsFull(s.CreateFile(w.ctx(), s.NewFile("o", "u", "a", ""))))
	for name, do := range map[string]func(tx *record.Tx){
		"an end": func(tx *record.Tx) {
			tx.PutRun(w.head)
			tx.PutCharge(w.head.Value.Run)
			tx.PutRun(record.Fresh(runIn(w.host.NewID(), 2, 0))) // a message that was parked
		},
		"a job":      func(tx *record.Tx) { tx.PutJob(record.Fresh(record.Job{ID: "j", Organization: "o"})) },
		"a deletion": func(tx *record.Tx) { record.DeleteResource(tx, existing) },
	} {
		require.NoError(t, committed(w.ctx(), s, w.host.NewID(), do), name)
	}
	left = 10_000
	for !record.IsFull(committed(w.ctx(), s, w.host.NewID(), grow["a resource"])) {
		left -= 100
	}
	assert.Positive(t, left, "the organization has its half")
	require.NoError(t, committed(w.ctx(), s, w.host.NewID(),
		func(tx *record.Tx) { record.PutResource(tx, record.Fresh(group("another"))) }))
}

// An entry of the audit log needs room. Otherwise edits would fill the room that is kept for ends. The entry of a
// deletion or an end needs none.
func TestEntriesOfTheAuditLogNeedRoom(t *testing.T) {
	e := newEstate(t)
	ctx := e.by(t.Context())
	group := catalog.Group{ID: e.NewID(), Organization: e.organization}
	_, err := record.Create(ctx, e.Store, group, "g")
	require.NoError(t, err)
	s := e.WithDisk(share.NewDisk(func() int64 { return 0 }, 0), nil)
	_, err = record.Change(ctx, s, e.scope(), group.ID, 0, func(g *catalog.Group, _ *record.Tx) error {
		g.Name = "new"
		return nil
	})
	assert.True(t, record.IsFull(err), "an edit")
	assert.True(t, record.IsFull(s.NoteDeed(ctx, e.organization, "agent", "a")), "an export")
	assert.True(t, record.IsFull(committed(ctx, s, "deed", func(tx *record.Tx) {
		tx.AuditDeed(ctx, e.organization, "delivery", "d")
	})), "a redelivery")
	before := len(e.entries(e.organization))
	_, err = record.Remove[catalog.Group](ctx, s, e.scope(), group.ID, nil)
	require.NoError(t, err, "a deletion")
	require.NoError(t, committed(ctx, s, "end", func(tx *record.Tx) {
		tx.Frees()
		tx.AuditDeed(ctx, e.organization, "run", "r")
	}), "an end")
	require.NoError(t, s.DeleteFile(ctx, e.plain, func(record.File) bool { return false }), "a file's deletion")
	assert.Len(t, e.entries(e.organization), before+3)
}

// A unit of work that finds no room leaves no blob.
func TestNoBlobStaysWithoutRoom(t *testing.T) {
	for name, left := range map[string]int64{"for its blobs": 1 << 40, "for its rows": 0} {
		w := newRunWorld(t)
		before := w.blobs.Keys()
		puts := 0
		w.blobs.before = func(call string) error {
			if puts++; call == "put" && puts > 1 && left > 0 {
				return blob.ErrFull
			}
			return nil
		}
		s := w.WithDisk(share.NewDisk(func() int64 { return left }, 0), nil)
		err := committed(w.ctx(), s, "w", func(tx *record.Tx) {
			for n := range 3 {
				tx.PutStep(w.ctx(), w.head.Value, record.Step{Index: 20 + n, Output: runLarge})
			}
		})
		assert.True(t, record.IsFull(err), name)
		assert.Equal(t, before, w.blobs.Keys(), name)
	}
}
