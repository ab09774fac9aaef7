package registry

import (
	"context"
	"net/http"

	"agentplatform/internal/ai/embedding"
	"agentplatform/internal/ai/embedding/builtinembedding"
	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/model/demomodel"
	"agentplatform/internal/platform/setting"
)

// The two providers that are always there.
var (
	demoEntry = entry{
		About: About{Name: "demo", What: "a deterministic model, built in"},
		chat:  demo{},
	}
	builtinEntry = entry{
		About:      About{Name: embedding.Builtin, What: "embeddings of words, built in"},
		embeddings: builtin{},
	}
)

type demo struct{}

func (demo) list(setting.Settings) model.Catalogue {
	return model.FixedList{{
		Name:        "demo",
		Description: "Deterministic and built in: repeats its input and follows /directions.",
	}}
}

func (demo) model(_ context.Context, _ setting.Settings, with tools) (model.Model, error) {
	return demomodel.New(with.host), nil
}

type builtin struct{}

func (builtin) embedding(context.Context, setting.Settings, *http.Client) (embedding.Model, error) {
	return builtinembedding.New(), nil
}
