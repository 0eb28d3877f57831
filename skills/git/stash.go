package git

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/guard"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/skill"
)

type stashInput struct {
	on
	Action    string   `json:"action"`
	Message   string   `json:"message"`
	Paths     []string `json:"paths"`
	Untracked bool     `json:"include_untracked"`
	KeepIndex bool     `json:"keep_index"`
	Index     bool     `json:"index"`
	Entry     int      `json:"entry"`
}

type stashData struct {
	about
	Action  string              `json:"action"`
	Commit  string              `json:"commit"`
	Stashes []engine.StashEntry `json:"stashes"`
}

// Stash is git.stash.
func (f family) Stash(ctx context.Context, c *skill.Call, in stashInput) (*stashData, error) {
	if err := in.checkInput(); err != nil {
		return nil, err
	}
	ctx, r, err := f.openRepo(ctx, c, in.on)
	if err != nil {
		return nil, err
	}
	defer r.close()
	spec := engine.StashSpec{
		Action: in.Action, Message: in.Message, Paths: in.Paths, Untracked: in.Untracked, KeepIndex: in.KeepIndex, Index: in.Index, Entry: in.Entry,
	}
	if in.Action != engine.StashList && in.Action != engine.StashDrop {
		if err := guard.ExcludeOwn(c.Root, r.at.CommonDir); err != nil {
			return nil, err
		}
		who := r.commitAs(c, nil)
		spec.By = engine.Signature{Name: who.Name, Email: who.Email, When: time.Now().UTC()}
	}
	stashed, err := r.Stash(ctx, spec)
	switch {
	case err != nil:
		return nil, err
	case len(stashed.Conflicts) > 0:
		return nil, engine.Conflict(stashed.Conflicts, "the stash was put back and left conflicts in %s; it is kept", strings.Join(stashed.Conflicts, ", "))
	case stashed.Commit == "" && in.Action == engine.StashPush:
		return nil, fault.Failed("nothing_to_stash", "%s has no changes to stash", r.at.Name).
			WithHint(`untracked files are stashed with "include_untracked":true`)
	}
	return &stashData{about: r.describe(), Action: in.Action, Commit: stashed.Commit, Stashes: stashed.Entries}, nil
}

// checkInput validates the input alone.
func (in *stashInput) checkInput() error {
	in.Action = cmp.Or(in.Action, engine.StashPush)
	push := in.Action == engine.StashPush
	put := in.Action == engine.StashPop || in.Action == engine.StashApply
	switch actions := []string{engine.StashPush, engine.StashPop, engine.StashApply, engine.StashList, engine.StashDrop}; {
	case !slices.Contains(actions, in.Action):
		return skill.BadInput("/action", "%q is not one of %s", in.Action, strings.Join(actions, ", "))
	case !push && (in.Message != "" || len(in.Paths) > 0 || in.Untracked || in.KeepIndex):
		return skill.BadInput("/action", "%s takes none of message, paths, include_untracked and keep_index", in.Action)
	case !put && in.Index:
		return skill.BadInput("/index", "is for pop and apply")
	case in.Entry < 0:
		return skill.BadInput("/entry", "is negative")
	case in.Entry > 0 && (push || in.Action == engine.StashList):
		return skill.BadInput("/entry", "is for pop, apply and drop")
	case len(in.Message) > guard.MaxRevision || strings.ContainsFunc(in.Message, unicode.IsControl):
		return skill.BadInput("/message", "must be one line of at most %d bytes", guard.MaxRevision)
	}
	return guard.CheckPaths(in.Paths)
}
