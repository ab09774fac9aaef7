package main

import (
	"context"
	"slices"
	"strings"

	"agentplatform/internal/store/citation"
	"agentplatform/internal/text/index"
	"agentplatform/internal/text/ranking"
)

// passages is the number of passages that an agent receives by default.
const passages = 6

// answered counts the queries with known answers, and those of them whose first quotes hold one. It quotes passages as
// citations do.
func (s *search) answered(
	ctx context.Context, c collection, mode ranking.Mode, x index.Index, candidates int,
) (known, answered int, err error) {
	for _, q := range c.queries {
		if len(q.Answers) == 0 {
			continue
		}
		known++
		terms, list, err := s.ask(ctx, q, mode, x, candidates)
		if err != nil {
			return 0, 0, err
		}
		lists := []ranking.List{list}
		hits := ranking.Rank(mode, lists)
		if slices.ContainsFunc(hits[:min(passages, len(hits))], func(h ranking.Hit) bool {
			text := s.texts[h.Index]
			at := ranking.Quote(text, q.Text, ranking.Matches(text, terms, s.spoken[h.Document]),
				ranking.Rarity(lists), citation.MaxQuoted)
			quoted := string([]rune(text)[at[0]:at[1]])
			return slices.ContainsFunc(q.Answers, func(answer string) bool { return strings.Contains(quoted, answer) })
		}) {
			answered++
		}
	}
	return known, answered, nil
}
