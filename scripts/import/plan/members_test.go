package plan

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The value of a member with a secret is neither taken nor printed, for any spelling of its name. Counts of tokens are
// not secrets.
func TestNamesOfSecretsAreKnown(t *testing.T) {
	for _, name := range []string{
		"api_key", "apiKey", "APIKEY", "access-key", "accessKey", "privateKey", "auth", "basicAuth", "bearer", "pat",
		"db_pwd", "passphrase", "refresh_tokens", "refreshToken", "clientSecret", "Authorization", "set-cookie",
		"openai_key", "tavilyKey", "dsn", "SENTRY_DSN", "sig", "signature", "X-Amz-Signature", "tokens", "apiKeys",
		"authtoken", "oauth2", "secretkey", "api_key1", "AWS_SECRET_ACCESS_KEY", "password2", "credentials", "secrets",
	} {
		assert.True(t, secretive(name), name)
	}
	for _, name := range []string{"max_tokens", "maxTokens", "author", "path", "pattern", "name", "key_points",
		"auth_required", "design", "country_code", "keyboard", "secretary", "tokenizer", "token_limit", "refresh_rate",
		"passwordPolicy", "monkey"} {
		assert.False(t, secretive(name), name)
	}
}

// A secret under an innocent name is recognised by its value.
func TestValuesOfSecretsAreKnown(t *testing.T) {
	for _, value := range []string{
		"sk-proj-abcdefgh12345678", "tvly-0123456789abcdef", "ghp_0123456789abcdef", "xoxb-0123456789-abcdef",
		"Bearer abcdefgh12345678", "sk_live_0123456789abcdef", "rk_live_0123456789abcdef", "hf_abcdefgh12345678",
		"gsk_abcdefgh12345678", "xai-abcdefgh12345678", "npm_abcdefgh12345678", "r8_abcdefgh12345678",
		"ya29.abcdefgh12345678", "AKIAABCDEFGH12345678", "ASIAABCDEFGH12345678", "eyJhbGciOiJIUzI1NiJ9.e30.x",
		"-----BEGIN PRIVATE KEY-----\nMIIE", "postgres://u:pw@db/x", "use https://me:pw@host.example/ please",
	} {
		for _, raw := range []any{value, []any{value}, map[string]any{"a": map[string]any{"b": value}}} {
			text, err := json.Marshal(raw)
			require.NoError(t, err)
			assert.True(t, secret("note", text), string(text))
		}
	}
	for _, value := range []string{
		"sk-8", "task-management", "Bearer of bad news", "https://host.example/a@b:c", "mail me@host.example", "xox",
		"sk-learning-by-doing", "Bearer authentication",
	} {
		text, err := json.Marshal(value)
		require.NoError(t, err)
		assert.False(t, secret("note", text), value)
	}
}

// The words of a command line beyond a program's name often hold keys.
func TestArgumentsOfProgramsAreNotPrinted(t *testing.T) {
	for raw, want := range map[string]string{
		`{"command":"npx","args":["server","--api-key","sk-1"]}`: "npx with 3 arguments",
		`{"command":"KEY=sk-1 npx -y server --key k"}`:           "npx with 5 arguments",
		`{"command":"/usr/bin/server"}`:                          "/usr/bin/server",
		`{"command":"KEY=sk-1"}`:                                 "it names none",
		`{"command":"sk-proj-abcdefgh12345678"}`:                 "(text, 24 bytes)",
	} {
		assert.Equal(t, want, command(json.RawMessage(raw)))
	}
}

// Any text may be a secret. A report has no text of members that were not read.
func TestReportsHaveNoValuesThatAreTexts(t *testing.T) {
	for raw, want := range map[string]string{
		`"correct horse"`: "(text, 13 bytes)", `7.5`: "7.5", `true`: "true", `[1,"x"]`: "(list of 2)",
		`{"a":"x"}`: "(object, 9 bytes)", `1` + strings.Repeat("0", 40): "(number, 41 bytes)",
	} {
		assert.Equal(t, want, short(json.RawMessage(raw)))
	}
}
