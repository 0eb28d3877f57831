package native

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/native/gitdir"
	"github.com/spritekit/lattice/skills/git/native/wire"
	"github.com/spritekit/lattice/spritekit/fault"
)

// target is where commits go: a remote over HTTP, or a repository of the workspace.
type target interface {
	// IDs returns where the target's refs are.
	IDs() map[string]plumbing.Hash
	// Push moves refs and takes in a pack. It returns the reason for each ref that was refused.
	Push(ctx context.Context, commands []*packp.Command, pack io.ReadCloser) (map[string]string, error)
	Close() error
}

func openTarget(ctx context.Context, to engine.Source) (target, error) {
	if to.Bundle {
		return nil, fault.Failed("push_failed", "a bundle cannot be pushed to")
	}
	if to.Local {
		l, err := openLocal(to.URL)
		if err != nil {
			return nil, err
		}
		return localTarget{l}, nil
	}
	return wire.OpenTarget(ctx, to)
}

// Push makes refs of the target point to commits of this repository.
func (r *repo) Push(ctx context.Context, spec engine.PushSpec) ([]engine.PushedRef, error) {
	if spec.SetUpstream != "" {
		return nil, refuseAction("letting a branch follow another (set_upstream)")
	}
	t, err := openTarget(ctx, spec.To)
	if err != nil {
		return nil, explainError(err, "push_failed")
	}
	list, err := r.pushRefs(ctx, t, spec)
	return list, explainError(errors.Join(err, t.Close()), "push_failed")
}

func (r *repo) pushRefs(ctx context.Context, t target, spec engine.PushSpec) ([]engine.PushedRef, error) {
	there := t.IDs()
	var list []engine.PushedRef
	var commands []*packp.Command
	asked := map[string]int{}
	for i, ref := range spec.Refs {
		p, err := r.judgePush(ctx, ref, there[ref.To])
		if err != nil {
			return nil, err
		}
		if list = append(list, p); p.Status == engine.PushOK {
			cmd := packp.Command{Name: plumbing.ReferenceName(ref.To), Old: there[ref.To], New: plumbing.NewHash(ref.From)}
			commands = append(commands, &cmd)
			asked[ref.To] = i
		}
	}
	if spec.DryRun || len(commands) == 0 {
		return list, r.afterPush(spec, list)
	}
	pack, err := r.packFor(ctx, commands, there)
	if err != nil {
		return nil, err
	}
	defer pack.Close()
	refused, err := t.Push(ctx, commands, pack)
	if err != nil {
		return nil, err
	}
	for name, reason := range refused {
		if i, ok := asked[name]; ok {
			list[i].Status, list[i].Reason = engine.PushRejected, "[remote rejected] ("+reason+")"
			list[i].Stale = strings.Contains(reason, "stale info") || strings.Contains(reason, "fetch first") || strings.Contains(reason, "non-fast-forward")
		}
	}
	return list, r.afterPush(spec, list)
}

// judgePush decides whether a ref can be pushed, as far as that is known here; now is its commit at the target.
func (r *repo) judgePush(ctx context.Context, ref engine.PushRef, now plumbing.Hash) (engine.PushedRef, error) {
	p := engine.PushedRef{Ref: ref.To, New: ref.From, Status: engine.PushOK}
	if !gitdir.IsRefName(ref.To) {
		return p, fault.Unsafe("unsafe", "%q is not the name of a ref", ref.To)
	}
	if ref.From == "" {
		return p, refuseAction("deleting refs of a remote")
	}
	if !plumbing.IsHash(ref.From) {
		return p, fault.Failed("push_failed", "%q is not a commit", ref.From)
	}
	reject := func(reason string, stale bool) (engine.PushedRef, error) {
		p.Status, p.Reason, p.Stale = engine.PushRejected, "[rejected] ("+reason+")", stale
		return p, nil
	}
	switch {
	case plumbing.NewHash(ref.From) == now:
		p.Status = engine.PushUpToDate
		return p, nil
	case ref.Expect != "" && strings.TrimLeft(ref.Expect, "0") != strings.TrimLeft(gitdir.Hex(now), "0"):
		return reject("stale info", true)
	case now.IsZero() || ref.Force || ref.Expect != "":
		return p, nil
	case strings.HasPrefix(ref.To, "refs/tags/"):
		return reject("already exists", false)
	case r.Store.HasEncodedObject(now) != nil:
		return reject("fetch first", true)
	}
	forward, err := r.Reaches(ctx, plumbing.NewHash(ref.From), now)
	if err == nil && !forward {
		return reject("non-fast-forward", true)
	}
	return p, err
}

