package travel

import (
	"cmp"
	"context"
	"errors"
	"path"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/engine/replay"
	"github.com/spritekit/lattice/orchestrator/leader/history"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
)

// FolderAt lists a folder of a run's sprite at a moment (api.PastFiles).
func (v *Reviewer) FolderAt(ctx context.Context, id, at, folder string) (api.Folder, error) {
	out := api.Folder{At: at, Path: path.Clean("/" + cmp.Or(folder, "/workspace"))}
	id, sprite, remove, err := v.openMoment(ctx, id, at)
	if err != nil {
		return out, err
	}
	defer remove()
	out.RunID = id
	out.Entries, out.Total, err = v.Client.Files().Some(ctx, sprite, out.Path, api.MaxEntries)
	return out, explainFile(err, id, out.Path)
}

// FileAt returns the content of a file of a run's sprite at a moment (api.PastFiles).
func (v *Reviewer) FileAt(ctx context.Context, id, at, file string) ([]byte, error) {
	if file == "" {
		return nil, fault.BadInput("bad_request", "path names the file")
	}
	file = path.Clean("/" + file)
	id, sprite, remove, err := v.openMoment(ctx, id, at)
	if err != nil {
		return nil, err
	}
	defer remove()
	content, err := v.Client.ReadFile(ctx, sprite, file, api.MaxFile)
	return content, explainFile(err, id, file)
}

// openMoment returns the id of a run and the name of a sprite with the files of a moment: the run's own if they are the present
// ones, else a copy that remove removes.
func (v *Reviewer) openMoment(ctx context.Context, id, at string) (run, sprite string, remove func(), err error) {
	p, checkpoint, err := v.findFiles(ctx, id, at)
	if err == nil {
		sprite, remove, err = v.spriteAt(ctx, p.ID, p.Sprite, checkpoint)
	}
	return p.ID, sprite, remove, err
}

// copyMoment is openMoment that copies the run's own sprite, too.
func (v *Reviewer) copyMoment(ctx context.Context, id, at string) (run, sprite string, remove func(), err error) {
	p, checkpoint, err := v.findFiles(ctx, id, at)
	if err == nil {
		sprite, remove, err = v.copySprite(ctx, p.ID, p.Sprite, checkpoint)
	}
	return p.ID, sprite, remove, err
}

// findFiles returns a run, and the checkpoint with its files at a moment.
func (v *Reviewer) findFiles(ctx context.Context, id, at string) (p history.Past, checkpoint string, err error) {
	run, err := v.Travel.Records.Resolve(id)
	if err != nil {
		return p, "", err
	}
	if p, err = v.Travel.loadPast(ctx, run); err != nil {
		return p, "", err
	}
	checkpoint = sprites.Current
	if at != "" {
		pt, err := v.Travel.findReachable(ctx, p, at)
		if err != nil {
			return p, "", err
		}
		if pt.Files == replay.FilesNone {
			return p, "", fault.NotFound("moment_unavailable", "%s had no files at %s: its sprite was not prepared yet", run, at)
		}
		if pt.Pair != nil {
			checkpoint = pt.Pair.CheckpointID
		}
	}
	if p.Sprite == "" {
		return p, "", fault.NotFound("moment_unavailable", "%s has no sprite, so it has no files", run)
	}
	return p, checkpoint, nil
}

// explainFile returns the error of reading a file for people.
func explainFile(err error, run, file string) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, sprites.ErrTooLarge):
		return fault.Limit("file_too_large", "%s has more than %d KiB", file, api.MaxFile>>10).WithHint("fork the run there, and copy the file out of the fork's sprite: lattice sprite cp")
	case errors.Is(err, sprites.ErrNotFound):
		return fault.NotFound("file_not_found", "the sprite of %s has no %s then", run, file)
	}
	if refused, ok := errors.AsType[*sprites.APIError](err); ok && refused.Status < 500 {
		return fault.BadInput("file_unreadable", "%s cannot be read: %v", file, refused)
	}
	return err
}
