package docstate_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"agentplatform/internal/core/docstate"
)

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

const (
	hour  = time.Hour
	lease = time.Minute
)

// life is a document with its own clock, to which a test applies events.
type life struct {
	docstate.State

	t   require.TestingT
	now time.Time
}

func begun(t require.TestingT, from docstate.Stage) *life {
	l := &life{t: t, now: start}
	l.do(docstate.Begin{From: from})
	return l
}

func (l *life) do(e docstate.Event) {
	after, err := docstate.Apply(l.State, l.now, e)
	require.NoError(l.t, err, "%T %+v in %+v", e, e, l.State)
	l.State = after
}

func (l *life) refused(e docstate.Event) {
	after, err := docstate.Apply(l.State, l.now, e)
	require.ErrorIs(l.t, err, docstate.ErrRefused, "%T in %+v", e, l.State)
	require.Equal(l.t, l.State, after, "a refusal changes nothing")
}

func (l *life) claim(name string) docstate.Claim {
	return docstate.Claim{Lease: docstate.Lease{Claim: name, Until: l.now.Add(lease)}, Deadline: hour}
}

func (l *life) pass(d time.Duration) { l.now = l.now.Add(d) }

var stages = []docstate.Stage{docstate.Fetching, docstate.Extracting, docstate.Chunking, docstate.Embedding,
	docstate.Indexing}

func TestDocumentBecomesReadyStageByStage(t *testing.T) {
	l := begun(t, docstate.Fetching)
	assert.Equal(t, docstate.Pending, l.Status)
	l.do(l.claim("a"))
	assert.Equal(t, docstate.Processing, l.Status)
	for _, stage := range stages[1:] {
		l.do(docstate.Advance{Claim: "a", To: stage, Total: 7})
		assert.Equal(t, stage, l.Stage)
		assert.Equal(t, 1, l.Attempts, "attempts are of a stage")
	}
	l.do(docstate.Renew{Claim: "a", Until: l.now.Add(lease), Done: 5})
	l.do(docstate.Renew{Claim: "a", Until: l.now.Add(lease), Done: 3})
	assert.Equal(t, 5, l.Done, "progress does not go back")
	l.pass(time.Second)
	l.do(docstate.Finish{Claim: "a"})
	assert.Equal(t, docstate.Ready, l.Status)
	assert.Empty(t, l.Stage)
	assert.Equal(t, 1, l.Version)
	assert.Equal(t, l.now, l.ReadyAt)
	assert.False(t, l.Active())
	l.refused(l.claim("b"))
}

// Only the holder of the claim may report: a slow worker that has lost the document changes nothing.
func TestReportsOfALostWorkerAreRefused(t *testing.T) {
	l := begun(t, docstate.Extracting)
	l.do(l.claim("slow"))
	l.refused(l.claim("early"))
	l.pass(lease)
	l.do(l.claim("next"))
	for _, e := range []docstate.Event{
		docstate.Renew{Claim: "slow"}, docstate.Advance{Claim: "slow"}, docstate.Finish{Claim: "slow"},
		docstate.Fail{Claim: "slow"}, docstate.Retry{Claim: "slow"}, docstate.Release{Claim: "slow"},
		docstate.Unchanged{Claim: "slow"},
	} {
		l.refused(e)
	}
	l.do(docstate.Begin{From: docstate.Extracting})
	l.refused(docstate.Finish{Claim: "next"})
	assert.Equal(t, 2, l.Build)
}

// Where one process runs, the leases of the earlier process are void immediately.
func TestLeaseOfAnEarlierProcessIsVoid(t *testing.T) {
	l := begun(t, docstate.Chunking)
	first := l.claim("a")
	first.Lease.ProcessID = "before"
	l.do(first)
	again := l.claim("b")
	again.Lease.ProcessID = "before"
	l.refused(again)
	again.Lease.ProcessID = "after"
	l.do(again)
	assert.Equal(t, 2, l.Attempts)
}