// packFor streams the objects that the target lacks, as far as the local commits of its refs tell.
func (r *repo) packFor(ctx context.Context, commands []*packp.Command, there map[string]plumbing.Hash) (io.ReadCloser, error) {
	var want, have []plumbing.Hash
	for _, cmd := range commands {
		want = append(want, cmd.New)
	}
	for _, id := range there {
		if commit, typ, err := r.Peel(id); err == nil && typ == plumbing.CommitObject {
			have = append(have, commit)
		}
	}
	objects, err := r.Lacking(ctx, want, have)
	if err != nil {
		return nil, err
	}
	return streamFrom(func(w io.Writer) error { return r.WritePack(ctx, w, objects) }), nil
}

// afterPush lets the tracking refs of branches follow.
func (r *repo) afterPush(spec engine.PushSpec, list []engine.PushedRef) error {
	if spec.DryRun || spec.Remote == "" {
		return nil
	}
	for _, p := range list {
		name := r.Tracking(spec.Remote, p.Ref)
		if name == "" || p.Status == engine.PushRejected {
			continue
		}
		_, now, err := r.ResolveRef(name)
		to := plumbing.NewHash(p.New)
		if err == nil && now != to {
			err = r.UpdateRef(gitdir.RefChange{Name: name, To: to, By: r.Committer(), Reason: "update by push"})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// localTarget is a repository of the workspace, written by the rules of our own: objects, then refs under their locks.
type localTarget struct{ *local }

func (t localTarget) IDs() map[string]plumbing.Hash {
	ids := map[string]plumbing.Hash{}
	for _, ref := range t.List() {
		if ref.Name != string(plumbing.HEAD) {
			ids[ref.Name] = plumbing.NewHash(ref.ID)
		}
	}
	return ids
}

func (t localTarget) Push(ctx context.Context, commands []*packp.Command, pack io.ReadCloser) (map[string]string, error) {
	if _, _, err := t.Receive(ctx, pack, engine.Limits{}, nil); err != nil {
		return nil, err
	}
	bare, refused := t.Config.Bool("core", "", "bare", false), map[string]string{}
	for _, cmd := range commands {
		name, reason := string(cmd.Name), "push"
		if bare {
			reason = "" // a bare repository keeps no logs
		} else if t.checkUnused(name) != nil {
			refused[name] = "branch is currently checked out"
			continue
		}
		if err := t.UpdateRef(gitdir.RefChange{Name: name, To: cmd.New, Old: &cmd.Old, By: t.Committer(), Reason: reason}); err != nil {
			refused[name] = fmt.Sprint(err)
		}
	}
	return refused, nil
}

// Bundle writes the commits of Ref that Base lacks, as git bundle create Base..Ref does.
func (r *repo) Bundle(ctx context.Context, spec engine.BundleSpec, w io.Writer) error {
	return explainError(r.writeBundle(ctx, spec, w), "push_failed")
}

func (r *repo) writeBundle(ctx context.Context, spec engine.BundleSpec, w io.Writer) error {
	tip, err := r.ResolveCommit(spec.Ref)
	if err != nil {
		return err
	}
	base, err := r.ResolveCommit(spec.Base)
	if err != nil {
		return err
	}
	objects, borders, err := r.Missing(ctx, []plumbing.Hash{tip}, []plumbing.Hash{base})
	if err != nil {
		return err
	}
	if len(objects) == 0 {
		return fault.Failed("push_failed", "%s holds nothing that %s lacks", spec.Ref, spec.Base)
	}
	header := "# v2 git bundle\n"
	for _, border := range borders {
		c, err := r.ReadCommit(border)
		if err != nil {
			return err
		}
		subject, _ := splitMessage(c.Message)
		header += fmt.Sprintf("-%s %s\n", border, subject)
	}
	if _, err := fmt.Fprintf(w, "%s%s %s\n\n", header, tip, spec.Ref); err != nil {
		return err
	}
	return r.WritePack(ctx, w, objects)
}
