package protocol

import (
	"runtime/debug"
	"strings"
)

// BuildVersion returns the version of the module that the program was built from, as go build stamps it: a tag or a
// pseudo-version without its v, or "dev" without a git checkout.
func BuildVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" || info.Main.Version == "(devel)" {
		return "dev"
	}
	return strings.TrimPrefix(info.Main.Version, "v")
}

// BuildCommit returns the commit that the program was built from, or "" if go build did not stamp one.
func BuildCommit() string {
	info, _ := debug.ReadBuildInfo()
	if info == nil {
		return ""
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return s.Value
		}
	}
	return ""
}
