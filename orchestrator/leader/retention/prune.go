// Package retention keeps the files and records that outlive a run, and removes the rest: Artifacts copies declared files, Boundaries removes spare
// checkpoints, Copies makes and removes copies of sprites, and Pruner removes the leftovers of ended runs. Start with Pruner.
package retention

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/engine/driver"
	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/history"
	"github.com/spritekit/lattice/orchestrator/leader/home"
	"github.com/spritekit/lattice/orchestrator/leader/views"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/orchestrator/worktree/mirror"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Pruner removes the remains of ended runs: their sprites, copies of them, repositories and bundles.
type Pruner struct {
	Home    home.Home
	Store   *store.Store
	Client  *sprites.Client
	Mirrors mirror.Store
	Records *history.Records
	States  *history.States
	Views   *views.Views
	Copies  *Copies
	Logger  zerolog.Logger
	Forget  func(ctx context.Context, sprite string) // called when a sprite was removed

	mu sync.Mutex // held while something is removed, and by suspend
}

// Suspend holds removals back until resume is called, so that nothing that the caller finds is removed.
func (pr *Pruner) Suspend() (resume func()) {
	pr.mu.Lock()
	return pr.mu.Unlock
}

// keepEnded is the number of ended runs that keep their own sprite, for inspection and rewinds.
const keepEnded = 10

// nearby is the number of the newest runs that are considered when a run ends: older ones were pruned before.
const nearby = 100

// listRecent returns the runs to consider after run id has ended: the newest, or nil for all. It returns nil if id is not
// among the newest, and for one run in 64, to find leftovers of other kinds.
func (pr *Pruner) listRecent(id string) ([]store.RunRecord, error) {
	near, err := pr.Store.Recent("", nearby)
	here := slices.ContainsFunc(near, func(r store.RunRecord) bool { return r.ID == id })
	if err != nil || len(near) < nearby || !here || crc32.ChecksumIEEE([]byte(id))%64 == 0 {
		return nil, err
	}
	return near, nil
}

// PruneAfter prunes by the default rule, after run id has ended.
func (pr *Pruner) PruneAfter(id string) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	near, err := pr.listRecent(id)
	var gone []api.Pruned
	if err == nil {
		gone, err = pr.prune(ctx, api.PruneRequest{Keep: keepEnded}, near, nil)
	}
	if err != nil {
		pr.Logger.Warn().Err(err).Msg("remove remains of old runs")
	}
	for _, p := range gone {
		pr.Logger.Info().Str("kind", p.Kind).Str("name", p.Name).Str("run", p.RunID).Str("error", p.Error).Msg("removed remains of an old run")
	}
}

// Prune removes the remains of ended runs and returns a list of them. progress may be nil.
func (pr *Pruner) Prune(ctx context.Context, r api.PruneRequest, progress func(api.StoreProgress)) ([]api.Pruned, error) {
	if r.Keep < 0 || r.OlderS < 0 {
		return nil, fault.BadInput("bad_input", "keep and older must not be negative")
	}
	if progress == nil {
		progress = func(api.StoreProgress) {}
	}
	return pr.prune(ctx, r, nil, progress)
}

// prune considers the runs in near, nil for all. It measures the removed files only for a caller that follows it, because that walks
// the files.
func (pr *Pruner) prune(ctx context.Context, r api.PruneRequest, near []store.RunRecord, progress func(api.StoreProgress)) ([]api.Pruned, error) {
	pr.mu.Lock()
	defer pr.mu.Unlock()
	p, err := pr.planRemovals(r, near, time.Now())
	if err != nil {
		return nil, err
	}
	done := []api.Pruned{}
	for i, rec := range p.runs {
		if progress != nil {
			progress(api.StoreProgress{Doing: "runs", Done: uint64(i), Of: uint64(len(p.runs))})
		}
		item, found, err := pr.pruneSprite(ctx, rec, p.used, r.DryRun, progress != nil)
		if err != nil {
			return done, err
		}
		if found {
			done = append(done, item)
		}
		copies, err := pr.pruneCopies(ctx, rec, r.DryRun)
		done = append(done, copies...)
		if err != nil {
			return done, err
		}
		seed := filepath.Join(pr.Home.Run(rec.ID), "repo.bundle")
		if item, found := pruneFile("repository", seed, rec.ID, r.DryRun); found {
			done = append(done, item)
		}
	}
	for _, path := range p.bundles {
		if item, found := pruneFile("bundle", path, "", r.DryRun); found {
			done = append(done, item)
		}
	}
	mirrors, err := pr.pruneMirrors(ctx, r, time.Now())
	return append(done, mirrors...), errors.Join(err, ctx.Err())
}

