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

// Command is the command line of a drop-in skill that lies in the folder dir: the program run, or what its manifest says
// in exec, where a word that begins with ./ stands for a file of the folder, as does a first word with a slash in it. A
// first word without one is looked up on PATH by whoever starts it.
func (s Skill) Command(dir string) []string {
	if len(s.Exec) == 0 {
		return []string{path.Join(dir, RunFile)}
	}
	line := slices.Clone(s.Exec)
	for i, word := range line {
		if strings.HasPrefix(word, "./") || i == 0 && !path.IsAbs(word) && strings.Contains(word, "/") {
			line[i] = path.Join(dir, word)
		}
	}
	return line
}
