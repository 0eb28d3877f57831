package native

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/gitconfig"
	"github.com/spritekit/lattice/skills/git/native/objects"
	"github.com/spritekit/lattice/skills/git/native/refs"
	"github.com/spritekit/lattice/spritekit/skill"
)

const heads = "refs/heads/"

// Branches lists branches and how far they are from what they follow.
func (r *repo) Branches(ctx context.Context, spec engine.BranchList) ([]engine.Branch, error) {
	list, err := r.branches(ctx, spec)
	return list, explain(err, "branch_failed")
}

func (r *repo) branches(ctx context.Context, spec engine.BranchList) ([]engine.Branch, error) {
	current, head, err := r.head()
	if err != nil {
		return nil, err
	}
	found, err := r.refs.List(heads)
	if err != nil {
		return nil, err
	}
	if spec.Remote && spec.Name == "" {
		remote, err := r.refs.List("refs/remotes/")
		if err != nil {
			return nil, err
		}
		found = append(found, remote...)
	}
	list := []engine.Branch{}
	if strings.HasPrefix(current, heads) && head.IsZero() && (spec.Name == "" || current == heads+spec.Name) {
		list = append(list, engine.Branch{Name: short(current), Current: true, Upstream: short(r.upstream(current))})
	}
	for _, ref := range found {
		if ref.Target != "" && strings.HasSuffix(ref.Name, "/HEAD") || spec.Name != "" && ref.Name != heads+spec.Name {
			continue
		}
		if spec.Max > 0 && len(list) >= spec.Max {
			break
		}
		b, err := r.branch(ctx, ref)
		if err != nil {
			return nil, err
		}
		b.Current = ref.Name == current
		list = append(list, b)
	}
	return list, nil
}

func (r *repo) branch(ctx context.Context, ref refs.Ref) (engine.Branch, error) {
	b := engine.Branch{Name: short(ref.Name), Commit: ref.ID.String(), Remote: !strings.HasPrefix(ref.Name, heads)}
	upstream := r.upstream(ref.Name)
	if upstream == "" {
		return b, nil
	}
	b.Upstream = short(upstream)
	there, err := r.refs.Resolve(upstream)
	if errors.Is(err, refs.ErrNotFound) || err == nil && there.ID.IsZero() {
		b.Gone = true
		return b, nil
	}
	if err != nil {
		return b, err
	}
	b.Ahead, b.Behind, err = r.apart(ctx, ref.ID, there.ID)
	return b, err
}

// ChangeBranch creates, deletes or renames a branch.
func (r *repo) ChangeBranch(ctx context.Context, spec engine.BranchChange) error {
	if !refs.ValidName(heads + spec.Name) {
		return skill.Unsafe("unsafe", "%q is no name of a branch", spec.Name)
	}
	var err error
	switch spec.Action {
	case engine.BranchCreate:
		err = r.createBranch(spec)
	case engine.BranchDelete:
		err = r.deleteBranch(ctx, spec)
	case engine.BranchRename:
		err = r.renameBranch(spec)
	default:
		err = fmt.Errorf("change a branch: %q is no action", spec.Action)
	}
	if errors.Is(err, refs.ErrConflict) {
		return engine.Exists("%v", err)
	}
	return explain(err, "branch_failed")
}

// byUs is who the logs of refs name when the caller does not say.
func (r *repo) byUs() string {
	name, _ := r.config.Value("user", "", "name")
	email, _ := r.config.Value("user", "", "email")
	return signature(engine.Signature{
		Name: cmp.Or(strings.TrimSpace(name), "Lattice"), Email: cmp.Or(strings.TrimSpace(email), "lattice@localhost"), When: time.Now(),
	}).String()
}

