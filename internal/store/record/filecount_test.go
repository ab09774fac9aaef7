package record_test

import (
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
	"agentplatform/internal/store/blob/memblob"
	"agentplatform/internal/store/record"
	"agentplatform/internal/store/table/memtable"
)

func limiting(limits record.FileLimits) *record.Store {
	h := host.System()
	return record.New(memtable.New(h.Now), &memblob.Store{}, h).LimitFiles(limits)
}

func filesOf(t *testing.T, s *record.Store, user string) record.FileUse {
	use, err := s.FilesOf(t.Context(), "o", user)
	require.NoError(t, err)
	return use
}

func exceeded(t *testing.T, err error) map[string]any {
	t.Helper()
	p, is := problem.As(err)
	require.True(t, is, "%v", err)
	assert.Equal(t, "share_exceeded", p.Code)
	assert.NotZero(t, p.RetryAfter)
	return p.Extras
}

// A file counts with its announced bytes, then with its real ones, until its description is gone.
func TestFilesAreCountedFromTheirDescriptionsToTheirEnds(t *testing.T) {
	s := limiting(record.FileLimits{})
	gone := func(record.File) bool { return false }
	announced, plain := s.NewFile("o", "u", "a", ""), s.NewFile("o", "u", "b", "")
	announced.Size = 7
	require.NoError(t, s.CreateFile(t.Context(), announced))
	require.NoError(t, s.CreateFile(t.Context(), plain))
	require.NoError(t, s.CreateFile(t.Context(), s.NewFile("o", "v", "c", "")))
	assert.Equal(t, record.FileUse{Count: 2, Bytes: 7}, filesOf(t, s, "u"))
	assert.Equal(t, record.FileUse{Count: 1}, filesOf(t, s, "v"))
	for range 2 { // the second is refused, and changes nothing
		_, _ = s.FillFile(t.Context(), record.Of("o"), plain.ID, strings.NewReader("12345"), 9)
		assert.Equal(t, record.FileUse{Count: 2, Bytes: 12}, filesOf(t, s, "u"))
	}
	for range 2 {
		require.NoError(t, s.RemoveFile(t.Context(), announced.ID, gone))
		assert.Equal(t, record.FileUse{Count: 1, Bytes: 5}, filesOf(t, s, "u"))
	}
	require.NoError(t, s.RemoveFile(t.Context(), plain.ID, gone))
	assert.Zero(t, filesOf(t, s, "u"))
}

// A file that an earlier version stored was not counted when it came, and is not counted when it is deleted.
func TestFilesOfEarlierVersionsAreNotCounted(t *testing.T) {
	s := limiting(record.FileLimits{User: record.FileUse{Count: 1, Bytes: 1}})
	f := s.NewFile("o", "u", "a", "")
	f.Size = 4
	_, err := record.Create(t.Context(), s, f, f.ID)
	require.NoError(t, err)
	_, err = s.FillFile(t.Context(), record.Of("o"), f.ID, strings.NewReader("1234"), 9)
	require.NoError(t, err, "it may have come when nothing was limited")
	assert.Zero(t, filesOf(t, s, "u"))
	require.NoError(t, s.RemoveFile(t.Context(), f.ID, func(record.File) bool { return false }))
	assert.Zero(t, filesOf(t, s, "u"))
}

// However many files come at the same time, a user and an organization get exactly as many files, and bytes, as they
// may have.
func TestFilesAreLimitedHoweverManyComeTogether(t *testing.T) {
	for name, limits := range map[string]record.FileLimits{
		"user":         {User: record.FileUse{Count: 6, Bytes: 100}},
		"organization": {Organization: record.FileUse{Count: 6, Bytes: 100}},
		"bytes":        {User: record.FileUse{Bytes: 62}},
	} {
		s := limiting(limits)
		var kept sync.Map
		var n, refused atomic.Int64
		var all sync.WaitGroup
		for range 24 {
			all.Go(func() {
				f := s.NewFile("o", "u", "a", "")
				f.Size = 10
				switch err := s.CreateFile(t.Context(), f); {
				case err == nil:
					n.Add(1)
					kept.Store(f.ID, true)
				case problem.Is(err, "share_exceeded"):
					refused.Add(1)
				default:
					assert.True(t, problem.Is(err, "unavailable"), "%v", err) // it met too many others
				}
			})
		}
		all.Wait()
		assert.LessOrEqual(t, n.Load(), int64(6), name)
		for n.Load() < 6 {
			f := s.NewFile("o", "u", "a", "")
			f.Size = 10
			require.NoError(t, s.CreateFile(t.Context(), f), name)
			kept.Store(f.ID, true)
			n.Add(1)
		}
		more := s.NewFile("o", "u", "a", "")
		more.Size = 10
		shown := exceeded(t, s.CreateFile(t.Context(), more))
		assert.Contains(t, []any{"files", "file_bytes"}, shown["limit"], name)
		assert.Equal(t, record.FileUse{Count: 6, Bytes: 60}, filesOf(t, s, "u"), name)
		kept.Range(func(id, _ any) bool {
			return assert.NoError(t, s.RemoveFile(t.Context(), id.(string), func(record.File) bool { return false }))
		})
		assert.Zero(t, filesOf(t, s, "u"), name)
	}
}

// Bytes of a file of unknown size are refused when they have come, and none of them is left.
func TestBytesThatAreTooManyAreNotKept(t *testing.T) {
	blobs := &memblob.Store{}
	h := host.System()
	limits := record.FileLimits{Organization: record.FileUse{Bytes: 10}}
	s := record.New(memtable.New(h.Now), blobs, h).LimitFiles(limits)
	f := s.NewFile("o", "u", "a", "")
	require.NoError(t, s.CreateFile(t.Context(), f))
	_, err := s.FillFile(t.Context(), record.Of("o"), f.ID, strings.NewReader("more than ten bytes"), 99)
	shown := exceeded(t, err)
	assert.Equal(t, []any{"file_bytes", "organization", int64(10), int64(0)},
		[]any{shown["limit"], shown["scope"], shown["max"], shown["used"]})
	assert.Empty(t, blobs.Keys())
	_, err = s.FillFile(t.Context(), record.Of("o"), f.ID, strings.NewReader("ten bytes."), 99)
	require.NoError(t, err)
	shown = exceeded(t, s.CreateFile(t.Context(), s.NewFile("o", "v", "a", "")))
	assert.Equal(t, int64(10), shown["used"], "a file has a byte at least")
}

func TestFilesAreListedByTheirUser(t *testing.T) {
	s := limiting(record.FileLimits{})
	var ids []string
	for _, user := range []string{"u", "v", "u", "u"} {
		f := s.NewFile("o", user, "a", "")
		require.NoError(t, s.CreateFile(t.Context(), f))
		if user == "u" {
			ids = append(ids, f.ID)
		}
	}
	page, err := s.UserFiles(t.Context(), record.Of("o"), "u", "", 2)
	require.NoError(t, err)
	last, err := s.UserFiles(t.Context(), record.Of("o"), "u", page.Next, 2)
	require.NoError(t, err)
	require.Len(t, page.Rows, 2)
	require.Len(t, last.Rows, 1)
	assert.ElementsMatch(t, ids, []string{page.Rows[0].Value.ID, page.Rows[1].Value.ID, last.Rows[0].Value.ID})
	assert.Empty(t, last.Next)
}
