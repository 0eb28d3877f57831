package system

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/gitcmd"
)

// Fetch is one git fetch from a URL, so that the repository's configuration of the remote has no effect. It compares the
// refs before and after to find the changes.
func (r *repo) Fetch(ctx context.Context, spec engine.FetchSpec) (engine.Fetched, error) {
	fetched := engine.Fetched{Updated: []engine.RefChange{}}
	refspecs := slices.Clone(spec.Refspecs)
	for i, s := range refspecs {
		if !strings.Contains(s, ":") { // a plain name updates the remote-tracking ref
			refspecs[i] = "+refs/heads/" + s + ":refs/remotes/" + spec.Remote + "/" + s
		}
	}
	if len(refspecs) == 0 {
		refspecs = []string{"+refs/heads/*:refs/remotes/" + spec.Remote + "/*"}
	}
	before, err := r.allRefs(ctx)
	if err != nil {
		return fetched, err
	}
	stats := gitcmd.NewTransfer(ctx, spec.Limits, spec.Follow)
	forced := &forcedRefs{Transfer: stats, names: map[string]bool{}}
	args := append(append(fetchArgs(spec), "--", spec.From.URL), refspecs...)
	_, err = r.Run(stats.Ctx, gitcmd.Command{Args: args, Remote: &spec.From, Follow: forced.readLine})
	if err := stats.Finish(err); err != nil {
		return fetched, fetchFailed(err)
	}
	after, err := r.allRefs(ctx)
	if err != nil {
		return fetched, err
	}
	for name, id := range after {
		if before[name] != id {
			fetched.Updated = append(fetched.Updated, engine.RefChange{Ref: name, Old: before[name], New: id, Forced: forced.names[shortName(name)] || forced.names[name]})
		}
	}
	for name, id := range before {
		if after[name] == "" {
			fetched.Updated = append(fetched.Updated, engine.RefChange{Ref: name, Old: id})
		}
	}
	slices.SortFunc(fetched.Updated, func(a, b engine.RefChange) int { return strings.Compare(a.Ref, b.Ref) })
	return fetched, nil
}

func fetchArgs(spec engine.FetchSpec) []string {
	args := []string{"fetch", "--progress", "--no-recurse-submodules", "--no-auto-maintenance", "--no-write-fetch-head"}
	if spec.Tags {
		args = append(args, "--tags")
	} else {
		args = append(args, "--no-tags")
	}
	if spec.Prune {
		args = append(args, "--prune")
	} else {
		args = append(args, "--no-prune")
	}
	switch {
	case spec.From.Bundle:
	case spec.Unshallow:
		args = append(args, "--unshallow")
	case spec.Depth > 0:
		args = append(args, "--depth="+strconv.Itoa(spec.Depth))
	}
	return args
}

func fetchFailed(err error) error {
	f, ok := err.(*gitcmd.Failure)
	switch {
	case !ok:
		return err
	case f.Says("refusing to fetch into"):
		return engine.InUse("%v", f)
	case f.Says("--unshallow on a complete repository"):
		return gitcmd.Explain(err, "not_shallow")
	case f.Says("cannot lock ref", "could not be updated", "non-fast-forward", "[rejected]"):
		return gitcmd.Explain(err, "rejected")
	}
	return gitcmd.Explain(err, "fetch_failed")
}

// forcedRefs collects the refs that lost commits from the lines of git fetch: " + 1a2b3c4...5d6e7f8 main -> origin/main  (forced update)".
type forcedRefs struct {
	*gitcmd.Transfer
	names map[string]bool
}

func (f *forcedRefs) readLine(line string) {
	if _, to, ok := strings.Cut(line, " -> "); ok && strings.HasPrefix(line, "+ ") {
		name, _, _ := strings.Cut(to, " ")
		f.names[name] = true
		return
	}
	f.Transfer.Line(line)
}
