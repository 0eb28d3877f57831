package native

import (
	"cmp"
	"context"
	"strings"

	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/gitconfig"
	"github.com/spritekit/lattice/spritekit/skill"
)

// Branches lists branches.
func (r *repo) Branches(ctx context.Context, spec engine.BranchList) ([]engine.Branch, error) {
	list, err := r.branches(ctx, spec)
	return list, explain(err, "branch_failed")
}

func (r *repo) branches(ctx context.Context, spec engine.BranchList) ([]engine.Branch, error) {
	current, head, err := r.head()
	if err != nil {
		return nil, err
	}
	found, err := r.listRefs(heads)
	if err != nil {
		return nil, err
	}
	if spec.Remote && spec.Name == "" {
		remote, err := r.listRefs("refs/remotes/")
		if err != nil {
			return nil, err
		}
		found = append(found, remote...)
	}
	list := []engine.Branch{}
	if strings.HasPrefix(current, heads) && head.IsZero() && (spec.Name == "" || current == heads+spec.Name) {
		list = append(list, engine.Branch{Name: shorten(current), Current: true, Upstream: shorten(r.upstream(current))})
	}
	for _, ref := range found {
		if ref.target != "" && strings.HasSuffix(ref.name, "/HEAD") || spec.Name != "" && ref.name != heads+spec.Name {
			continue
		}
		if spec.Max > 0 && len(list) >= spec.Max {
			break
		}
		b := engine.Branch{
			Name: shorten(ref.name), Commit: ref.id.String(), Current: ref.name == current, Remote: !strings.HasPrefix(ref.name, heads),
		}
		if upstream := r.upstream(ref.name); upstream != "" {
			b.Upstream = shorten(upstream)
			if b.Ahead, b.Behind, b.Gone, err = r.compareUpstream(ctx, ref.id, upstream); err != nil {
				return nil, err
			}
		}
		list = append(list, b)
	}
	return list, nil
}

// compareUpstream counts the commits by which a branch and its upstream differ.
func (r *repo) compareUpstream(ctx context.Context, commit plumbing.Hash, upstream string) (ahead, behind int, gone bool, err error) {
	_, there, err := r.resolveRef(upstream)
	if err != nil || there.IsZero() || commit.IsZero() {
		return 0, 0, there.IsZero(), err
	}
	ahead, behind, err = r.countApart(ctx, commit, there)
	return ahead, behind, false, err
}

// ChangeBranch creates or deletes a branch.
func (r *repo) ChangeBranch(ctx context.Context, spec engine.BranchChange) error {
	if !isRefName(heads + spec.Name) {
		return skill.Unsafe("unsafe", "%q is not the name of a branch", spec.Name)
	}
	var err error
	switch spec.Action {
	case engine.BranchCreate:
		err = r.createBranch(spec)
	case engine.BranchDelete:
		err = r.deleteBranch(ctx, spec)
	default:
		err = refuse("renaming branches")
	}
	return explain(err, "branch_failed")
}

func (r *repo) createBranch(spec engine.BranchChange) error {
	name := heads + spec.Name
	current, _, err := r.head()
	if err != nil {
		return err
	}
	start := cmp.Or(spec.StartPoint, string(plumbing.HEAD))
	from, _, err := r.resolve(start)
	if err != nil {
		return err
	}
	commit, err := r.resolveCommit(start)
	if err != nil {
		return err
	}
	_, old, err := r.resolveRef(name)
	if err != nil {
		return err
	}
	why := "branch: Created from "
	if !old.IsZero() {
		why = "branch: Reset to "
		if !spec.Force {
			return engine.Exists("there is a branch %s already", spec.Name)
		}
		if err := r.checkUnused(name); err != nil {
			return err
		}
	}
	why += cmp.Or(spec.StartPoint, shorten(current), string(plumbing.HEAD))
	if err := r.updateRef(refChange{name: name, to: commit, old: &old, by: r.committer(), reason: why}); err != nil {
		return err
	}
	if remote, merge := r.remoteOf(from); remote != "" && !spec.NoTrack {
		return r.setUpstream(spec.Name, remote, merge)
	}
	return nil
}

// remoteOf returns the remote and its branch that a tracking ref stands for.
func (r *repo) remoteOf(ref string) (remote, merge string) {
	rest, ok := strings.CutPrefix(ref, "refs/remotes/")
	for i := range len(rest) {
		if !ok || rest[i] != '/' {
			continue
		}
		for _, text := range r.config.Values("remote", rest[:i], "fetch") {
			if spec := config.RefSpec(strings.TrimPrefix(text, "+")); spec.Validate() == nil {
				if back := spec.Reverse(); back.Match(plumbing.ReferenceName(ref)) {
					return rest[:i], string(back.Dst(plumbing.ReferenceName(ref)))
				}
			}
		}
	}
	return "", ""
}