func TestFailedAttemptsWaitAndEnd(t *testing.T) {
	l := begun(t, docstate.Embedding)
	var waits []time.Duration
	for range docstate.MaxAttempts - 1 {
		l.do(l.claim("a"))
		l.do(docstate.Retry{Claim: "a", Code: docstate.EmbeddingUnavailable, Message: "it is away"})
		l.refused(l.claim("early"))
		waits = append(waits, l.Due.Sub(l.now))
		l.now = l.Due
	}
	assert.Equal(t, []time.Duration{2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second}, waits)
	l.do(l.claim("a"))
	l.do(docstate.Retry{Claim: "a", Code: docstate.EmbeddingUnavailable, Message: "it is away"})
	assert.Equal(t, docstate.Failed, l.Status)
	assert.Equal(t, &docstate.Failure{
		Stage: docstate.Embedding, Code: docstate.EmbeddingUnavailable, Message: "it is away", At: l.now,
	}, l.Failure)
	assert.Equal(t, docstate.Embedding, l.Stage, "a failed document says where")
}

func TestOtherSideMayAskForALongerWaitWithinTheBound(t *testing.T) {
	for after, want := range map[time.Duration]time.Duration{
		0: 2 * time.Second, time.Second: 2 * time.Second, time.Minute: time.Minute, hour: 2 * time.Minute,
	} {
		l := begun(t, docstate.Embedding)
		l.do(l.claim("a"))
		l.do(docstate.Retry{Claim: "a", After: after})
		assert.Equal(t, want, l.Due.Sub(l.now), after)
	}
}

// A file that ends each of its workers is not read for ever. A worker may also be killed for other reasons, so the file
// is not at fault as long as there are attempts.
func TestFileThatEndsEachOfItsWorkersIsUnreadable(t *testing.T) {
	l := begun(t, docstate.Extracting)
	for n := range docstate.MaxAttempts {
		l.do(l.claim(string(rune('a' + n))))
		assert.Equal(t, docstate.Processing, l.Status)
		l.pass(lease)
	}
	l.do(l.claim("z"))
	assert.Equal(t, docstate.Failed, l.Status)
	assert.Equal(t, docstate.Unreadable, l.Failure.Code)
}

func TestDeadlineEndsAnIngestion(t *testing.T) {
	l := begun(t, docstate.Fetching)
	l.pass(23 * hour)
	l.do(l.claim("a"))
	assert.Equal(t, docstate.Processing, l.Status, "waiting for a worker is not counted")
	l.do(docstate.Advance{Claim: "a", To: docstate.Extracting})
	l.do(docstate.Release{Claim: "a"})
	l.pass(hour)
	l.do(l.claim("b"))
	assert.Equal(t, docstate.PastDeadline, l.Failure.Code)

	l = begun(t, docstate.Fetching)
	l.pass(docstate.MaxWait)
	l.do(l.claim("a"))
	assert.Equal(t, docstate.PastDeadline, l.Failure.Code, "waiting has a bound, too")
}

// A document that was ready stays ready when a later ingestion fails, and has the failure.
func TestReadyDocumentStaysReadyWhenReprocessingFails(t *testing.T) {
	l := begun(t, docstate.Extracting)
	l.do(l.claim("a"))
	l.refused(docstate.Unchanged{Claim: "a"})
	l.do(docstate.Finish{Claim: "a"})
	l.do(docstate.Begin{From: docstate.Fetching})
	assert.Equal(t, docstate.Pending, l.Status)
	l.do(l.claim("b"))
	l.do(docstate.Fail{Claim: "b", Code: docstate.FetchFailed, Message: "the server says 404"})
	assert.Equal(t, docstate.Ready, l.Status)
	assert.Equal(t, 1, l.Version)
	assert.Equal(t, docstate.Fetching, l.Failure.Stage)
	l.do(docstate.Begin{From: docstate.Fetching})
	assert.Nil(t, l.Failure)
	l.do(l.claim("c"))
	l.do(docstate.Unchanged{Claim: "c"})
	assert.Equal(t, docstate.Ready, l.Status)
	assert.Equal(t, 1, l.Version, "nothing new was found")
	assert.Equal(t, 3, l.Build)
}

