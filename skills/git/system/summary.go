package system

import (
	"bytes"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
)

// parseSummary describes HEAD from the summary of git commit and from the loose object, without a second git. ok is false
// when these are not enough: git counts a rename or a rewrite differently from a deletion and an addition, prints nothing
// about a merge, and HEAD may have moved.
func (r *repo) parseSummary(summary []byte) (done engine.Committed, ok bool) {
	lines := strings.Split(strings.TrimSuffix(string(summary), "\n"), "\n")
	ref, id, ok := r.files.Head()
	if !ok || id == "" || !isAbout(lines[0], id) {
		return done, false
	}
	kind, content, ok := r.files.LooseObject(id)
	if !ok || kind != "commit" {
		return done, false
	}
	done = engine.Committed{Commit: id, Parents: []string{}, Branch: strings.TrimPrefix(ref, "refs/heads/")}
	for line := range bytes.Lines(content) {
		name, value, _ := strings.Cut(strings.TrimSuffix(string(line), "\n"), " ")
		switch name {
		case "tree":
			done.Tree = value
			continue
		case "parent":
			done.Parents = append(done.Parents, value)
			continue
		}
		break
	}
	if done.Tree == "" || len(done.Parents) > 1 {
		return done, false
	}
	counted := false
	for _, line := range lines[1:] {
		if !counted { // lines before the count, such as the author's
			var stats engine.Stats
			stats, counted = parseStats(line)
			done.FilesChanged, done.Additions, done.Deletions = stats.Files, stats.Additions, stats.Deletions
			continue
		}
		if !strings.HasPrefix(line, " create mode ") && !strings.HasPrefix(line, " delete mode ") && !strings.HasPrefix(line, " mode change ") {
			return done, false
		}
	}
	return done, counted
}

// isAbout reports whether the first line of a summary, "[main 1a2b3c4] subject", names the commit.
func isAbout(line, id string) bool {
	inside, _, _ := strings.Cut(line, "] ")
	abbreviated := inside[strings.LastIndexByte(inside, ' ')+1:]
	return strings.HasPrefix(line, "[") && len(abbreviated) >= 4 && strings.HasPrefix(id, abbreviated)
}