// checkUnused refuses to change a branch that is checked out, here or in a linked work tree.
func (r *repo) checkUnused(ref string) error {
	files := []string{string(plumbing.HEAD)}
	if dir, err := r.git.Open("worktrees"); err == nil {
		linked, err := dir.ReadDir(-1)
		dir.Close()
		if err != nil {
			return err
		}
		for _, w := range linked {
			files = append(files, "worktrees/"+w.Name()+"/HEAD")
		}
	}
	for _, file := range files {
		data, err := r.readSmall(file)
		if err != nil {
			return err
		}
		if target, ok := strings.CutPrefix(strings.TrimSpace(string(data)), "ref:"); ok && strings.TrimSpace(target) == ref {
			return engine.InUse("the branch %s is checked out", shorten(ref))
		}
	}
	return nil
}

func (r *repo) deleteBranch(ctx context.Context, spec engine.BranchChange) error {
	name := heads + spec.Name
	_, at, err := r.resolveRef(name)
	if err != nil {
		return err
	}
	if at.IsZero() {
		return engine.RefNotFound("there is no branch %s in %s", spec.Name, r.at.Name)
	}
	if err := r.checkUnused(name); err != nil {
		return err
	}
	if !spec.Force {
		if err := r.checkMerged(ctx, name, at); err != nil {
			return err
		}
	}
	if err := r.deleteRef(name, &at); err != nil {
		return err
	}
	return r.editConfig(func(text string) string {
		return editSection(text, branchHeader(spec.Name), func(string) bool { return false })
	})
}

// checkMerged refuses to lose commits that neither the upstream of a branch nor, without one, HEAD has.
func (r *repo) checkMerged(ctx context.Context, name string, at plumbing.Hash) error {
	_, into, err := r.head()
	if err != nil {
		return err
	}
	if upstream := r.upstream(name); upstream != "" {
		_, there, err := r.resolveRef(upstream)
		if err != nil {
			return err
		}
		if !there.IsZero() {
			into = there
		}
	}
	if !into.IsZero() {
		if merged, err := r.reaches(ctx, into, at); err != nil || merged {
			return err
		}
	}
	return engine.NotMerged("the branch %s holds commits that are merged nowhere", shorten(name))
}

// setUpstream makes a branch follow a remote's.
func (r *repo) setUpstream(branch, remote, merge string) error {
	return r.editConfig(func(text string) string {
		text = editSection(text, branchHeader(branch), func(line string) bool {
			key, _, _ := strings.Cut(strings.TrimSpace(line), "=")
			key = strings.ToLower(strings.TrimSpace(key))
			return key != "remote" && key != "merge"
		})
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		return text + branchHeader(branch) + "\n\tremote = " + quoteValue(remote) + "\n\tmerge = " + quoteValue(merge) + "\n"
	})
}

// branchHeader is the line with which git begins the section of a branch.
func branchHeader(name string) string {
	return `[branch "` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(name) + `"]`
}

// editSection keeps the lines of a section for which keep is true, and everything outside of it.
func editSection(text, header string, keep func(line string) bool) string {
	var b strings.Builder
	inside := false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "[") {
			inside = strings.TrimSpace(line) == header
		}
		if !inside || keep(line) {
			b.WriteString(line)
		}
	}
	return b.String()
}

// quoteValue writes a value as git reads it back.
func quoteValue(text string) string {
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`).Replace(text)
	if quoted != text || strings.ContainsAny(text, "#;") || strings.TrimSpace(text) != text {
		return `"` + quoted + `"`
	}
	return text
}

// editConfig changes the text of the configuration under its lock.
func (r *repo) editConfig(change func(string) string) error {
	lock, err := acquire(r.git, "config")
	if err != nil {
		return err
	}
	defer lock.release()
	data, err := r.readSmall("config")
	if err != nil {
		return err
	}
	text := change(string(data))
	if text == string(data) {
		return nil
	}
	if _, err := gitconfig.Parse([]byte(text)); err != nil {
		return skill.Failed("bad_config", "the configuration of %s is in a form that cannot be edited here: %v", r.at.Name, err)
	}
	return lock.replace([]byte(text))
}
