package main

import (
	"agentplatform/internal/embedding"
	"agentplatform/internal/embedding/builtinembedding"
)

// model is the embedding model that is measured, its name, and the weight of its ranks: those of package knowledge.
var model = struct {
	embedding.Model
	name   string
	weight float64
}{builtinembedding.New(), builtinembedding.Name, 0.2}
