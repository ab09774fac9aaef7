package model_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"agentplatform/internal/ai/model"
	"agentplatform/internal/ai/providerhttp"
)

// Wherever a provider repeats our credentials or addresses in a failure, clients see neither.
func TestAProvidersErrorTextShowsNoCredentialsOrAddresses(t *testing.T) {
	const key = "sk-OURS/12345+abcdef=="
	bearer := "Bearer " + key
	std, raw := base64.StdEncoding.EncodeToString, base64.RawURLEncoding.EncodeToString
	for name, words := range map[string]string{
		"as it is":        "bad key " + bearer,
		"the key alone":   "bad key '" + key + "'!",
		"in capitals":     strings.ToUpper(bearer),
		"escaped":         "?key=" + url.QueryEscape(key),
		"escaped as path": "/" + url.PathEscape(key),
		"base64":          std([]byte(key)) + " " + std([]byte(bearer)),
		"base64 of more":  std([]byte("x"+key+"y")) + raw([]byte("xy: "+bearer)),
		"hexadecimal":     hex.EncodeToString([]byte(bearer)),
		"its first half":  key[:11] + "...",
		"its second half": "..." + key[9:],
		"with spaces":     strings.Join(strings.Split(key, ""), " "),
		"quoted":          `{"Authorization":["` + bearer + `"]}`,
		"another header":  "you sent team-of-ours-77",
		"the address":     "no upstream at http://provider.internal:8443/v1/chat, nor at PROVIDER.internal",
		"who let us in":   "user:pass-word-9 is unknown " + std([]byte("user:pass-word-9")) + " v=query-value-8",
		"other addresses": "dial tcp 10.0.0.7:8000, [fd00::17]:443, fe80::1, ollama:11434, " +
			"vllm-0.pool.svc.cluster.local, localhost, http%3A%2F%2F10.0.0.7",
		"a resource of it": "arn:aws:iam::123456789012:role/ours may not",
	} {
		t.Run(name, func(t *testing.T) {
			encoded, err := json.Marshal(words)
			assert.NoError(t, err)
			for form, p := range map[string]*provider{
				"an answer": {status: 401,
					body: strings.NewReader(`{"error":{"message":` + string(encoded) + `}}`)},
				"another":       {status: 403, body: strings.NewReader(`{"error":` + string(encoded) + `}`)},
				"a detail":      {status: 500, body: strings.NewReader(`{"detail":` + string(encoded) + `}`)},
				"in the middle": {status: 200, body: strings.NewReader(`data: {"error":` + string(encoded) + "}\n\n")},
			} {
				e := providerhttp.Endpoint{
					URL:    "https://user:pass-word-9@provider.internal:8443/v1/chat?v=query-value-8",
					Client: &http.Client{Transport: p},
					Header: http.Header{"Authorization": {bearer}, "X-Team": {"team-of-ours-77"}},
				}
				_, err := model.Stream(t.Context(), e, nil, func(data []byte) (bool, error) {
					var body struct{ Error providerhttp.Trouble }
					assert.NoError(t, json.Unmarshal(data, &body))
					assert.True(t, body.Error.There)
					return false, model.BrokeOff(body.Error)
				})
				assert.ErrorContains(t, err, "the model's provider", form)
				assert.NotEmpty(t, model.KindOf(err))
				for _, text := range []string{err.Error(), model.Unredacted(err)} {
					bare := strings.ToLower(strings.Map(func(r rune) rune {
						if strings.ContainsRune(" -_/+=%.", r) {
							return -1
						}
						return r
					}, text))
					for _, part := range []string{
						"skours12", "345abcdef", "736b2d4f", "teamofours", "password9", "queryvalue8", "c2stt1vsuy",
						"ay1pvvjtl", "ny1pvvjt",
					} {
						assert.NotContains(t, bare, part, "%s: %s", form, text)
					}
					if enc := strings.ToLower(std([]byte("user:pass-word-9"))); strings.Contains(bare, enc[:16]) {
						t.Errorf("%s: %s", form, text)
					}
				}
				for _, part := range []string{
					"provider.internal", "8443", "10.0.0", "fd00", "fe80", "11434", "cluster", "localhost",
					"123456789012",
				} {
					assert.NotContains(t, strings.ToLower(err.Error()), part, form)
				}
			}
		})
	}
}

func TestTextWithoutCredentialsIsKept(t *testing.T) {
	const words = "The model `llama3.1:8b` does not exist: messages[2].content has 8192 tokens, at most 4096 fit " +
		"(see the docs, section 12.3)"
	p := &provider{status: 400, body: strings.NewReader(`{"error":"` + words + `"}`)}
	err := stream(t, p, nil)
	assert.EqualError(t, err, "the model's provider answered 400: "+words)
	p = &provider{status: 400, body: strings.NewReader(`{"error":"` + strings.Repeat("long ", 10_000) + `10.0.0.7"}`)}
	err = stream(t, p, nil)
	assert.Less(t, len(err.Error()), 1100, "what is shown is short")
	assert.Greater(t, len(model.Unredacted(err)), 50_000, "the log has it all")
}
