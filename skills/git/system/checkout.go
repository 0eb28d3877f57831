package system

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/gitcmd"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Checkout is a diff of the coming changes, which also finds files that would be lost, and git checkout.
func (r *repo) Checkout(ctx context.Context, spec engine.CheckoutSpec) (engine.CheckedOut, error) {
	done := engine.CheckedOut{KeptLocal: []string{}, Conflicts: []string{}}
	var err error
	if done.Previous.Ref, done.Previous.Commit, err = r.headState(ctx); err != nil {
		return done, err
	}
	c := checkout{r, spec, done.Previous}
	args, target, err := c.arguments(ctx)
	if err != nil {
		return done, err
	}
	changes, err := c.listChanges(ctx, target)
	if err != nil {
		return done, err
	}
	if err := c.refuseLoss(changes); err != nil {
		return done, err
	}
	local := map[string]bool{} // edited files that came along: "M TAB path"
	stats := gitcmd.NewTransfer(ctx, engine.Limits{}, spec.Follow)
	err = r.Scan(stats.Ctx, gitcmd.Command{Args: args, Follow: stats.Line}, '\n', func(line []byte) error {
		if letter, name, ok := strings.Cut(string(line), "\t"); ok && len(letter) == 1 {
			local[unquote(name)] = true
		}
		return nil
	})
	if err := stats.Finish(err); err != nil {
		return done, explainCheckout(err)
	}
	for _, c := range changes {
		switch {
		case local[c.path] && !spec.Force:
		case c.letter == 'A': // the target lacks it
			done.Removed++
		default:
			done.Updated++
		}
	}
	done.KeptLocal = slices.AppendSeq(done.KeptLocal, maps.Keys(local))
	slices.Sort(done.KeptLocal)
	if spec.Merge {
		if done.Conflicts, err = r.listConflicts(ctx); err != nil {
			return done, err
		}
	}
	ref, commit, err := r.headState(ctx)
	done.Branch, done.Commit = shortName(ref), commit
	return done, err
}

// checkout is a checkout from where HEAD is.
type checkout struct {
	repo *repo
	spec engine.CheckoutSpec
	from engine.HeadState
}

// arguments returns the command and the revision whose files it will write, "" for the index.
func (c checkout) arguments(ctx context.Context) (args []string, target string, err error) {
	spec := c.spec
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
			args = append(args, exact(spec.Ref))
		}
		return append(append(args, "--"), spec.Paths...), spec.Ref, nil
	}
	args = append(args, "--progress")
	if spec.Create {
		args = append(args, "-b", spec.Ref)
		if target = "HEAD"; spec.StartPoint != "" {
			target = spec.StartPoint
		}
		if c.from.Commit == "" && spec.StartPoint == "" {
			return append(args, "--"), "", nil // renames the branch that has no commit yet
		}
		return append(args, target, "--"), target, nil
	}
	if spec.Detach {
		return append(args, "--detach", exact(spec.Ref), "--"), spec.Ref, nil
	}
	local, err := c.repo.commitOf(ctx, "refs/heads/"+spec.Ref)
	if err != nil {
		return nil, "", err
	}
	if local != "" {
		return append(args, "--no-guess", spec.Ref, "--"), "refs/heads/" + spec.Ref, nil
	}
	// A branch of origin alone becomes a local branch, as with git's own guess.
	remote := "refs/remotes/origin/" + spec.Ref
	there, err := c.repo.commitOf(ctx, remote)
	if err != nil {
		return nil, "", err
	}
	if there != "" {
		return append(args, "--track", "-b", spec.Ref, remote, "--"), remote, nil
	}
	return append(args, "--detach", exact(spec.Ref), "--"), spec.Ref, nil
}

// change is one file that differs from the target: git writes D and M and removes A.
type change struct {
	letter byte
	path   string
}

