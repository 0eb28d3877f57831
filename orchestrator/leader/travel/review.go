package travel

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/action"
	"github.com/spritekit/lattice/orchestrator/difference"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/retention"
	"github.com/spritekit/lattice/orchestrator/leader/views"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/orchestrator/worktree"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Bounds of the files that are compared by content.
const (
	maxShownFile  = 1 << 20
	maxShownFiles = 500
)

// Reviewer shows the content of changes (api.Review).
type Reviewer struct {
	Store  *store.Store
	Client *sprites.Client
	Git    *worktree.Git
	Actor  *action.Fulfiller
	Views  *views.Views
	Travel *Travel
}

// Proposed returns the content of a push.
func (v *Reviewer) Proposed(ctx context.Context, id, wait string) (difference.Patch, error) {
	id, err := v.Travel.Records.Resolve(id)
	if err != nil {
		return difference.Patch{}, err
	}
	a, err := v.findPush(ctx, id, wait)
	if err != nil {
		return difference.Patch{}, err
	}
	p, err := v.Actor.Patch(ctx, a)
	if no, ok := errors.AsType[*lattice.Refusal](err); ok {
		return difference.Patch{}, fault.Failed(no.Fault.Code, "the content of the push cannot be shown: %s", no.Fault.Message).WithHint("%s", no.Fault.Hint)
	}
	if err != nil {
		return difference.Patch{}, fmt.Errorf("show the push of %s: %w", id, err)
	}
	return difference.Patch{Text: p.Text, Cut: p.Cut}, nil
}

// findPush returns the push that a run waits for, else the last one that it proposed.
func (v *Reviewer) findPush(ctx context.Context, id, wait string) (lattice.Action, error) {
	view, err := v.Views.Run(ctx, id)
	if err != nil {
		return lattice.Action{}, err
	}
	var found []lattice.Action
	for _, w := range view.Waits {
		if w.Action != nil && action.Pushes(*w.Action) && (wait == "" || wait == w.ID) {
			found = append(found, *w.Action)
		}
	}
	if len(found) > 1 {
		return lattice.Action{}, fault.BadInput("several_waits", "%s waits with several pushes", id).WithHint("--wait ID")
	}
	if len(found) == 0 && wait == "" {
		history, err := v.Store.Load(id)
		if err != nil {
			return lattice.Action{}, fmt.Errorf("read facts of run %s: %w", id, err)
		}
		for _, e := range slices.Backward(history.Facts) {
			f, err := lattice.DecodeFact(e.Type, e.Body)
			if s, ok := f.(lattice.CallSuspended); err == nil && ok && s.Action != nil && action.Pushes(*s.Action) {
				found = append(found, *s.Action)
				break
			}
		}
	}
	if len(found) == 0 {
		return lattice.Action{}, fault.NotFound("no_patch", "%s proposes no push, so there is no change to show", id).WithHint("lattice diff %s --patch shows what changed in its sprite", id)
	}
	return found[0], nil
}

// ComparedFiles returns the content of the files that differ between two moments. It leaves out git's own files, large files
// and files that are not regular.
func (v *Reviewer) ComparedFiles(ctx context.Context, id, from, to string) (difference.Patch, error) {
	id, err := v.Travel.Records.Resolve(id)
	if err != nil {
		return difference.Patch{}, err
	}
	p, err := v.Travel.loadPast(ctx, id)
	if err != nil {
		return difference.Patch{}, err
	}
	a, b, err := p.Moments(from, to)
	if err != nil {
		return difference.Patch{}, err
	}
	changes, note, err := v.Travel.compareFiles(ctx, p, a, b)
	if err != nil || note != "" || len(changes) == 0 {
		return difference.Patch{Note: note}, err
	}
	ends, _, err := v.Travel.findEnds(ctx, p, a, b)
	if err != nil {
		return difference.Patch{}, err
	}
	var names [2]string
	for i, checkpoint := range ends {
		name, remove, err := v.spriteAt(ctx, id, p.Sprite, checkpoint)
		if err != nil {
			return difference.Patch{}, err
		}
		defer remove()
		names[i] = name
	}
	pairs, left, err := v.readPairs(ctx, names, changes)
	if err != nil {
		return difference.Patch{}, err
	}
	patch, err := v.Git.PatchOf(ctx, pairs)
	out := difference.Patch{Text: patch.Text, Cut: patch.Cut}
	if left > 0 {
		out.Note = fmt.Sprintf("%d paths are left out: folders, links, files over %d KiB, or more than %d files", left, maxShownFile>>10, maxShownFiles)
	}
	return out, err
}

// spriteAt returns the name of a sprite with the files of a checkpoint: the sprite itself, or a copy that remove removes.
func (v *Reviewer) spriteAt(ctx context.Context, run, sprite, checkpoint string) (name string, remove func(), err error) {
	if checkpoint == sprites.Current {
		return sprite, func() {}, nil
	}
	return v.copySprite(ctx, run, sprite, checkpoint)
}

// copySprite copies a sprite at a checkpoint. remove removes the copy.
func (v *Reviewer) copySprite(ctx context.Context, run, sprite, checkpoint string) (name string, remove func(), err error) {
	name = retention.CopyPrefix(sprite) + "diff-" + strings.ToLower(rand.Text()[:8])
	if _, err := v.Client.Fork(ctx, sprite, checkpoint, name, retention.CopyLabel(run)); err != nil {
		if retention.CannotFork(err) {
			return "", nil, fault.Unsupported("unsupported", "this Sprites API copies no sprites, which reading a checkpoint's files needs").WithHint("lattice diff without --patch")
		}
		return "", nil, err
	}
	return name, func() {
		// A copy that cannot be removed has the label of the run's copies and is removed with them.
		_ = v.Client.Delete(context.WithoutCancel(ctx), name)
	}, nil
}

// isGit reports whether a path is one of git's own.
func isGit(path string) bool { return slices.Contains(strings.Split(path, "/"), ".git") }

// readPairs reads both sides of each change; left counts the paths that are not shown.
func (v *Reviewer) readPairs(ctx context.Context, names [2]string, changes []sprites.Change) (pairs []worktree.FilePair, left int, err error) {
	for _, c := range changes {
		if isGit(c.Path) {
			continue
		}
		sides := [2]bool{c.OldType == "file" && c.OldSize <= maxShownFile, c.Type == "file" && c.Size <= maxShownFile}
		if !sides[0] && c.OldType != "" || !sides[1] && c.Type != "" || len(pairs) == maxShownFiles {
			left++
			continue
		}
		pair := worktree.FilePair{Path: c.Path}
		for i, content := range []*[]byte{&pair.Before, &pair.After} {
			if !sides[i] {
				continue
			}
			data, err := v.Client.ReadFile(ctx, names[i], c.Path, maxShownFile)
			switch {
			case errors.Is(err, sprites.ErrNotFound), errors.Is(err, sprites.ErrTooLarge): // it changes at the same time
			case err != nil:
				return nil, 0, err
			default:
				*content = append([]byte{}, data...)
			}
		}
		pairs = append(pairs, pair)
	}
	return pairs, left, nil
}