func (r *repo) createBranch(spec engine.BranchChange) error {
	ref := heads + spec.Name
	current, _, err := r.head()
	if err != nil {
		return err
	}
	start := cmp.Or(spec.StartPoint, refs.Head)
	at, err := r.named(start)
	if err != nil {
		return err
	}
	commit, err := r.peelTo(at.ID, objects.Commit, start)
	if err != nil {
		return err
	}
	old, err := r.refs.Resolve(ref)
	if err != nil && !errors.Is(err, refs.ErrNotFound) {
		return err
	}
	why := "branch: Created from "
	if !old.ID.IsZero() {
		if !spec.Force {
			return engine.Exists("there is a branch %s already", spec.Name)
		}
		if used, err := r.checkedOut(ref); err != nil || used {
			return errors.Join(err, inUse(spec.Name, used))
		}
		why = "branch: Reset to "
	}
	from := spec.StartPoint
	if from == "" {
		from = cmp.Or(short(current), refs.Head)
	}
	if err := r.refs.Update(refs.Change{Name: ref, New: commit, Old: &old.ID, By: r.byUs(), Why: why + from}); err != nil {
		return err
	}
	if spec.NoTrack || !strings.HasPrefix(at.Name, "refs/remotes/") {
		return nil
	}
	remote, merge := r.tracked(at.Name)
	if remote == "" {
		return nil
	}
	return r.editConfig(func(text string) string { return setBranch(text, spec.Name, remote, merge) })
}

func inUse(name string, used bool) error {
	if !used {
		return nil
	}
	return engine.InUse("the branch %s is checked out", name)
}

// tracked finds the remote and its branch that a tracking ref stands for.
func (r *repo) tracked(ref string) (remote, merge string) {
	rest := strings.TrimPrefix(ref, "refs/remotes/")
	for i := range len(rest) {
		if rest[i] != '/' {
			continue
		}
		for _, spec := range r.values("remote", rest[:i], "fetch") {
			from, to, ok := strings.Cut(strings.TrimPrefix(spec, "+"), ":")
			before, after, wild := strings.Cut(to, "*")
			switch {
			case !ok:
			case !wild && to == ref:
				return rest[:i], from
			case wild && len(ref) >= len(before)+len(after) && strings.HasPrefix(ref, before) && strings.HasSuffix(ref, after):
				return rest[:i], strings.Replace(from, "*", ref[len(before):len(ref)-len(after)], 1)
			}
		}
	}
	return "", ""
}

// checkedOut reports whether a branch is what some work tree is at.
func (r *repo) checkedOut(ref string) (bool, error) {
	common := r.refs.Common()
	names := []string{refs.Head}
	linked, err := fs.ReadDir(common.FS(), "worktrees")
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	for _, w := range linked {
		names = append(names, "worktrees/"+w.Name()+"/"+refs.Head)
	}
	for _, name := range names {
		data, err := refs.ReadFile(common, name, maxSmall)
		if err != nil {
			continue // one that is gone
		}
		if target, ok := bytes.CutPrefix(bytes.TrimSpace(data), []byte("ref:")); ok && string(bytes.TrimSpace(target)) == ref {
			return true, nil
		}
	}
	return false, nil
}

func (r *repo) deleteBranch(ctx context.Context, spec engine.BranchChange) error {
	ref := heads + spec.Name
	at, err := r.refs.Resolve(ref)
	if errors.Is(err, refs.ErrNotFound) {
		return engine.RefNotFound("there is no branch %s in %s", spec.Name, r.at.Name)
	}
	if err != nil {
		return err
	}
	if used, err := r.checkedOut(ref); err != nil || used {
		return errors.Join(err, inUse(spec.Name, used))
	}
	if !spec.Force {
		merged, err := r.merged(ctx, ref, at.ID)
		if err != nil {
			return err
		}
		if !merged {
			return engine.NotMerged("the branch %s holds commits that are merged nowhere", spec.Name)
		}
	}
	if err := r.refs.Delete(ref, &at.ID); err != nil {
		return err
	}
	return r.editConfig(func(text string) string { return dropSection(text, "branch", spec.Name) })
}

