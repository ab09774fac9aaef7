package toolkit_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"agentplatform/internal/ai/tool"
	"agentplatform/internal/platform/problem"
)

// A request of a toolkit that is too large to be stored is refused, and the refusal names the member.
func TestATooLargeRequestOfAToolkitIsRefused(t *testing.T) {
	there := newSite(t)
	s := reach(t, there)
	d := at("http", there, nil)
	d.Request = &tool.HTTPRequest{Name: "act", Description: strings.Repeat("<", 500_000)}
	_, err := s.Create(t.Context(), "o", d)
	p, is := problem.As(err)
	require.True(t, is, "%v", err)
	require.Equal(t, problem.Invalid, p.Kind)
	require.Equal(t, "body.request", p.Fields[0].Location)
}