// listChanges lists the files that the checkout will change. A plain checkout compares two trees: edits come along or stop
// it. With force, and for paths, it compares the tree with the work tree.
func (c checkout) listChanges(ctx context.Context, target string) ([]change, error) {
	spec := c.spec
	args := []string{"--name-status", "-z", "--no-renames", "--no-ext-diff", "--no-textconv"}
	switch {
	case len(spec.Paths) > 0 && target == "":
		args = append([]string{"diff"}, args...)
	case spec.Force || len(spec.Paths) > 0 || c.from.Commit == "":
		if target == "" {
			return nil, nil
		}
		args = append(append([]string{"diff"}, args...), target)
	case target == "" || target == "HEAD":
		return nil, nil
	default:
		// in this order the letters mean the same as above
		args = append(append([]string{"diff-tree", "-r"}, args...), target, c.from.Commit)
	}
	var changes []change
	var letter byte
	cmd := gitcmd.Command{Args: append(append(args, "--"), spec.Paths...), Reading: true}
	err := c.repo.Scan(ctx, cmd, 0, func(record []byte) error {
		switch {
		case letter == 0 && len(record) > 0:
			letter = record[0]
		default:
			changes = append(changes, change{letter, string(record)})
			letter = 0
		}
		return nil
	})
	return changes, explainRevision(err, "checkout_failed")
}

// refuseLoss refuses a checkout that would change the runtime's own files or overwrite untracked files. Git protects those
// unless it is forced or checks out paths.
func (c checkout) refuseLoss(changes []change) error {
	if c.repo.at.Name == "." {
		for _, ch := range changes {
			if engine.Hidden(".", ch.path) {
				return fault.Unsafe("reserved_path", "%s would be changed, which is the runtime's: %s lies in the history of this repository", ch.path, protocol.Dir)
			}
		}
	}
	if !c.spec.Force && len(c.spec.Paths) == 0 {
		return nil
	}
	tracked := map[string]bool{} // files that the target lacks and git removes
	for _, ch := range changes {
		if ch.letter == 'A' {
			tracked[ch.path] = true
		}
	}
	var lost []string
	for _, ch := range changes {
		if ch.letter != 'D' { // D: in the target, but not among the tracked files
			continue
		}
		if blocking := c.findBlocking(ch.path, tracked); blocking != "" {
			lost = append(lost, blocking)
		}
	}
	if len(lost) == 0 {
		return nil
	}
	slices.Sort(lost)
	lost = slices.Compact(lost)
	return engine.WouldOverwrite(lost, "untracked files would be overwritten: %s", strings.Join(lost[:min(5, len(lost))], ", "))
}

// findBlocking returns the untracked file that lies where path will be written, or "".
func (c checkout) findBlocking(path string, tracked map[string]bool) string {
	for i := range len(path) {
		if path[i] != '/' {
			continue
		}
		info, err := os.Lstat(filepath.Join(c.repo.at.Dir, path[:i]))
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
	info, err := os.Lstat(filepath.Join(c.repo.at.Dir, path))
	if err != nil {
		return ""
	}
	if !info.IsDir() {
		return path
	}
	found := ""
	err = filepath.WalkDir(filepath.Join(c.repo.at.Dir, path), func(name string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		rel, err := filepath.Rel(c.repo.at.Dir, name)
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

// explainCheckout returns the error for a message of git checkout.
func explainCheckout(err error) error {
	f, ok := err.(*gitcmd.Failure)
	if !ok {
		return err
	}
	switch {
	case f.Says("would be overwritten", "would lose untracked files", "would be removed by"):
		return engine.WouldOverwrite(nil, "%v", f)
	case f.Says("need to resolve your current index", "is unmerged", "cannot continue with staged changes", "cannot switch branch while"):
		return engine.Conflict(nil, "%v", f)
	case f.Says("did not match any file"):
		return engine.NoSuchPath("%v", f)
	}
	return explainBranch(f, "checkout_failed")
}
