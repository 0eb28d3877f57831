package native

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/native/objects"
	"github.com/spritekit/lattice/skills/git/native/refs"
	"github.com/spritekit/lattice/skills/git/native/wire"
	"github.com/spritekit/lattice/spritekit/skill"
)

// target is where commits go: a remote, or a repository of the workspace.
type target interface {
	// refs are where the target's refs are.
	refs() map[string]id
	// push moves refs and takes in what objects are sent. It returns why refs were refused.
	push(ctx context.Context, commands []wire.Command, send func(io.Writer) error) (map[string]string, error)
	close() error
}

// Push makes refs of the target point to commits of this repository. What the target lacks is found from where its refs
// are, as far as those commits are here, too.
func (r *repo) Push(ctx context.Context, spec engine.PushSpec) ([]engine.PushedRef, error) {
	t, err := openTarget(ctx, spec.To)
	if err != nil {
		return nil, explain(err, "push_failed")
	}
	list, err := r.push(ctx, t, spec)
	return list, errors.Join(explain(judgePush(err), "push_failed"), t.close())
}

func judgePush(err error) error {
	if errors.Is(err, wire.ErrRefused) {
		return skill.Failed("push_failed", "%v", err)
	}
	return judgeRemote(err)
}

func openTarget(ctx context.Context, to engine.Source) (target, error) {
	if to.Bundle {
		return nil, skill.Failed("push_failed", "a bundle cannot be pushed to")
	}
	if to.Local {
		l, err := openLocal(to.URL)
		if err != nil {
			return nil, err
		}
		return &localTarget{l}, nil
	}
	conn, err := wire.Dial(ctx, remote(to), wire.ReceivePack)
	if err != nil {
		return nil, judgePush(err)
	}
	return &remoteTarget{conn}, nil
}

func (r *repo) push(ctx context.Context, t target, spec engine.PushSpec) ([]engine.PushedRef, error) {
	there := t.refs()
	var list []engine.PushedRef
	var commands []wire.Command
	asked := map[string]int{}
	for i, ref := range spec.Refs {
		p, cmd, err := r.judge(ctx, ref, there[ref.To])
		if err != nil {
			return nil, err
		}
		if list = append(list, p); p.Status == engine.PushOK {
			commands = append(commands, cmd)
			asked[ref.To] = i
		}
	}
	if spec.DryRun || len(commands) == 0 {
		return list, r.afterPush(spec, list)
	}
	send, err := r.pack(ctx, commands, there)
	if err != nil {
		return nil, err
	}
	refused, err := t.push(ctx, commands, send)
	if err != nil {
		return nil, err
	}
	for name, reason := range refused {
		i, ok := asked[name]
		if !ok {
			continue
		}
		list[i].Status, list[i].Reason = engine.PushRejected, "[remote rejected] ("+reason+")"
		list[i].Stale = strings.Contains(reason, "stale info") || strings.Contains(reason, "fetch first") || strings.Contains(reason, "non-fast-forward")
	}
	return list, r.afterPush(spec, list)
}

