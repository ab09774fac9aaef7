// Package modellist asks providers which models they have, without the libraries that call models: those are
// large, and a program that only lists models does not link them.
//
// It imports its port and modelhttp.
package modellist

import (
	"context"
	"fmt"
	"io"
	"net/http"

	"agentplatform/internal/model"
	"agentplatform/internal/model/modelhttp"
)

// Fixed is a list from the settings.
type Fixed []model.Info

// List returns the list; it never fails.
func (f Fixed) List(context.Context) ([]model.Info, error) { return f, nil }

// Endpoint is a provider's list endpoint: OpenAI's and Anthropic's responses have the same form.
type Endpoint struct {
	URL    string
	Header http.Header
	Client *http.Client // nil: one that follows no redirects
}

// straight follows no redirects: a key is sent only to the configured address.
var straight = &http.Client{
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
}

// maxList limits a provider's response, in bytes.
const maxList = 4 << 20

// List makes one request. It fails where the endpoint cannot be reached, refuses or sends no list; the error's
// text may be shown to clients.
func (e *Endpoint) List(ctx context.Context) ([]model.Info, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, e.URL, nil)
	if err != nil {
		return nil, fmt.Errorf("the address of the models is none")
	}
	r.Header = e.Header.Clone()
	client := e.Client
	if client == nil {
		client = straight
	}
	answer, err := client.Do(r)
	if err != nil {
		return nil, model.Unreachable(err)
	}
	defer func() { _ = answer.Body.Close() }()
	raw, err := io.ReadAll(io.LimitReader(answer.Body, maxList))
	if err != nil {
		return nil, model.Unreachable(err)
	}
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the model's provider answered %d", answer.StatusCode)
	}
	var list struct {
		Data []struct {
			ID          string `json:"id"`
			OwnedBy     string `json:"owned_by"`
			DisplayName string `json:"display_name"`
		} `json:"data"`
	}
	if err := modelhttp.Read(raw, &list); err != nil {
		return nil, fmt.Errorf("the model's provider gave no list of models")
	}
	var infos []model.Info
	for _, one := range list.Data {
		infos = append(infos, model.Info{Name: one.ID, Description: one.OwnedBy + one.DisplayName})
	}
	return infos, nil
}
