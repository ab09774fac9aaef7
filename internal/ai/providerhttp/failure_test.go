package providerhttp_test

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/providerhttp"
)

type (
	kind  string
	other string
)

func TestAFailureKeepsWhatIsNotShownForTheLog(t *testing.T) {
	failed := &providerhttp.Failure[kind]{Kind: "busy", Wait: time.Second,
		Err: errors.New("no upstream at 10.0.0.7 for sk-12345678")}
	err := fmt.Errorf("a call: %w", failed)
	assert.Equal(t, err.Error(), providerhttp.Unredacted(err), "it has not been redacted")
	redacted := providerhttp.RedactFailure[kind](err, "", http.Header{"X-Api-Key": {"sk-12345678"}})
	require.EqualError(t, redacted, "a call: no upstream at […] for […]")
	assert.Equal(t, "a call: no upstream at 10.0.0.7 for […]", providerhttp.Unredacted(redacted))
	again, is := errors.AsType[*providerhttp.Failure[kind]](redacted)
	require.True(t, is)
	assert.Equal(t, failed.Wait, again.Wait)
	assert.Equal(t, kind("busy"), providerhttp.KindOf[kind](redacted))

	assert.Empty(t, providerhttp.KindOf[other](redacted), "it is of another port")
	assert.Equal(t, err, providerhttp.RedactFailure[other](err, "", nil))
}
