package manifests

import (
	"path"
	"slices"
	"strings"
)

// A drop-in skill is a folder with the skill's name that holds these two files (DESIGN 15).
const (
	ManifestFile = "skill.json"
	RunFile      = "run"
)

// Command returns the command line of a drop-in skill in the folder dir: the program run, or the exec of its manifest, where
// a word that begins with ./ stands for a file of the folder, as does a first word with a slash in it. The caller looks up
// a first word without a slash on PATH.
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