// A failure records whether its ingestion was quiet. The next successful ingestion removes it.
func TestFailureOfAQuietIngestion(t *testing.T) {
	l := begun(t, docstate.Extracting)
	l.do(l.claim("a"))
	l.do(docstate.Finish{Claim: "a"})
	quiet := func(end docstate.Event) {
		l.do(docstate.Begin{From: docstate.Indexing, Quiet: true})
		l.do(l.claim("q"))
		l.do(end)
	}
	quiet(docstate.Fail{Claim: "q", Code: docstate.Internal, Message: "the index is away"})
	assert.Equal(t, []any{docstate.Ready, docstate.Internal, true}, []any{l.Status, l.Failure.Code, l.Failure.Quiet})
	quiet(docstate.Finish{Claim: "q"})
	assert.Nil(t, l.Failure)
	l.do(docstate.Begin{From: docstate.Extracting})
	l.do(l.claim("b"))
	l.do(docstate.Fail{Claim: "b", Code: docstate.Unreadable, Message: "it is broken"})
	assert.False(t, l.Failure.Quiet)
}

// A document that is only indexed again counts as ready during that, and keeps its version.
func TestQuietIngestionIsNotShown(t *testing.T) {
	l := begun(t, docstate.Extracting)
	l.do(l.claim("a"))
	l.do(docstate.Finish{Claim: "a"})
	was := l.ReadyAt
	l.pass(hour)
	l.do(docstate.Begin{From: docstate.Indexing, Quiet: true})
	assert.Equal(t, docstate.Ready, l.Status)
	assert.True(t, l.Active())
	l.do(l.claim("b"))
	assert.Equal(t, docstate.Ready, l.Status)
	l.do(docstate.Finish{Claim: "b"})
	assert.Equal(t, []any{1, 2, was}, []any{l.Version, l.Build, l.ReadyAt})
	assert.False(t, l.Quiet)

	l = begun(t, docstate.Extracting)
	l.do(docstate.Begin{From: docstate.Indexing, Quiet: true})
	assert.Equal(t, docstate.Pending, l.Status, "what is not ready cannot be quiet")
}

func TestStopOfAWorkerCountsAsNoAttempt(t *testing.T) {
	l := begun(t, docstate.Extracting)
	for range 20 {
		l.do(l.claim("a"))
		l.do(docstate.Release{Claim: "a"})
	}
	assert.Equal(t, 0, l.Attempts)
	assert.True(t, l.Claimable(l.now, ""))
}

// A postponed document may still be claimed: the wakeup comes before the sweeper.
func TestPostponedDocumentMayBeClaimed(t *testing.T) {
	l := begun(t, docstate.Extracting)
	l.do(docstate.Postpone{CheckAt: l.now.Add(hour)})
	l.do(l.claim("a"))
	assert.True(t, l.CheckAt.IsZero())
	l.do(docstate.Finish{Claim: "a"})
	l.refused(docstate.Postpone{CheckAt: l.now.Add(hour)})
}

// With any actions of workers, an ingestion ends after a bounded number of claims. Before its end it always has a time
// at which the sweeper looks at it.
func TestEveryIngestionEnds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := begun(t, rapid.SampledFrom(stages).Draw(t, "from"))
		stage := l.Stage
		at := func() int {
			for i, s := range stages {
				if s == stage {
					return i
				}
			}
			return -1
		}
		claims := 0
		for l.Active() {
			require.False(t, l.Due.IsZero())
			if !l.Claimable(l.now, "") {
				l.now = l.Due
			}
			l.do(l.claim("w"))
			if !l.Active() {
				break
			}
			if claims++; claims > docstate.MaxAttempts*len(stages) {
				t.Fatalf("it goes on after %d claims: %+v", claims, l.State)
			}
			for l.Lease.Claim != "" {
				switch rapid.SampledFrom([]string{"advance", "lost", "retry", "renew", "fail"}).Draw(t, "what") {
				case "advance":
					if stage == docstate.Indexing {
						l.do(docstate.Finish{Claim: "w"})
						break
					}
					stage = stages[at()+1]
					l.do(docstate.Advance{Claim: "w", To: stage})
				case "lost":
					l.now = l.Due
				case "retry":
					l.do(docstate.Retry{Claim: "w", Code: docstate.Internal})
				case "renew":
					l.do(docstate.Renew{Claim: "w", Until: l.now.Add(lease)})
				case "fail":
					l.do(docstate.Fail{Claim: "w", Code: docstate.Empty})
				}
				if !l.Held(l.now, "") {
					break
				}
			}
		}
		require.Equal(t, l.Status == docstate.Failed, l.Failure != nil)
		require.Empty(t, l.Lease)
		if l.Status == docstate.Failed {
			require.NotEmpty(t, l.Failure.Stage)
			require.NotEmpty(t, l.Failure.Code)
		}
	})
}