// mirrorRest is the time for which an unused mirror of a repository is kept.
const mirrorRest = 30 * 24 * time.Hour

func (pr *Pruner) pruneMirrors(ctx context.Context, r api.PruneRequest, now time.Time) ([]api.Pruned, error) {
	rest := mirrorRest
	if r.OlderS > 0 {
		rest = time.Duration(r.OlderS * float64(time.Second))
	}
	gone, err := pr.Mirrors.Prune(ctx, mirror.PruneOptions{OlderThan: rest, Now: now, DryRun: r.DryRun})
	var items []api.Pruned
	for _, m := range gone {
		items = append(items, api.Pruned{Kind: "mirror", Name: m.URL, Bytes: m.Bytes})
	}
	return items, err
}

// plan holds the runs and files to which a rule applies.
type plan struct {
	runs    []history.Run   // ended, old enough, not pinned; newest first
	used    map[string]bool // sprites that other runs have or had, by name
	bundles []string        // verified bundles that no run needs any more
}

// bundleRest is the time for which a bundle is kept in any case: no state names a bundle that is being verified.
const bundleRest = time.Hour

func (pr *Pruner) planRemovals(r api.PruneRequest, near []store.RunRecord, now time.Time) (plan, error) {
	list := near
	if near == nil {
		all, err := pr.Store.Runs()
		if err != nil {
			return plan{}, fmt.Errorf("list runs: %w", err)
		}
		list = all
	} else { // with the older ones that have not ended
		open, err := pr.Store.Open()
		if err != nil {
			return plan{}, fmt.Errorf("list runs: %w", err)
		}
		for _, o := range open {
			if !slices.ContainsFunc(near, func(r store.RunRecord) bool { return r.ID == o.ID }) {
				list = append(list, o)
			}
		}
	}
	p, ended, kept := plan{used: map[string]bool{}}, 0, [][]byte{}
	for _, listed := range list {
		v, err := pr.Views.Build(listed.ID)
		if err != nil {
			return plan{}, err
		}
		rec, err := pr.Records.LoadBrief(listed.ID)
		if err != nil {
			return plan{}, err
		}
		over := v.Status == lattice.Succeeded || v.Status == lattice.Canceled || r.All && v.Status == lattice.Failed
		if over {
			ended++
		}
		if !over || ended <= r.Keep || rec.Kept.Keep || now.Sub(v.UpdatedAt).Seconds() < r.OlderS {
			p.used[rec.Sprite] = true
			state, err := pr.States.Encode(rec.ID)
			if err == nil && state != nil {
				kept = append(kept, state)
			}
			if !over && rec.Kept.Fork != nil {
				p.used[sourceOf(rec.Kept, state)] = true
			}
			continue
		}
		p.runs = append(p.runs, rec)
	}
	var err error
	if near == nil { // any run may need one
		p.bundles, err = listUnneeded(pr.Home.Bundles(), kept, now)
	}
	return p, err
}

// sourceOf returns the sprite that a forked run still has to copy, "" if there is none. state is nil before the first fact.
func sourceOf(o history.Options, state []byte) string {
	if o.Fork.Pair == nil {
		return ""
	}
	copies := func(c lattice.Command) bool { return c.Kind == lattice.DoFork && c.Pair.Sprite == o.Fork.Pair.Sprite }
	if s, err := runstate.Decode(state); state != nil && err == nil && !slices.ContainsFunc(s.Pending, copies) {
		return ""
	}
	return o.Fork.Pair.Sprite
}

// listUnneeded returns the files in dir that no state names.
func listUnneeded(dir string, states [][]byte, now time.Time) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("list bundles: %w", err)
	}
	var found []string
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || now.Sub(info.ModTime()) < bundleRest {
			continue
		}
		if !slices.ContainsFunc(states, func(s []byte) bool { return bytes.Contains(s, []byte(e.Name())) }) {
			found = append(found, filepath.Join(dir, e.Name()))
		}
	}
	return found, nil
}

