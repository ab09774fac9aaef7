// Package provider lists the models that a deployment can reach, by provider.
//
// The package must not know its callers. It imports the model port, problem and host.
package provider

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/platform/host"
	"agentplatform/internal/platform/problem"
)

// Models are the models of a deployment: a [Set], or those of another program that has the providers' keys (package
// broker). An error that is not a problem means that the other program cannot be reached; a Set returns no such error.
type Models interface {
	// List lists the models of each provider. A provider that fails is in Unreachable.
	List(ctx context.Context) (Listing, error)
	// Check returns an error unless an agent may name this model.
	Check(ctx context.Context, provider, name string, skip bool) error
}

// Set is the models of a deployment, reached by this program.
type Set struct {
	Catalogues map[string]model.Catalogue // by provider name
	Host       host.Host

	mu     sync.Mutex
	listed map[string]listing
}

// listing is a provider's list with the time at which it was fetched.
type listing struct {
	models []model.Info
	at     time.Duration
}

const (
	// listLife is how long a provider's list is cached.
	listLife = time.Minute
	// listTime limits one request for a list.
	listTime = 5 * time.Second
)

// Model is a model that can be reached.
type Model struct {
	Provider string `json:"provider"`
	model.Info
}

// Listing is the models that can be reached now, and for each unreachable provider the reason.
type Listing struct {
	Models      []Model           `json:"models,omitempty"`
	Unreachable map[string]string `json:"unreachable,omitempty"` // reasons, by provider name
}

// List calls each provider in turn, for at most five seconds; an answer is cached for one minute. A provider that fails
// is in Unreachable. The error is always nil.
func (s *Set) List(ctx context.Context) (Listing, error) {
	l := Listing{Unreachable: map[string]string{}}
	for _, provider := range s.providers() {
		infos, err := s.of(ctx, provider)
		if err != nil {
			l.Unreachable[provider] = err.Error()
		}
		for _, i := range infos {
			l.Models = append(l.Models, Model{provider, i})
		}
	}
	return l, nil
}

func (s *Set) providers() []string { return slices.Sorted(maps.Keys(s.Catalogues)) }

func (s *Set) of(ctx context.Context, provider string) ([]model.Info, error) {
	s.mu.Lock()
	known, ok := s.listed[provider]
	s.mu.Unlock()
	if ok && s.Host.Elapsed()-known.at < listLife {
		return known.models, nil
	}
	ctx, cancel := s.Host.WithTimeout(ctx, listTime)
	defer cancel()
	infos, err := s.Catalogues[provider].List(ctx)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.listed == nil {
		s.listed = map[string]listing{}
	}
	s.listed[provider] = listing{infos, s.Host.Elapsed()}
	return infos, nil
}

// Check returns an error unless an agent may name this model. Every error is a problem of kind Invalid at a member of
// body.model. The provider may not be configured, no name may be given, the provider may be unreachable, or it may not
// have the model. With skip, no request is made to the provider, so that agents can be set up while their model is
// unreachable.
func (s *Set) Check(ctx context.Context, provider, name string, skip bool) error {
	if _, ok := s.Catalogues[provider]; !ok {
		return problem.InvalidField("body.model.provider",
			"must be one of %s, not %q: this deployment has no other provider",
			strings.Join(s.providers(), ", "), provider)
	}
	if provider == demo {
		return nil // this provider has one model, under any name
	}
	if name == "" {
		return problem.InvalidField("body.model.name", "is required: GET /models lists the models")
	}
	if skip {
		return nil
	}
	infos, err := s.of(ctx, provider)
	if err != nil {
		return problem.InvalidField("body.model",
			"%s cannot list its models: %s; send skip_check: true to use the model anyway", provider, err)
	}
	if !slices.ContainsFunc(infos, func(i model.Info) bool { return bare(i.Name) == bare(name) }) {
		return problem.InvalidField("body.model.name",
			"%s has no model %q: choose one of GET /models, or send skip_check: true to use it anyway", provider,
			name)
	}
	return nil
}

// bare returns a model's name without the parts that its provider adds in the list and does not need in a call. Ollama
// lists qwen3 as qwen3:latest, and Gemini lists gemini-flash as models/gemini-flash.
func bare(name string) string {
	return strings.TrimSuffix(strings.TrimPrefix(name, "models/"), ":latest")
}

// demo is the provider that is always configured.
const demo = "demo"