// merged reports whether what a branch follows, else HEAD, has its commits.
func (r *repo) merged(ctx context.Context, ref string, at id) (bool, error) {
	if upstream := r.upstream(ref); upstream != "" {
		if there, err := r.refs.Resolve(upstream); err == nil && !there.ID.IsZero() {
			return r.reaches(ctx, there.ID, at)
		}
	}
	_, head, err := r.head()
	if err != nil || head.IsZero() {
		return false, err
	}
	return r.reaches(ctx, head, at)
}

func (r *repo) renameBranch(spec engine.BranchChange) error {
	from, to := heads+spec.Name, heads+spec.NewName
	if !refs.ValidName(to) {
		return skill.Unsafe("unsafe", "%q is no name of a branch", spec.NewName)
	}
	current, head, err := r.head()
	if err != nil {
		return err
	}
	at, err := r.refs.Resolve(from)
	if errors.Is(err, refs.ErrNotFound) && !(current == from && head.IsZero()) {
		return engine.RefNotFound("there is no branch %s in %s", spec.Name, r.at.Name)
	}
	if err != nil && !errors.Is(err, refs.ErrNotFound) {
		return err
	}
	old, err := r.refs.Resolve(to)
	if err != nil && !errors.Is(err, refs.ErrNotFound) {
		return err
	}
	if !old.ID.IsZero() && from != to {
		if !spec.Force {
			return engine.Exists("there is a branch %s already", spec.NewName)
		}
		if used, err := r.checkedOut(to); err != nil || used {
			return errors.Join(err, inUse(spec.NewName, used))
		}
	}
	if !at.ID.IsZero() && from != to {
		if err := r.moveRef(from, to, at.ID); err != nil {
			return err
		}
	}
	if err := r.followRename(from, to); err != nil {
		return err
	}
	return r.editConfig(func(text string) string { return renameSection(text, "branch", spec.Name, spec.NewName) })
}

// moveRef renames a ref together with its log. The log waits aside, because a may become a/b.
func (r *repo) moveRef(from, to string, at id) error {
	const aside = "refs/.tmp-renamed-log"
	if err := r.refs.MoveLog(from, aside); err != nil {
		return err
	}
	if err := r.refs.Delete(from, &at); err != nil {
		return errors.Join(err, r.refs.MoveLog(aside, from))
	}
	by, why := r.byUs(), "Branch: renamed "+from+" to "+to
	err := r.refs.Update(refs.Change{Name: to, New: at})
	if err != nil { // put it back
		err = errors.Join(err, r.refs.Update(refs.Change{Name: from, New: at}), r.refs.MoveLog(aside, from))
		return err
	}
	if err := r.refs.MoveLog(aside, to); err != nil {
		return err
	}
	return r.refs.Log(to, at, at, by, why)
}

// followRename makes the work trees that were at a branch be at its new name.
func (r *repo) followRename(from, to string) error {
	current, head, err := r.head()
	if err != nil {
		return err
	}
	if current == from {
		if err := r.refs.SetSymbolic(refs.Head, to); err != nil {
			return err
		}
		if head.IsZero() {
			if there, err := r.refs.Resolve(to); err == nil && !there.ID.IsZero() {
				return r.refs.Log(refs.Head, there.ID, there.ID, r.byUs(), "Branch: renamed "+from+" to "+to)
			}
		}
		return nil
	}
	if used, err := r.checkedOut(from); err != nil || used {
		return errors.Join(err, engine.Refuse(engine.Native, "renaming a branch that another work tree is at"))
	}
	return nil
}

// editConfig changes the configuration's text under its lock, and writes it if it changed and still is one.
func (r *repo) editConfig(change func(string) string) error {
	lock, err := refs.Acquire(r.refs.Common(), "config")
	if err != nil {
		return err
	}
	defer lock.Release()
	data, err := refs.ReadFile(r.refs.Common(), "config", maxSmall)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	text := change(string(data))
	if text == string(data) {
		return nil
	}
	if _, err := gitconfig.Parse([]byte(text)); err != nil {
		return skill.Failed("bad_config", "the configuration of %s is in a form that cannot be edited here: %v", r.at.Name, err)
	}
	return lock.Replace([]byte(text))
}
