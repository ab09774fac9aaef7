//go:build smoke

// Package smoke runs the scenarios that need no settings of their own against a deployed stage: `make smoke`.
package smoke

import (
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"agentplatform/internal/proof/scenario"
)

func TestADeployedStage(t *testing.T) {
	url, key := os.Getenv("BASE_URL"), os.Getenv("OPERATOR_KEY")
	require.NotEmpty(t, url, "BASE_URL is the output BaseUrl of the service stack")
	require.NotEmpty(t, key, "OPERATOR_KEY is an operator key of the stage")
	scenario.Visit(t, scenario.World{URL: url, Key: key})
}
