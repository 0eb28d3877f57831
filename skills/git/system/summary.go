package system

import (
	"bytes"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
)

// summarized describes HEAD by what git commit said of it and by its loose object, without another git. ok is false when
// these do not tell: git counts a rename or a rewrite otherwise than as one file gone and one come, says nothing of a
// merge, and HEAD may have moved on.
func (r *repo) summarized(said []byte) (done engine.Committed, ok bool) {
	lines := strings.Split(strings.TrimSuffix(string(said), "\n"), "\n")
	ref, id, ok := r.files.Head()
	if !ok || id == "" || !names(lines[0], id) {
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
		if !counted {
			counted = count(&done, line)
			continue
		}
		if !strings.HasPrefix(line, " create mode ") && !strings.HasPrefix(line, " delete mode ") && !strings.HasPrefix(line, " mode change ") {
			return done, false
		}
	}
	return done, counted
}

// names reports whether the first line of what git commit says, "[main 1a2b3c4] subject", is about the commit.
func names(line, id string) bool {
	inside, _, _ := strings.Cut(line, "] ")
	short := inside[strings.LastIndexByte(inside, ' ')+1:]
	return strings.HasPrefix(line, "[") && len(short) >= 4 && strings.HasPrefix(id, short)
}

// count reads " 2 files changed, 3 insertions(+), 1 deletion(-)"; false for any other line.
func count(done *engine.Committed, line string) bool {
	parts := strings.Split(line, ", ")
	for i, part := range parts {
		words := strings.Fields(part)
		if len(words) < 2 || i == 0 && (!strings.HasPrefix(part, " ") || words[len(words)-1] != "changed") {
			return false
		}
		n, err := strconv.Atoi(words[0])
		switch {
		case err != nil:
			return false
		case strings.HasPrefix(words[1], "file"):
			done.FilesChanged = n
		case strings.HasPrefix(words[1], "insertion"):
			done.Additions = n
		case strings.HasPrefix(words[1], "deletion"):
			done.Deletions = n
		default:
			return false
		}
	}
	return true
}