// judge decides what becomes of a ref as far as that is known here.
func (r *repo) judge(ctx context.Context, ref engine.PushRef, now id) (engine.PushedRef, wire.Command, error) {
	p := engine.PushedRef{Ref: ref.To, New: ref.From, Status: engine.PushOK}
	cmd := wire.Command{Name: ref.To, Old: now}
	if !refs.ValidName(ref.To) {
		return p, cmd, skill.Unsafe("unsafe", "%q is no name of a ref", ref.To)
	}
	if ref.From != "" {
		var ok bool
		if cmd.New, ok = objects.ParseID(ref.From); !ok {
			return p, cmd, skill.Failed("push_failed", "%q is no commit", ref.From)
		}
	}
	reject := func(reason string, stale bool) (engine.PushedRef, wire.Command, error) {
		p.Status, p.Reason, p.Stale = engine.PushRejected, reason, stale
		return p, cmd, nil
	}
	expected := strings.TrimLeft(ref.Expect, "0")
	switch {
	case cmd.New == now && ref.From != "":
		p.Status = engine.PushUpToDate
		return p, cmd, nil
	case ref.Expect != "" && expected != strings.TrimLeft(hexOf(now), "0"):
		return reject("[rejected] (stale info)", true)
	case ref.From == "" && now.IsZero():
		return reject("[rejected] (remote ref does not exist)", false)
	case ref.From == "" || now.IsZero() || ref.Force || ref.Expect != "":
		return p, cmd, nil
	}
	if strings.HasPrefix(ref.To, "refs/tags/") {
		return reject("[rejected] (already exists)", false)
	}
	has, err := r.objects.Has(now)
	if err != nil {
		return p, cmd, err
	}
	if !has {
		return reject("[rejected] (fetch first)", true)
	}
	if forward, err := r.reaches(ctx, cmd.New, now); err != nil || !forward {
		if err != nil {
			return p, cmd, err
		}
		return reject("[rejected] (non-fast-forward)", true)
	}
	return p, cmd, nil
}

// pack finds what must be sent, and returns what sends it.
func (r *repo) pack(ctx context.Context, commands []wire.Command, there map[string]id) (func(io.Writer) error, error) {
	var want, have []id
	var tags []id
	for _, cmd := range commands {
		at := cmd.New
		for !at.IsZero() {
			typ, err := r.objects.TypeOf(at)
			if err != nil {
				return nil, err
			}
			if typ == objects.Commit {
				want = append(want, at)
			}
			if typ != objects.Tag {
				break
			}
			tags = append(tags, at)
			if at, err = r.objects.TagTarget(at); err != nil {
				return nil, err
			}
		}
	}
	for _, at := range there {
		if has, err := r.objects.Has(at); err != nil {
			return nil, err
		} else if !has {
			continue
		}
		if commit, typ, err := r.objects.Peel(at); err == nil && typ == objects.Commit {
			have = append(have, commit)
		}
	}
	ids, err := r.missing(ctx, want, have)
	if err != nil {
		return nil, err
	}
	ids = append(tags, ids...)
	return func(w io.Writer) error { return r.objects.Send(w, ids, nil) }, nil
}

// afterPush lets the tracking refs of branches follow, and a branch follow its new upstream.
func (r *repo) afterPush(spec engine.PushSpec, list []engine.PushedRef) error {
	if spec.DryRun || spec.Remote == "" {
		return nil
	}
	for _, p := range list {
		local := r.trackingRef(spec.Remote, p.Ref)
		if local == "" || p.Status == engine.PushRejected {
			continue
		}
		to, _ := objects.ParseID(p.New)
		if to.IsZero() {
			if _, err := r.refs.Read(local); err == nil {
				if err := r.refs.Delete(local, nil); err != nil {
					return err
				}
			}
			continue
		}
		if now, err := r.refs.Read(local); err == nil && now.ID == to {
			continue
		}
		if err := r.refs.Update(refs.Change{Name: local, New: to, By: r.byUs(), Why: "update by push"}); err != nil {
			return err
		}
	}
	if spec.SetUpstream == "" || len(list) == 0 || list[0].Status == engine.PushRejected {
		return nil
	}
	return r.editConfig(func(text string) string { return setBranch(text, spec.SetUpstream, spec.Remote, list[0].Ref) })
}

// trackingRef is where a ref of a remote is kept, "" for nowhere.
func (r *repo) trackingRef(remote, ref string) string {
	for _, spec := range r.values("remote", remote, "fetch") {
		from, to, ok := strings.Cut(strings.TrimPrefix(spec, "+"), ":")
		before, after, wild := strings.Cut(from, "*")
		local := ""
		switch {
		case !ok:
		case !wild && from == ref:
			local = to
		case wild && len(ref) >= len(before)+len(after) && strings.HasPrefix(ref, before) && strings.HasSuffix(ref, after):
			local = strings.Replace(to, "*", ref[len(before):len(ref)-len(after)], 1)
		}
		if local != "" && refs.ValidName(local) {
			return local
		}
	}
	return ""
}

