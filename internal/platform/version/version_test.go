package version

import (
	"runtime/debug"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestABuildReportsItsVersion(t *testing.T) {
	recorded := &debug.BuildInfo{
		Main:     debug.Module{Version: "v0.0.0-20261122-abc"},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}},
	}
	for _, c := range []struct {
		name, version, commit string
		info                  *debug.BuildInfo
		wantVersion, want     string
	}{
		{"stamped", "v1.2.3", "def", recorded, "v1.2.3", "def"},
		{"recorded", "", "", recorded, "v0.0.0-20261122-abc", "abc"},
		{"built outside a checkout", "", "", &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}}, "dev", Unknown},
		{"without any record", "", "", nil, "dev", Unknown},
	} {
		version, commit := read(c.version, c.commit, c.info)
		assert.Equal(t, c.wantVersion, version, c.name)
		assert.Equal(t, c.want, commit, c.name)
	}
}
