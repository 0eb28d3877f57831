package system

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Checkout is a diff of what will change, which also finds what would be lost, and git checkout.
func (r *repo) Checkout(ctx context.Context, spec engine.CheckoutSpec) (engine.CheckedOut, error) {
	done := engine.CheckedOut{KeptLocal: []string{}, Conflicts: []string{}}
	var err error
	if done.Previous.Ref, done.Previous.Commit, err = r.where(ctx); err != nil {
		return done, err
	}
	args, target, err := r.checkoutArgs(ctx, spec, done.Previous)
	if err != nil {
		return done, err
	}
	changes, err := r.upcoming(ctx, spec, done.Previous, target)
	if err != nil {
		return done, err
	}
	if err := r.judge(spec, changes); err != nil {
		return done, err
	}
	local := &localChanges{kept: map[string]bool{}}
	lines := &records{end: '\n', each: local.line}
	stats := newTransfer(ctx, engine.Limits{}, spec.Follow)
	_, err = r.in(stats.ctx, command{args: args, stdout: lines, follow: stats.line})
	if err := stats.finish(lines.finish(err)); err != nil {
		return done, checkoutFailed(err)
	}
	for _, c := range changes {
		switch {
		case local.kept[c.path] && !spec.Force:
		case c.letter == 'A': // of the work tree's: the target lacks it
			done.Removed++
		default:
			done.Updated++
		}
	}
	for name := range local.kept {
		done.KeptLocal = append(done.KeptLocal, name)
	}
	slices.Sort(done.KeptLocal)
	if spec.Merge {
		if done.Conflicts, err = r.conflicts(ctx); err != nil {
			return done, err
		}
	}
	ref, commit, err := r.where(ctx)
	done.Branch, done.Commit = short(ref), commit
	return done, err
}

// where is HEAD: the full name of its branch, "" when detached, and its commit, "" when there is none.
func (r *repo) where(ctx context.Context) (ref, commit string, err error) {
	if ref, commit, ok := r.head(); ok {
		return ref, commit, nil
	}
	branch, err := r.branch(ctx)
	if err != nil {
		return "", "", err
	}
	if branch != "" {
		ref = "refs/heads/" + branch
	}
	commit, err = r.resolve(ctx, "HEAD")
	return ref, commit, err
}

// checkoutArgs is the command, and the revision whose files it will put into the work tree; "" for the index.
func (r *repo) checkoutArgs(ctx context.Context, spec engine.CheckoutSpec, from engine.HeadState) (args []string, target string, err error) {
	args = []string{"checkout", "--no-overwrite-ignore", "--no-recurse-submodules"}
	switch {
	case spec.Force:
		args = append(args, "--force")
	case spec.Merge:
		args = append(args, "--merge", "--conflict=merge")
	}
	if len(spec.Paths) > 0 {
		args = []string{"checkout", "--quiet", "--no-recurse-submodules"}
		if spec.Ref != "" {
			args = append(args, spec.Ref)
		}
		return append(append(args, "--"), spec.Paths...), spec.Ref, nil
	}
	args = append(args, "--progress")
	if spec.Create {
		args = append(args, "-b", spec.Ref)
		if target = "HEAD"; spec.StartPoint != "" {
			target = spec.StartPoint
		}
		if from.Commit == "" && spec.StartPoint == "" {
			return append(args, "--"), "", nil // another name for the branch that is not born yet
		}
		return append(args, target, "--"), target, nil
	}
	if spec.Detach {
		return append(args, "--detach", spec.Ref, "--"), spec.Ref, nil
	}
	local, err := r.commitOf(ctx, "refs/heads/"+spec.Ref)
	if err != nil {
		return nil, "", err
	}
	if local != "" {
		return append(args, "--no-guess", spec.Ref, "--"), "refs/heads/" + spec.Ref, nil
	}
	// A branch that only origin has is made here, as git guesses it.
	remote := "refs/remotes/origin/" + spec.Ref
	there, err := r.commitOf(ctx, remote)
	if err != nil {
		return nil, "", err
	}
	if there != "" {
		return append(args, "--track", "-b", spec.Ref, remote, "--"), remote, nil
	}
	return append(args, "--detach", spec.Ref, "--"), spec.Ref, nil
}

// change is one file that differs from the target: D or M is put there or changed, A is in the way.
type change struct {
	letter byte
	path   string
}