// remoteTarget speaks to a remote.
type remoteTarget struct{ conn *wire.Conn }

func (t *remoteTarget) close() error { return t.conn.Close() }

func (t *remoteTarget) refs() map[string]id {
	at := map[string]id{}
	for _, ref := range t.conn.Refs {
		at[ref.Name] = ref.ID
	}
	return at
}

func (t *remoteTarget) push(ctx context.Context, commands []wire.Command, send func(io.Writer) error) (map[string]string, error) {
	return t.conn.Push(ctx, commands, send, nil)
}

// localTarget is a repository of the workspace, written by the same rules as our own: objects, then refs under their locks.
type localTarget struct{ *local }

func (t *localTarget) refs() map[string]id {
	at := map[string]id{}
	for _, ref := range t.list() {
		if found, ok := objects.ParseID(ref.ID); ok && ref.Name != refs.Head {
			at[ref.Name] = found
		}
	}
	return at
}

func (t *localTarget) push(ctx context.Context, commands []wire.Command, send func(io.Writer) error) (map[string]string, error) {
	read, write := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		write.CloseWithError(send(write))
	}()
	_, err := t.repo.objects.Receive(ctx, read, objects.Intake{Check: checkObject})
	read.Close()
	<-done
	if err != nil {
		return nil, err
	}
	refused := map[string]string{}
	for _, cmd := range commands {
		if used, err := t.repo.checkedOut(cmd.Name); err != nil {
			return nil, err
		} else if used && !t.bare() {
			refused[cmd.Name] = "branch is currently checked out"
			continue
		}
		if cmd.New.IsZero() {
			err = t.repo.refs.Delete(cmd.Name, &cmd.Old)
		} else {
			err = t.repo.refs.Update(refs.Change{Name: cmd.Name, New: cmd.New, Old: &cmd.Old, By: t.repo.byUs(), Why: why(t.bare())})
		}
		if err != nil {
			refused[cmd.Name] = fmt.Sprint(err)
		}
	}
	return refused, nil
}

// why is what the log says; a bare repository keeps none.
func why(bare bool) string {
	if bare {
		return ""
	}
	return "push"
}

func (t *localTarget) bare() bool {
	c, ok := t.repo.config.(asSource)
	return ok && c.Bool("core", "", "bare", false)
}

// Bundle writes the commits of Ref that Base lacks, as git bundle create Base..Ref does.
func (r *repo) Bundle(ctx context.Context, spec engine.BundleSpec, w io.Writer) error {
	return explain(r.bundle(ctx, spec, w), "push_failed")
}

func (r *repo) bundle(ctx context.Context, spec engine.BundleSpec, w io.Writer) error {
	tip, err := r.commitNamed(spec.Ref)
	if err != nil {
		return err
	}
	base, err := r.commitNamed(spec.Base)
	if err != nil {
		return err
	}
	ids, err := r.missing(ctx, []id{tip}, []id{base})
	if err != nil {
		return err
	}
	if len(ids) == 0 {
		return skill.Failed("push_failed", "%s holds nothing that %s lacks", spec.Ref, spec.Base)
	}
	_, borders, err := r.between2(ctx, []id{tip}, []id{base})
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString("# v2 git bundle\n")
	for _, commit := range borders {
		c, err := r.objects.Commit(commit)
		if err != nil {
			return err
		}
		subject, _ := splitMessage(c.Message)
		fmt.Fprintf(&b, "-%s %s\n", commit, subject)
	}
	fmt.Fprintf(&b, "%s %s\n\n", tip, spec.Ref)
	if _, err := io.WriteString(w, b.String()); err != nil {
		return err
	}
	return r.objects.Send(w, ids, nil)
}