// pruneSprite removes the sprite that was made for a run, unless another run uses it or a session is open in it.
func (pr *Pruner) pruneSprite(ctx context.Context, rec history.Run, used map[string]bool, dry, measure bool) (api.Pruned, bool, error) {
	item := api.Pruned{Kind: "sprite", Name: rec.Sprite, RunID: rec.ID}
	if !rec.Kept.OwnSprite || used[rec.Sprite] {
		return item, false, nil
	}
	s, err := pr.Client.Get(ctx, rec.Sprite)
	switch {
	case errors.Is(err, sprites.ErrNotFound):
		return item, false, nil
	case err != nil:
		return item, false, fmt.Errorf("look for sprite %s: %w", rec.Sprite, err)
	case !slices.Contains(s.Labels, history.LabelOf(rec.ID)):
		return item, false, nil // a person's own, of the same name
	}
	if sessions, err := pr.Client.Sessions(ctx, rec.Sprite); err == nil && len(sessions) > 0 {
		return item, false, nil
	}
	if measure && s.WorkspacePath != "" {
		item.Bytes = sizeOf(filepath.Dir(s.WorkspacePath))
	}
	if !dry {
		if err := errors.Join(pr.Copies.remove(ctx, rec.ID, rec.Sprite, nil), pr.Client.Delete(ctx, rec.Sprite)); err != nil {
			item.Error = err.Error()
		} else {
			pr.Forget(ctx, rec.Sprite)
		}
	}
	return item, true, nil
}

// pruneCopies removes the copies of a sprite that is not the run's own, except those that are kept with that sprite.
func (pr *Pruner) pruneCopies(ctx context.Context, rec history.Run, dry bool) ([]api.Pruned, error) {
	if rec.Kept.OwnSprite || rec.Sprite == "" {
		return nil, nil
	}
	whole, err := pr.Store.Run(rec.ID)
	if err != nil || !bytes.Contains(whole.Program, []byte(`"fork"`)) {
		return nil, err
	}
	at, begun, err := pr.States.Read(rec.ID)
	if err != nil || !begun {
		return nil, err
	}
	all, err := pr.Client.List(ctx, CopyPrefix(rec.Sprite))
	if err != nil {
		return nil, fmt.Errorf("look for copies of sprite %s: %w", rec.Sprite, err)
	}
	var items []api.Pruned
	for _, s := range all {
		if !slices.Contains(s.Labels, CopyLabel(rec.ID)) || slices.Contains(at.State.Kept, s.Name) {
			continue
		}
		item := api.Pruned{Kind: "sprite", Name: s.Name, RunID: rec.ID}
		if !dry {
			if err := pr.Client.Delete(ctx, s.Name); err != nil {
				item.Error = err.Error()
			}
		}
		items = append(items, item)
	}
	return items, nil
}

func pruneFile(kind, path, run string, dry bool) (api.Pruned, bool) {
	info, err := os.Lstat(path)
	if err != nil {
		return api.Pruned{}, false
	}
	item := api.Pruned{Kind: kind, Name: path, RunID: run, Bytes: info.Size()}
	if !dry {
		if err := os.Remove(path); err != nil {
			item.Error = err.Error()
		}
	}
	return item, true
}

// sizeOf returns the disk space of the readable files below dir.
func sizeOf(dir string) int64 {
	var total int64
	_ = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil // files may vanish
		}
		if info, err := e.Info(); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				total += st.Blocks * 512
			}
		}
		return nil
	})
	return total
}

// RemoveCopies removes the copies of a run that has ended. It holds back rewinds; a run that was rewound before keeps its
// copies.
func (pr *Pruner) RemoveCopies(id string, r *driver.Runner) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	pr.mu.Lock()
	defer pr.mu.Unlock()
	s := r.State()
	if !s.Status.Ended() {
		return
	}
	if err := pr.Copies.remove(ctx, id, s.Sprite, s.Kept); err != nil {
		pr.Logger.Warn().Str("run", id).Err(err).Msg("remove the copies of a run's sprite")
	}
}

// RemoveCopy removes one copy of a run's sprite.
func (pr *Pruner) RemoveCopy(ctx context.Context, run, name string) {
	pr.Forget(ctx, name)
	made, err := pr.Copies.Client.Get(ctx, name)
	if err == nil && slices.Contains(made.Labels, CopyLabel(run)) {
		err = pr.Copies.Client.Delete(ctx, name)
	}
	if err != nil && !errors.Is(err, sprites.ErrNotFound) {
		pr.Logger.Warn().Str("run", run).Err(err).Msg("remove a copy of a run's sprite")
	}
}
