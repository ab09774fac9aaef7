package model

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"

	"agentplatform/internal/ai/providerhttp"
)

// FixedList is a list from the settings.
type FixedList []Info

// List returns the list; it never fails.
func (f FixedList) List(context.Context) ([]Info, error) { return f, nil }

// ListEndpoint is a provider's list of its models over HTTP: OpenAI's and Anthropic's responses have the same form.
type ListEndpoint struct {
	URL    string
	Header http.Header
}

var straight = providerhttp.Client()

// maxList limits a provider's response, in bytes.
const maxList = 4 << 20

// List makes one request. It fails where the endpoint cannot be reached, refuses or sends no list; the error's
// text may be shown to clients.
func (e *ListEndpoint) List(ctx context.Context) ([]Info, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, e.URL, nil)
	if err != nil {
		return nil, fmt.Errorf("the address of the models is not valid")
	}
	r.Header = e.Header.Clone()
	answer, err := straight.Do(r)
	if err != nil {
		return nil, Unreachable(err)
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		status, trouble := providerhttp.Refusal(answer)
		trouble.Message = "" // the list is shown to more users than a failure
		return nil, FromHTTP(status, trouble)
	}
	raw, err := io.ReadAll(io.LimitReader(answer.Body, maxList))
	if err != nil {
		return nil, Unreachable(err)
	}
	var list struct {
		Data []struct {
			ID          string `json:"id"`
			OwnedBy     string `json:"owned_by"`
			DisplayName string `json:"display_name"`
		} `json:"data"`
	}
	var into any = &list
	if raw = bytes.TrimSpace(raw); bytes.HasPrefix(raw, []byte("[")) { // Together's
		into = &list.Data
	}
	if err := providerhttp.Read(raw, maxList, maxValues, into); err != nil {
		return nil, fmt.Errorf("the model's provider did not return a list of models")
	}
	var infos []Info
	for _, one := range list.Data {
		infos = append(infos, Info{Name: one.ID, Description: one.OwnedBy + one.DisplayName})
	}
	return infos, nil
}
