package system

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/gitcmd"
)

// Status is one git status.
func (r *repo) Status(ctx context.Context, spec engine.StatusSpec) (engine.Status, error) {
	// Only a git that runs in a submodule could report its changed files, with a configuration that was not checked. A
	// submodule is changed if its commit is.
	args := []string{"status", "--porcelain=v2", "-z", "--branch", "--ignore-submodules=dirty", "--untracked-files=" + spec.Untracked}
	if spec.Renames {
		args = append(args, "--find-renames")
	} else {
		args = append(args, "--no-renames")
	}
	if spec.Ignored {
		args = append(args, "--ignored=traditional")
	}
	p := statusParser{name: r.at.Name, limit: spec.Max}
	cmd := gitcmd.Command{Args: append(append(args, "--"), spec.Paths...), Reading: true}
	if err := r.Scan(ctx, cmd, 0, p.record); err != nil {
		return engine.Status{}, gitcmd.Explain(err, "status_failed")
	}
	return p.finish(r.files.Operation())
}

// statusParser reads git status --porcelain=v2 -z --branch. It refuses a record that lacks
// fields, because its path would be wrong.
type statusParser struct {
	name   string // of the work tree
	limit  int
	status engine.Status
	from   *engine.StatusEntry // a renamed file whose old path comes next
}

func (p *statusParser) record(record []byte) error {
	if p.from != nil {
		if len(record) == 0 {
			return fmt.Errorf("read git status: %q is renamed from nowhere", p.from.Path)
		}
		p.from.OrigPath = string(record)
		p.status.Take(*p.from, p.limit)
		p.from = nil
		return nil
	}
	kind, rest, _ := strings.Cut(string(record), " ")
	var e engine.StatusEntry
	ok := true
	switch kind {
	case "#":
		readHeader(&p.status, rest)
		return nil
	case "?", "!":
		if engine.Hidden(p.name, rest) {
			return nil
		}
		e, ok = engine.StatusEntry{Path: rest, Index: kind, Worktree: kind, Type: "file"}, rest != ""
	case "1", "u":
		e, ok = trackedEntry(kind, rest)
	case "2":
		if e, ok = trackedEntry(kind, rest); ok {
			p.from = &e
			return nil
		}
	default:
		return nil // git may add kinds of records
	}
	if !ok {
		return fmt.Errorf("read git status: unexpected record %q", record)
	}
	p.status.Take(e, p.limit)
	return nil
}

func (p *statusParser) finish(operation string) (engine.Status, error) {
	if p.from != nil {
		return engine.Status{}, fmt.Errorf("read git status: %q is renamed from nowhere", p.from.Path)
	}
	p.status.Settle(operation)
	return p.status, nil
}

// trackedEntry reads "XY sub modes… ids… path" of a changed file (kind 1), with a score before the path of a renamed
// one (2), with one more mode and id of a conflicting one (u). The path keeps its spaces.
func trackedEntry(kind, rest string) (engine.StatusEntry, bool) {
	count, worktreeMode := 8, 4
	switch kind {
	case "2":
		count = 9
	case "u":
		count, worktreeMode = 10, 5
	}
	fields := strings.SplitN(rest, " ", count)
	if len(fields) < count || len(fields[0]) != 2 || fields[count-1] == "" {
		return engine.StatusEntry{}, false
	}
	e := engine.StatusEntry{
		Path: fields[count-1], Index: fields[0][:1], Worktree: fields[0][1:], Type: fileType(fields[1], fields[worktreeMode]),
	}
	if kind == "u" {
		e.Conflict = fields[0]
	}
	return e, true
}

// readHeader reads a line such as "branch.head main".
func readHeader(s *engine.Status, line string) {
	key, value, _ := strings.Cut(line, " ")
	switch key {
	case "branch.oid":
		if value != "(initial)" {
			s.Head = value
		}
	case "branch.head":
		if s.Detached = value == "(detached)"; !s.Detached {
			s.Branch = value
		}
	case "branch.upstream":
		s.Upstream = value
	case "branch.ab":
		ahead, behind, _ := strings.Cut(value, " ")
		// git prints no malformed number; 0 also stands for an unknown distance.
		s.Ahead, _ = strconv.Atoi(strings.TrimPrefix(ahead, "+"))
		s.Behind, _ = strconv.Atoi(strings.TrimPrefix(behind, "-"))
	}
}

func fileType(sub, mode string) string {
	switch {
	case strings.HasPrefix(sub, "S"):
		return "submodule"
	case mode == "120000":
		return "symlink"
	}
	return "file"
}
