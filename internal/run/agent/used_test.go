package agent_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/model/anthropicmodel"
	"agentplatform/internal/ai/model/modeltest"
	"agentplatform/internal/ai/model/openaimodel"
)

// claiming is a reply with a text and token counts.
func claiming(text string, in, out int64) turn {
	return func(model.Request) (model.Reply, error) {
		return model.Reply{Text: text, Finish: "stop", InputTokens: in, OutputTokens: out}, nil
	}
}

func TestInputAndOutputTokenClaimsAreCheckedSeparately(t *testing.T) {
	const size = 25_000
	for name, c := range map[string]struct{ in, out, wantIn, wantOut int64 }{
		"plausible":                {6000, 5500, 6000, 5500},
		"low, but plausible":       {1000, 900, 1000, 900},
		"no claim for the request": {0, 5500, 6250, 5500},
		"no claim for the reply":   {6000, 0, 6000, 6250},
		"one token":                {0, 1, 6250, 6250},
		"one token each":           {1, 1, 6250, 6250},
		"plausible reasoning":      {6000, 100_000, 6000, 100_000},
		"implausibly much output":  {6000, 90 << 20, 6000, 6250},
		"implausibly much input":   {90 << 20, 5500, 6250, 5500},
		"the maximum":              {math.MaxInt64, math.MinInt64, 6250, 6250},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStage(&script{replies: []turn{claiming(strings.Repeat("x", size), c.in, c.out)}}, nil)
			s.task.Message.Text = strings.Repeat("y", size)
			r := s.work(t)
			assert.Equal(t, c.wantIn, r.All[0].InputTokens)
			assert.Equal(t, c.wantOut, r.All[0].OutputTokens)
		})
	}
}

// With any token counts in a reply, a token stands for at most 32 bytes.
func TestTokenClaimBelowTheSizeOfTheTextIsReplaced(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 100_000)
		replySize, messageSize, result := size.Draw(t, "said"), size.Draw(t, "asked"), size.Draw(t, "result")
		in, out := rapid.Int64().Draw(t, "in"), rapid.Int64().Draw(t, "out")
		s := newStage(&script{replies: []turn{claiming(strings.Repeat("x", replySize), in, out)}}, nil)
		s.task.Message.Text = strings.Repeat("y", messageSize)
		s.task.History = []model.Message{
			{Role: model.Tool, Results: []model.Result{{Text: strings.Repeat("z", result)}}},
		}
		r, err := s.Work(context.Background(), s.task)
		require.NoError(t, err)
		assert.GreaterOrEqual(t, r.All[0].InputTokens*32, int64(messageSize+result))
		assert.GreaterOrEqual(t, r.All[0].OutputTokens*32, int64(replySize))
		assert.LessOrEqual(t, r.All[0].InputTokens, int64(messageSize+result)+1<<20)
		assert.LessOrEqual(t, r.All[0].OutputTokens, int64(replySize)+1<<20)
	})
}

// endless streams more text than is accepted and is cancelled, so that its token counts are lost.
type endless struct{}

func (endless) Converse(ctx context.Context, _ model.Request, emit func(string)) (model.Reply, error) {
	piece := strings.Repeat("x", 1<<20)
	for ctx.Err() == nil {
		emit(piece)
	}
	return model.Reply{}, model.Unreachable(ctx.Err())
}

func TestReplyThatIsTooLongCountsTheTokensOfItsRequest(t *testing.T) {
	s := newStage(&script{}, nil)
	s.Models["m"] = endless{}
	s.task.Message.Text = strings.Repeat("y", 25_000)
	r := s.work(t)
	require.Contains(t, r.Failure, "over 4 MiB")
	require.Len(t, r.All, 1)
	assert.EqualValues(t, 6250, r.All[0].InputTokens)
	assert.Greater(t, r.All[0].OutputTokens, int64(1<<20))
}

// The providers' token counts in the recorded conversations are used unchanged.
func TestTokenClaimsOfRecordedRepliesAreBooked(t *testing.T) {
	for provider, open := range map[string]func(answer string) model.Model{
		"openaimodel": func(answer string) model.Model {
			return openaimodel.New("", "", modeltest.Answering(answer))
		},
		"anthropicmodel": func(answer string) model.Model {
			return anthropicmodel.New("", "", modeltest.Answering(answer))
		},
	} {
		files, err := filepath.Glob("../../ai/model/" + provider + "/testdata/recordings/*.json")
		require.NoError(t, err)
		claims := 0
		for _, file := range files {
			raw, err := os.ReadFile(file)
			require.NoError(t, err)
			var exchanges []struct {
				Request struct{ Messages any }
				Text    string
			}
			require.NoError(t, json.Unmarshal(raw, &exchanges))
			for _, e := range exchanges {
				reply, err := open(e.Text).Converse(t.Context(), model.Request{}, func(string) {})
				if err != nil || reply.InputTokens+reply.OutputTokens == 0 {
					continue // a failed reply, or one without a claim
				}
				claims++
				s := newStage(&script{replies: []turn{turned(reply), textReply("done")}}, nil)
				s.task.Message.Text = words(e.Request.Messages)
				r := s.work(t)
				assert.Equal(t, reply.InputTokens, r.All[0].InputTokens, file)
				assert.Equal(t, reply.OutputTokens, r.All[0].OutputTokens, file)
			}
		}
		assert.Positive(t, claims, provider)
	}
}

// words are all texts of a request's messages.
func words(messages any) (all string) {
	switch m := messages.(type) {
	case []any:
		for _, one := range m {
			all += words(one)
		}
	case map[string]any:
		for name, one := range m {
			if text, is := one.(string); is && (name == "text" || name == "content" || name == "arguments") {
				all += text
			}
			all += words(one)
		}
	}
	return all
}

// The full message of a provider is for the operators.
func TestModelFailureIsLoggedInFull(t *testing.T) {
	var log strings.Builder
	s := newStage(&script{replies: []turn{func(model.Request) (model.Reply, error) {
		return model.Reply{}, model.Redact(model.Fail(model.BadRequest, "no upstream at 10.0.0.7"), "", nil)
	}}}, nil)
	s.task.Log = slog.New(slog.NewTextHandler(&log, nil))
	r := s.work(t)
	assert.Equal(t, "no upstream at […]", r.Failure)
	assert.Contains(t, log.String(), "no upstream at 10.0.0.7")
}
