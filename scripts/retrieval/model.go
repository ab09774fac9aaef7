package main

import (
	"agentplatform/internal/ai/embedding"
	"agentplatform/internal/ai/embedding/builtinembedding"
	"agentplatform/internal/text/ranking"
)

// model is the embedding model that is measured, its name, and the trust in it: those of package knowledge.
var model = struct {
	embedding.Model
	name  string
	trust ranking.Trust
}{builtinembedding.New(), builtinembedding.Name, ranking.Lexical}
