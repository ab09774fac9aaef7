// Package version is the version of this build.
//
// It must not know what is built. It imports none of our packages.
package version

import "runtime/debug"

// Version and Commit are set by the linker in released builds, with two flags -X in the -ldflags of go build:
//
//	-X agentplatform/internal/platform/version.Version=v1.2.3
//	-X agentplatform/internal/platform/version.Commit=0123abc
var (
	Version string
	Commit  string
)

// Unknown is the commit of a build for which neither the linker nor the go command has set one.
const Unknown = "unknown"

// Read returns the version and the commit of this build. They are those that the linker set, else those that the go
// command recorded, else "dev" and [Unknown].
func Read() (version, commit string) {
	info, _ := debug.ReadBuildInfo()
	return read(Version, Commit, info)
}

func read(version, commit string, info *debug.BuildInfo) (string, string) {
	if info != nil {
		if version == "" && info.Main.Version != "(devel)" {
			version = info.Main.Version
		}
		for _, s := range info.Settings {
			if commit == "" && s.Key == "vcs.revision" {
				commit = s.Value
			}
		}
	}
	if version == "" {
		version = "dev"
	}
	if commit == "" {
		commit = Unknown
	}
	return version, commit
}