// upcoming lists what a checkout will change. A plain one goes by the two trees: what of them is edited comes along or
// stops it. With force, and for paths, it goes by the files as they are.
func (r *repo) upcoming(ctx context.Context, spec engine.CheckoutSpec, from engine.HeadState, target string) ([]change, error) {
	args := []string{"--name-status", "-z", "--no-renames", "--no-ext-diff", "--no-textconv"}
	switch {
	case len(spec.Paths) > 0 && target == "":
		args = append([]string{"diff"}, args...)
	case spec.Force || len(spec.Paths) > 0 || from.Commit == "":
		if target == "" {
			return nil, nil
		}
		args = append(append([]string{"diff"}, args...), target)
	case target == "" || target == "HEAD":
		return nil, nil
	default:
		// the other way round, so that the letters mean the same
		args = append(append([]string{"diff-tree", "-r"}, args...), target, from.Commit)
	}
	var changes []change
	var letter byte
	out := &records{end: 0, each: func(record []byte) error {
		switch {
		case letter == 0 && len(record) > 0:
			letter = record[0]
		default:
			changes = append(changes, change{letter, string(record)})
			letter = 0
		}
		return nil
	}}
	_, err := r.in(ctx, command{args: append(append(args, "--"), spec.Paths...), reading: true, stdout: out})
	return changes, explainRevision(out.finish(err), "checkout_failed")
}

// judge refuses a checkout that would change the runtime's own files, or lose what nothing has stored: git protects
// untracked files unless it is forced, and not when it checks out paths.
func (r *repo) judge(spec engine.CheckoutSpec, changes []change) error {
	if r.at.Name == "." {
		for _, c := range changes {
			if engine.Hidden(".", c.path) {
				return fault.Unsafe("reserved_path", "%s would be changed, which is the runtime's: %s lies in the history of this repository", c.path, protocol.Dir)
			}
		}
	}
	if !spec.Force && len(spec.Paths) == 0 {
		return nil
	}
	tracked := map[string]bool{} // and in the way: the target lacks them
	for _, c := range changes {
		if c.letter == 'A' {
			tracked[c.path] = true
		}
	}
	var lost []string
	for _, c := range changes {
		if c.letter != 'D' { // D: in the target and not among the files, as far as git knows them
			continue
		}
		if in := r.inTheWay(c.path, tracked); in != "" {
			lost = append(lost, in)
		}
	}
	if len(lost) == 0 {
		return nil
	}
	slices.Sort(lost)
	lost = slices.Compact(lost)
	return engine.WouldOverwrite(lost, "untracked files would be overwritten: %s", strings.Join(lost[:min(5, len(lost))], ", "))
}

// inTheWay returns what lies where path will be and is in no index, "" when nothing does.
func (r *repo) inTheWay(path string, tracked map[string]bool) string {
	for i := range len(path) {
		if path[i] != '/' {
			continue
		}
		info, err := os.Lstat(filepath.Join(r.at.Dir, path[:i]))
		if err != nil {
			return "" // nothing can lie below it
		}
		if !info.IsDir() {
			if tracked[path[:i]] {
				return ""
			}
			return path[:i]
		}
	}
	info, err := os.Lstat(filepath.Join(r.at.Dir, path))
	if err != nil {
		return ""
	}
	if !info.IsDir() {
		return path
	}
	found := ""
	err = filepath.WalkDir(filepath.Join(r.at.Dir, path), func(name string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		rel, err := filepath.Rel(r.at.Dir, name)
		if err == nil && !tracked[filepath.ToSlash(rel)] {
			found = rel
			return filepath.SkipAll
		}
		return err
	})
	if err != nil {
		return path
	}
	return found
}

// localChanges reads what git checkout says of edits that came along: "M TAB path".
type localChanges struct{ kept map[string]bool }

func (l *localChanges) line(line []byte) error {
	letter, name, ok := strings.Cut(string(line), "\t")
	if ok && len(letter) == 1 {
		l.kept[unquote(name)] = true
	}
	return nil
}

// unquote undoes git's C quoting of odd names.
func unquote(name string) string {
	if len(name) < 2 || name[0] != '"' || name[len(name)-1] != '"' {
		return name
	}
	var plain []byte
	for i := 1; i < len(name)-1; i++ {
		if name[i] != '\\' {
			plain = append(plain, name[i])
			continue
		}
		i++
		if j := strings.IndexByte(`abtnvfr`, name[i]); j >= 0 {
			plain = append(plain, '\a'+byte(j))
			continue
		}
		var n byte
		if _, err := fmt.Sscanf(name[i:min(i+3, len(name))], "%03o", &n); err == nil && name[i] >= '0' && name[i] <= '3' {
			plain = append(plain, n)
			i += 2
			continue
		}
		plain = append(plain, name[i])
	}
	return string(plain)
}

func checkoutFailed(err error) error {
	f, ok := err.(*failure)
	if !ok {
		return err
	}
	has := func(text string) bool { return strings.Contains(f.stderr, text) }
	switch {
	case has("would be overwritten"), has("would lose untracked files"), has("would be removed by"):
		return engine.WouldOverwrite(nil, "%v", f)
	case has("need to resolve your current index"), has("is unmerged"), has("cannot continue with staged changes"), has("cannot switch branch while"):
		return engine.Conflict(nil, "%v", f)
	case has("did not match any file"):
		return engine.NoSuchPath("%v", f)
	}
	return branchFailed(f, "checkout_failed")
}
