package system

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/gitcmd"
	"github.com/spritekit/lattice/skills/git/gitconfig"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Clone is one git clone in the usual case. A ref, a bundle's HEAD and limits of the checkout need a separate checkout.
func (s *Engine) Clone(ctx context.Context, spec engine.CloneSpec) (engine.Cloned, error) {
	r := s.open(engine.Location{
		Root: spec.Root, Name: filepath.Base(spec.Dir), Dir: spec.Dir, GitDir: filepath.Join(spec.Dir, ".git"), CommonDir: filepath.Join(spec.Dir, ".git"),
		Config: gitconfig.Config{}, // git has just written it
	})
	inOne := spec.Ref == "" && !spec.From.Bundle && !isBounded(spec.Limits)
	stats := gitcmd.NewTransfer(ctx, spec.Limits, spec.Follow)
	_, err := s.Run(stats.Ctx, gitcmd.Command{Args: cloneArgs(spec, inOne), Remote: &spec.From, Follow: stats.Line})
	if err := stats.Finish(err); err != nil {
		return engine.Cloned{}, gitcmd.Explain(err, "clone_failed")
	}
	if err := (cloning{r, spec}).checkout(ctx, inOne); err != nil {
		return engine.Cloned{}, err
	}
	if spec.RemoteURL != "" && spec.RemoteURL != spec.From.URL {
		if _, err := r.Change(ctx, "remote", "set-url", "--", "origin", spec.RemoteURL); err != nil {
			return engine.Cloned{}, gitcmd.Explain(err, "clone_failed")
		}
	}
	c := engine.Cloned{Objects: stats.Objects, Bytes: r.files.ObjectBytes()}
	if spec.Limits.MaxPackBytes > 0 && c.Bytes > spec.Limits.MaxPackBytes {
		return c, engine.TooMany("the repository has %d bytes of objects; the limit is %d", c.Bytes, spec.Limits.MaxPackBytes)
	}
	if c.Head, err = r.commitOf(ctx, "HEAD"); err != nil {
		return c, err
	}
	if c.Branch, err = r.currentBranch(ctx); err != nil {
		return c, err
	}
	_, err = os.Lstat(filepath.Join(r.at.GitDir, "shallow"))
	c.Shallow = err == nil
	return c, nil
}

func cloneArgs(spec engine.CloneSpec, inOne bool) []string {
	args := []string{"clone", "--progress", "--no-recurse-submodules", "--no-local", "--template="}
	if !inOne {
		args = append(args, "--no-checkout")
	}
	if spec.Depth > 0 && !spec.From.Bundle {
		args = append(args, "--depth="+strconv.Itoa(spec.Depth))
	}
	if spec.SingleBranch {
		args = append(args, "--single-branch")
	} else {
		args = append(args, "--no-single-branch")
	}
	if !spec.Tags {
		args = append(args, "--no-tags")
	}
	if spec.Filter != "" {
		args = append(args, "--filter="+spec.Filter)
	}
	if spec.Reference != "" {
		args = append(args, "--reference="+spec.Reference)
	}
	if spec.Branch != "" && (inOne || spec.SingleBranch && spec.Ref == "") {
		args = append(args, "--branch="+spec.Branch)
	}
	return append(args, "--", spec.From.URL, spec.Dir)
}

// cloning is a clone whose objects have arrived.
type cloning struct {
	repo *repo
	spec engine.CloneSpec
}

// checkout fills the work tree unless git clone did: with ref, else branch, else the remote's HEAD.
func (c cloning) checkout(ctx context.Context, inOne bool) error {
	r, spec := c.repo, c.spec
	ref, head, ok := r.files.Head()
	if inOne && ok && head != "" && (spec.Branch == "" || ref == "refs/heads/"+spec.Branch) {
		return nil
	}
	start, args := "HEAD", []string{"checkout", "--quiet", "--force"}
	switch remote := "refs/remotes/origin/" + spec.Branch; {
	case spec.Ref != "":
		found, err := c.fetchRef(ctx)
		if err != nil {
			return err
		}
		start = found
		if spec.Branch != "" {
			args = append(args, "--no-track", "-B", spec.Branch)
		} else {
			args = append(args, "--detach")
		}
	case spec.Branch != "":
		found, err := r.resolveCommit(ctx, remote)
		if err != nil {
			return err
		}
		switch {
		case found != "":
			start, args = remote, append(args, "--track", "-B", spec.Branch)
		case spec.From.Bundle: // a bundle of HEAD alone does not name the branch
			args = append(args, "--no-track", "-B", spec.Branch)
		default:
			return engine.RefNotFound("the remote has no branch %s", spec.Branch).WithHint("without branch the remote's HEAD is checked out")
		}
	}
	head, err := r.resolveCommit(ctx, start)
	if err != nil {
		return err
	}
	if head == "" && start == "HEAD" {
		if start, err = c.onlyBranch(ctx); err != nil || start == "" {
			return err // an empty repository has nothing to check out
		}
		args = append(args, "--track", "-B", strings.TrimPrefix(start, "refs/remotes/origin/"))
	}
	if err := c.checkLimits(ctx, start); err != nil {
		return err
	}
	_, err = r.Change(ctx, append(args, exact(start), "--")...)
	return gitcmd.Explain(err, "checkout_failed")
}

