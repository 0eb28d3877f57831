package native

import (
	"context"

	"github.com/go-git/go-git/v5/plumbing/filemode"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/native/gitdir"
)

// Status compares HEAD with the index, and the index with the work tree. It writes nothing.
func (r *repo) Status(ctx context.Context, spec engine.StatusSpec) (engine.Status, error) {
	if spec.Renames {
		return engine.Status{}, engine.Refuse("the detection of renames")
	}
	spec.Paths = cleanPaths(spec.Paths)
	s, err := r.readStatus(ctx, spec)
	return s, explainError(err, "status_failed")
}

func (r *repo) readStatus(ctx context.Context, spec engine.StatusSpec) (engine.Status, error) {
	var out engine.Status
	branch, head, err := r.Head()
	if err != nil {
		return out, err
	}
	out.Branch, out.Head, out.Detached = shortenRef(branch), gitdir.Hex(head), branch == ""
	if upstream := r.Upstream(branch); upstream != "" {
		out.Upstream = shortenRef(upstream)
		if out.Ahead, out.Behind, _, err = r.compareUpstream(ctx, head, upstream); err != nil {
			return out, err
		}
	}
	x, err := r.readIndex()
	if err != nil {
		return out, err
	}
	staged, err := r.listStaged(x)
	if err != nil {
		return out, err
	}
	s := r.newScan(ctx, x)
	s.paths, s.untracked, s.ignored = spec.Paths, spec.Untracked, spec.Ignored
	if err := s.walkTree(); err != nil {
		return out, err
	}
	for _, e := range s.joinDifferences(staged) {
		out.Take(e, spec.Max)
	}
	for _, e := range s.others {
		if !engine.Hidden(r.at.Name, e.Path) {
			out.Take(e, spec.Max)
		}
	}
	out.Settle(r.findOperation())
	return out, nil
}

// findOperation names the operation in progress, "" for none.
func (r *repo) findOperation() string {
	for _, o := range engine.Operations() {
		if _, err := r.Root.Lstat(o[0]); err == nil {
			return o[1]
		}
	}
	return ""
}

// joinDifferences makes one entry of the differences on both sides of the index.
func (s *scan) joinDifferences(staged []change) []engine.StatusEntry {
	var entries []engine.StatusEntry
	for _, c := range staged {
		if !isUnder(c.path, s.paths) {
			continue
		}
		e := engine.StatusEntry{Path: c.path, Index: c.statusLetter(), Worktree: "."}
		mode := c.to.mode
		if now, ok := s.changed[c.path]; ok {
			e.Worktree, mode = change{from: c.to, to: now}.statusLetter(), now.mode
			delete(s.changed, c.path)
		}
		e.Type = typeOf(mode)
		entries = append(entries, e)
	}
	for path, now := range s.changed {
		c := change{from: side{mode: s.stage.findFile(path).Mode}, to: now}
		entries = append(entries, engine.StatusEntry{Path: path, Index: ".", Worktree: c.statusLetter(), Type: typeOf(now.mode)})
	}
	return entries
}

func typeOf(mode filemode.FileMode) string {
	if mode == modeSymlink {
		return "symlink"
	}
	return "file"
}
