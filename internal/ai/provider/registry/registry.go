// Package registry is the table of the providers of models: the name of each, its settings, and how its models are
// listed and made. Everything else reads this table. A provider is an [entry], in a file of its own.
//
// It is wiring: like boot and cloud it may import adapters. Every program may import it. The linker leaves out the
// adapters that a program does not make, and the libraries behind them.
package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"agentplatform/internal/ai/embedding"
	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/providerhttp"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/setting"
)

// all is the table.
var all = []entry{demoEntry, builtinEntry, openaiEntry, anthropicEntry, bedrockEntry}

// About describes a provider.
type About struct {
	Name     string   // in agents, prices and EMBEDDING_MODELS
	What     string   // for the documentation
	Settings []string // each of them alone adds the provider; none: it is always there
	Key      string   // the setting of its API key; on AWS a secret of the deployment. Empty: it has none
	URL      string   // where it is unless a setting names another address
	Aliases  []string // other platforms' names for it
	Prefixes []string // with which names of its models begin
}

// entry is a provider: its settings, and its models.
type entry struct {
	About
	chat       chat       // nil: it has no such models
	embeddings embeddings // nil: it has no such models
}

// chat makes the models that agents may name. An entry holds methods, not functions: the linker drops a method that no
// part of a program calls, and everything that only this method needs.
type chat interface {
	// list makes the list of the models; nil: the settings do not add the provider.
	list(s setting.Settings) model.Catalogue
	// model makes the models; it is called where list is not nil.
	model(ctx context.Context, s setting.Settings, with tools) (model.Model, error)
}

type embeddings interface {
	// embedding makes the models; nil: the settings do not add the provider.
	embedding(ctx context.Context, s setting.Settings, client *http.Client) (embedding.Model, error)
}

type tools struct {
	host   host.Host
	client *http.Client
}

// All describes the providers.
func All() []About {
	var list []About
	for _, e := range all {
		list = append(list, e.About)
	}
	return list
}

// Catalogues makes the lists of the models of the providers that are configured, by provider name.
func Catalogues(s setting.Settings) map[string]model.Catalogue {
	return catalogues(s, func(About) bool { return true })
}

// KeylessCatalogues is [Catalogues] without the providers that have API keys.
func KeylessCatalogues(s setting.Settings) map[string]model.Catalogue {
	return catalogues(s, func(a About) bool { return a.Key == "" })
}

func catalogues(s setting.Settings, wanted func(About) bool) map[string]model.Catalogue {
	lists := map[string]model.Catalogue{}
	for _, e := range all {
		if e.chat == nil || !wanted(e.About) {
			continue
		}
		if list := e.chat.list(s); list != nil {
			lists[e.Name] = list
		}
	}
	return lists
}

// Models makes the models of the configured providers, by provider name, without calling any. The error is that of a
// provider that cannot be made: the AWS configuration cannot be loaded.
func Models(ctx context.Context, s setting.Settings, h host.Host) (map[string]model.Model, error) {
	models, with := map[string]model.Model{}, tools{h, providerhttp.Client()}
	for _, e := range all {
		if e.chat == nil || e.chat.list(s) == nil {
			continue
		}
		made, err := e.chat.model(ctx, s, with)
		if err != nil {
			return nil, err
		}
		models[e.Name] = model.WithSimpleTools(made)
	}
	return models, nil
}

// Embeddings are the embedding models of a deployment.
type Embeddings struct {
	Models map[string]embedding.Model // by provider name; that of [embedding.Builtin] is always there
	Names  []embedding.Name           // that the settings offer, the default first
	// Options are those of the models of Names, by provider/name.
	Options map[string]embedding.Options
	Lacking error // joins what some of the models lack, such as a key; nil: nothing. The others are there
}

// ReadEmbeddings reads which embedding models the settings offer, and makes none. The error names the invalid setting:
// EMBEDDING_MODELS or EMBEDDING_OPTIONS.
func ReadEmbeddings(s setting.Settings) (Embeddings, error) {
	var providers []string
	for _, e := range all {
		if e.embeddings != nil {
			providers = append(providers, e.Name)
		}
	}
	names, err := embedding.ParseNames(s.EmbeddingModels, providers)
	if err != nil {
		return Embeddings{}, fmt.Errorf("EMBEDDING_MODELS: %w", err)
	}
	options, err := embedding.ParseOptions(s.EmbeddingOptions, names)
	if err != nil {
		return Embeddings{}, fmt.Errorf("EMBEDDING_OPTIONS %w", err)
	}
	return Embeddings{Models: map[string]embedding.Model{}, Names: names, Options: options}, nil
}

// OpenEmbeddings makes the embedding models that the settings name, without calling any. keyed returns the models of a
// provider that has an API key. If keyed is nil, they are made here, with the keys of the settings. The error is that
// of [ReadEmbeddings].
func OpenEmbeddings(
	ctx context.Context, s setting.Settings, keyed func(provider string) embedding.Model,
) (Embeddings, error) {
	made, err := ReadEmbeddings(s)
	if err != nil {
		return made, err
	}
	client := providerhttp.Client()
	of := map[string]entry{}
	for _, e := range all {
		of[e.Name] = e
		if e.embeddings != nil && len(e.Settings) == 0 {
			builtin, err := e.embeddings.embedding(ctx, s, client)
			if err != nil {
				return made, err
			}
			made.Models[e.Name] = builtin
		}
	}
	var wrong []error
	for _, n := range made.Names {
		if made.Models[n.Provider] != nil {
			continue
		}
		model, err := of[n.Provider].open(ctx, s, client, keyed)
		switch {
		case err != nil:
			wrong = append(wrong, err)
		case model == nil:
			wrong = append(wrong, fmt.Errorf("EMBEDDING_MODELS: %s needs %s", n,
				strings.Join(of[n.Provider].Settings, " or ")))
		default:
			made.Models[n.Provider] = model
		}
	}
	made.Lacking = errors.Join(wrong...)
	return made, nil
}

// open makes the embedding models of a provider; nil: the settings do not add the provider.
func (e entry) open(
	ctx context.Context, s setting.Settings, client *http.Client, keyed func(provider string) embedding.Model,
) (embedding.Model, error) {
	if keyed != nil && e.Key != "" {
		return keyed(e.Name), nil
	}
	return e.embeddings.embedding(ctx, s, client)
}