// isBounded reports whether the tree must be checked against limits before the checkout.
func isBounded(l engine.Limits) bool {
	return l.MaxFiles > 0 || l.MaxObjectBytes > 0 || l.MaxPathLen > 0
}

// checkLimits refuses a commit whose files exceed a limit.
func (c cloning) checkLimits(ctx context.Context, commit string) error {
	limits := c.spec.Limits
	if !isBounded(limits) {
		return nil
	}
	files := int64(0)
	list := gitcmd.Command{Args: []string{"ls-tree", "-r", "-l", "-z", "--full-tree", commit, "--"}, Reading: true}
	err := c.repo.Scan(ctx, list, 0, func(record []byte) error {
		entry, name, _ := strings.Cut(string(record), "\t") // "mode type id size TAB path"
		fields := strings.Fields(entry)
		if len(fields) != 4 {
			return fmt.Errorf("read git ls-tree: unexpected record %q", record)
		}
		size, _ := strconv.ParseInt(fields[3], 10, 64) // "-" for a submodule
		switch files++; {
		case limits.MaxFiles > 0 && files > limits.MaxFiles:
			return engine.TooMany("the repository has more than %d files", limits.MaxFiles)
		case limits.MaxObjectBytes > 0 && size > limits.MaxObjectBytes:
			return engine.TooMany("%s has %d bytes; the limit is %d", name, size, limits.MaxObjectBytes)
		case limits.MaxPathLen > 0 && int64(len(name)) > limits.MaxPathLen:
			return engine.TooMany("%s… is longer than %d bytes", name[:min(len(name), 80)], limits.MaxPathLen)
		}
		return nil
	})
	return gitcmd.Explain(err, "checkout_failed")
}

// fetchRef returns the commit of ref. It fetches a commit that the clone lacks because it is shallow or has no tags.
func (c cloning) fetchRef(ctx context.Context) (string, error) {
	r, spec := c.repo, c.spec
	for _, name := range []string{spec.Ref, "refs/tags/" + spec.Ref, "refs/remotes/origin/" + spec.Ref} {
		if found, err := r.resolveCommit(ctx, name); err != nil || found != "" {
			return found, err
		}
	}
	wants := []string{spec.Ref}
	if !engine.IsCommitID(spec.Ref) {
		wants = []string{"+refs/tags/" + spec.Ref + ":refs/tags/" + spec.Ref, "+refs/heads/" + spec.Ref + ":refs/remotes/origin/" + spec.Ref}
	}
	for _, want := range wants {
		args := []string{"fetch", "--quiet", "--no-tags"}
		if spec.Depth > 0 && !spec.From.Bundle {
			args = append(args, "--depth="+strconv.Itoa(spec.Depth))
		}
		_, err := r.Run(ctx, gitcmd.Command{Args: append(args, "--", "origin", want), Remote: &spec.From})
		if err == nil {
			return r.resolveCommit(ctx, "FETCH_HEAD")
		}
		if !fault.HasCode(err, "ref_not_found") {
			return "", gitcmd.Explain(err, "clone_failed")
		}
	}
	return "", engine.RefNotFound("%s is neither a tag, a branch nor a commit of the remote", spec.Ref).
		WithHint("without ref the remote's HEAD is checked out")
}

// onlyBranch returns the branch to check out when the remote's HEAD does not exist: the only one, else main or master.
func (c cloning) onlyBranch(ctx context.Context) (string, error) {
	out, err := c.repo.Read(ctx, "for-each-ref", "--format=%(refname)", "refs/remotes/origin")
	if err != nil {
		return "", gitcmd.Explain(err, "checkout_failed")
	}
	refs := strings.Fields(string(out))
	if len(refs) == 1 {
		return refs[0], nil
	}
	for _, ref := range []string{"refs/remotes/origin/main", "refs/remotes/origin/master"} {
		if slices.Contains(refs, ref) {
			return ref, nil
		}
	}
	return "", nil
}

// Refs is git ls-remote.
func (s *Engine) Refs(ctx context.Context, from engine.Source) ([]engine.Ref, error) {
	refs := map[string]*engine.Ref{}
	at := func(name string) *engine.Ref {
		if refs[name] == nil {
			refs[name] = &engine.Ref{Name: name}
		}
		return refs[name]
	}
	lines := &gitcmd.Records{End: '\n', Each: func(line []byte) error {
		id, name, ok := bytes.Cut(line, []byte{'\t'})
		if target, is := bytes.CutPrefix(id, []byte("ref: ")); is && ok {
			at(string(name)).Target = string(target)
		} else if tag, is := bytes.CutSuffix(name, []byte("^{}")); is && ok {
			at(string(tag)).Peeled = string(id)
		} else if ok {
			at(string(name)).ID = string(id)
		}
		return nil
	}}
	_, err := s.Run(ctx, gitcmd.Command{Args: []string{"ls-remote", "--quiet", "--symref", "--", from.URL}, Remote: &from, Stdout: lines})
	if err := lines.Finish(err); err != nil {
		return nil, gitcmd.Explain(err, "clone_failed")
	}
	list := make([]engine.Ref, 0, len(refs))
	for _, ref := range refs {
		list = append(list, *ref)
	}
	slices.SortFunc(list, func(a, b engine.Ref) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}
