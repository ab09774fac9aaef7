package catalog_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"agentplatform/internal/org/catalog"
)

// An address has one reservation in an organization, however its letters are written.
func TestEmailIDIgnoresCase(t *testing.T) {
	assert.Equal(t, catalog.EmailID("o", "Ann@Example.com"), catalog.EmailID("o", "ann@example.COM"))
	assert.NotEqual(t, catalog.EmailID("o", "ann@example.com"), catalog.EmailID("o", "ann@example.org"))
	assert.NotEqual(t, catalog.EmailID("o", "ann@example.com"), catalog.EmailID("p", "ann@example.com"))
}

// New runs use the published version; when none was published, the newest.
func TestCurrentVersionIsThePublishedOrNewest(t *testing.T) {
	for published, want := range []int{3, 1, 2, 3} {
		assert.Equal(t, want, catalog.Agent{Version: 3, Published: published}.Current())
	}
}

// Every organization has a built-in toolkit of its own, whose id looks like any other.
func TestBuiltinToolkitIsOneOfTheOrganization(t *testing.T) {
	assert.NotEqual(t, catalog.BuiltinToolkit("o"), catalog.BuiltinToolkit("p"))
	assert.Len(t, catalog.BuiltinToolkit("o"), 24)
}
