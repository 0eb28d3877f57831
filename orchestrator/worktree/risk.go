package worktree

import (
	"context"
	"fmt"
	"path"
	"strings"

	"github.com/spritekit/lattice/orchestrator/worktree/gitexec"
)

// risk is a kind of change that can do harm outside of the repository, by its mode or content. Risks of paths are the
// policy's to judge.
type risk int

const (
	riskSubmodule risk = iota
	riskLink
	riskBinary
	risks
)

// description returns the text of a kind for the person who approves.
func (r risk) description() string {
	switch r {
	case riskSubmodule:
		return "submodule"
	case riskLink:
		return "symbolic link that leaves the tree"
	default:
		return "binary file"
	}
}

// maxNamed is how many paths of one kind are named, so that decoys of one kind hide no other.
const maxNamed = 5

// diffWarnings returns a warning for each kind of change that can do harm outside the repository. Paths like .git cannot
// occur here: index-pack --strict refuses them.
func (q quarantine) diffWarnings(ctx context.Context, changes []change, lines map[string][2]int) ([]string, error) {
	var links []string
	for _, c := range changes {
		if c.newMode == "120000" {
			links = append(links, c.newOID)
		}
	}
	targets, _, err := q.readObjects(ctx, "blob", links)
	if err != nil {
		return nil, err
	}
	var found [risks][]string
	for _, c := range changes {
		name := gitexec.CleanLine(c.path)
		if c.status == "D" {
			name += " (deleted)"
		}
		if c.newMode == "160000" {
			found[riskSubmodule] = append(found[riskSubmodule], name)
		}
		if to := string(targets[c.newOID]); c.newMode == "120000" && leavesTree(c.path, to) {
			found[riskLink] = append(found[riskLink], name+" → "+gitexec.CleanLine(to))
		}
		if lines[c.path][0] < 0 && c.status != "D" {
			found[riskBinary] = append(found[riskBinary], name)
		}
	}
	var out []string
	for r, names := range found {
		if len(names) > 0 {
			out = append(out, risk(r).warningLine(names))
		}
	}
	return out, nil
}

// warningLine returns the warning about the paths of one kind.
func (r risk) warningLine(names []string) string {
	count, more := "", ""
	if len(names) > 1 {
		count = fmt.Sprintf(" (%d)", len(names))
	}
	if n := len(names) - maxNamed; n > 0 {
		names, more = names[:maxNamed], fmt.Sprintf(", and %d more", n)
	}
	short := make([]string, len(names))
	for i, name := range names {
		short[i] = shortenName(name)
	}
	return r.description() + count + ": " + strings.Join(short, ", ") + more
}

// DisplayName returns a path of a sprite as one line of printable text of bounded length.
func DisplayName(name string) string { return shortenName(gitexec.CleanLine(name)) }

// shortenName keeps both ends of a name that is too long to be read.
func shortenName(name string) string {
	const most = 120
	if text := []rune(name); len(text) > most {
		return string(text[:most/2]) + "…" + string(text[len(text)-most/2:])
	}
	return name
}

// leavesTree reports whether a symbolic link at p pointing to "to" names something outside of the tree, or inside .git.
func leavesTree(p, to string) bool {
	if path.IsAbs(to) {
		return true
	}
	end := path.Join(path.Dir(p), to)
	first, _, _ := strings.Cut(end, "/")
	return first == ".." || strings.EqualFold(first, ".git")
}
