package manifests

import (
	"path"
	"slices"
	"strings"
)

// A drop-in skill is a folder that bears the skill's name and holds these two (DESIGN 15).
const (
	ManifestFile = "skill.json"
	RunFile      = "run"
)

// Command is the command line of a drop-in skill that lies in the folder dir: what its manifest says in exec, seen from
// that folder, or the program run. A first word without a slash is looked up on PATH by whoever starts it.
func (s Skill) Command(dir string) []string {
	if len(s.Exec) == 0 {
		return []string{path.Join(dir, RunFile)}
	}
	line := slices.Clone(s.Exec)
	if !path.IsAbs(line[0]) && strings.Contains(line[0], "/") {
		line[0] = path.Join(dir, line[0])
	}
	return line
}
