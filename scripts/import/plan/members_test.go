package plan

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Whatever a member is called that holds a secret, its value is neither taken nor printed; counts of tokens are no
// secrets.
func TestNamesOfSecretsAreKnown(t *testing.T) {
	for _, name := range []string{
		"api_key", "apiKey", "APIKEY", "access-key", "accessKey", "privateKey", "auth", "basicAuth", "bearer", "pat",
		"db_pwd", "passphrase", "refresh_tokens", "refreshToken", "clientSecret", "Authorization", "set-cookie",
		"openai_key", "tavilyKey", "dsn", "SENTRY_DSN", "sig", "signature", "X-Amz-Signature",
	} {
		assert.True(t, secretive(name), name)
	}
	for _, name := range []string{"max_tokens", "maxTokens", "author", "path", "pattern", "name", "key_points",
		"auth_required", "design", "country_code", "keyboard"} {
		assert.False(t, secretive(name), name)
	}
}

// A secret under an innocent name is known by its value.
func TestValuesOfSecretsAreKnown(t *testing.T) {
	for _, value := range []string{
		"sk-proj-abcdefgh12345678", "tvly-0123456789abcdef", "ghp_0123456789abcdef", "xoxb-0123456789-abcdef",
		"Bearer abcdefgh12345678", "postgres://u:pw@db/x", "use https://me:pw@host.example/ please",
	} {
		for _, raw := range []any{value, []any{value}, map[string]any{"a": map[string]any{"b": value}}} {
			text, err := json.Marshal(raw)
			require.NoError(t, err)
			assert.True(t, secret("note", text), string(text))
		}
	}
	for _, value := range []string{
		"sk-8", "task-management", "Bearer of bad news", "https://host.example/a@b:c", "mail me@host.example", "xox",
	} {
		text, err := json.Marshal(value)
		require.NoError(t, err)
		assert.False(t, secret("note", text), value)
	}
}

// The arguments of a server that is a program often hold keys.
func TestArgumentsOfProgramsAreNotPrinted(t *testing.T) {
	printed := command(json.RawMessage(`{"command":"npx","args":["server","--api-key","sk-1"]}`))
	assert.Equal(t, "npx with 3 arguments", printed)
}
