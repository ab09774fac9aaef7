package plan

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/assert"
)

// Whatever a member is called that holds a secret, its value is neither taken nor printed; counts of tokens are no
// secrets.
func TestNamesOfSecretsAreKnown(t *testing.T) {
	for _, name := range []string{
		"api_key", "apiKey", "APIKEY", "access-key", "accessKey", "privateKey", "auth", "basicAuth", "bearer", "pat",
		"db_pwd", "passphrase", "refresh_tokens", "refreshToken", "clientSecret", "Authorization", "set-cookie",
	} {
		assert.True(t, secretive(name), name)
	}
	for _, name := range []string{"max_tokens", "maxTokens", "author", "path", "pattern", "name", "key_points"} {
		assert.False(t, secretive(name), name)
	}
}

// The arguments of a server that is a program often hold keys.
func TestArgumentsOfProgramsAreNotPrinted(t *testing.T) {
	printed := command(json.RawMessage(`{"command":"npx","args":["server","--api-key","sk-1"]}`))
	assert.Equal(t, "npx with 3 arguments", printed)
}
