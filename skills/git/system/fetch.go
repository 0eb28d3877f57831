package system

import (
	"bufio"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
)

// Fetch is one git fetch from a URL: whatever the repository's configuration says of the remote does not count. What it
// changed is found by looking at the refs before and after.
func (r *repo) Fetch(ctx context.Context, spec engine.FetchSpec) (engine.Fetched, error) {
	fetched := engine.Fetched{Updated: []engine.RefChange{}}
	refspecs := slices.Clone(spec.Refspecs)
	for i, s := range refspecs {
		if !strings.Contains(s, ":") { // a plain name goes to the remote's tracking ref
			refspecs[i] = "+refs/heads/" + s + ":refs/remotes/" + spec.Remote + "/" + s
		}
	}
	if len(refspecs) == 0 {
		refspecs = []string{"+refs/heads/*:refs/remotes/" + spec.Remote + "/*"}
	}
	before, err := r.refs(ctx)
	if err != nil {
		return fetched, err
	}
	stats := newTransfer(ctx, spec.Limits, spec.Follow)
	forced := &forcedRefs{transfer: stats, names: map[string]bool{}}
	cmd := command{args: fetchArgs(spec), allow: spec.From.Protocol, env: spec.From.Env, follow: forced.line}
	done, err := cmd.withCredential(spec.From)
	if err != nil {
		return fetched, err
	}
	defer done()
	cmd.args = append(append(cmd.args, "--", spec.From.URL), refspecs...)
	_, err = r.in(stats.ctx, cmd)
	if err := stats.finish(err); err != nil {
		return fetched, fetchFailed(err)
	}
	after, err := r.refs(ctx)
	if err != nil {
		return fetched, err
	}
	for name, id := range after {
		if before[name] != id {
			fetched.Updated = append(fetched.Updated, engine.RefChange{Ref: name, Old: before[name], New: id, Forced: forced.names[short(name)] || forced.names[name]})
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
	f, ok := err.(*failure)
	switch {
	case !ok:
		return err
	case strings.Contains(f.stderr, "refusing to fetch into"):
		return engine.InUse("%v", f)
	case strings.Contains(f.stderr, "--unshallow on a complete repository"):
		return explain(err, "not_shallow")
	case strings.Contains(f.stderr, "cannot lock ref"), strings.Contains(f.stderr, "could not be updated"), strings.Contains(f.stderr, "non-fast-forward"), strings.Contains(f.stderr, "[rejected]"):
		return explain(err, "rejected")
	}
	return explain(err, "fetch_failed")
}

// forcedRefs reads what git fetch says of refs that lost commits: " + 1a2b3c4...5d6e7f8 main -> origin/main  (forced update)".
type forcedRefs struct {
	*transfer
	names map[string]bool
}

func (f *forcedRefs) line(line string) {
	if _, to, ok := strings.Cut(line, " -> "); ok && strings.HasPrefix(line, "+ ") {
		name, _, _ := strings.Cut(to, " ")
		f.names[name] = true
		return
	}
	f.transfer.line(line)
}

// refs are all refs that work trees share, by full name; symbolic ones are left out.
func (r *repo) refs(ctx context.Context) (map[string]string, error) {
	if all, ok := r.refFiles(); ok {
		return all, nil
	}
	all := map[string]string{}
	out := &records{end: '\n', each: func(line []byte) error {
		fields := strings.Split(string(line), "\x00")
		if len(fields) == 3 && fields[2] == "" {
			all[fields[0]] = fields[1]
		}
		return nil
	}}
	_, err := r.in(ctx, command{args: []string{"for-each-ref", "--format=%(refname)%00%(objectname)%00%(symref)"}, reading: true, stdout: out})
	return all, explain(out.finish(err), "branch_failed")
}

// refFiles reads the refs from packed-refs and from the files below refs, which count more.
func (r *repo) refFiles() (map[string]string, bool) {
	all := map[string]string{}
	if !r.plainRefs() || !r.eachPacked(func(name, id string) bool { all[name] = id; return true }) {
		return nil, false
	}
	top := filepath.Join(r.at.CommonDir, "refs")
	err := filepath.WalkDir(top, func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		rel, err := filepath.Rel(r.at.CommonDir, name)
		if err != nil {
			return err
		}
		ref := filepath.ToSlash(rel)
		text, err := r.small(r.at.CommonDir, ref)
		switch {
		case err != nil:
			return err
		case engine.IsCommitID(text):
			all[ref] = text
		case strings.HasPrefix(text, "ref: "):
			delete(all, ref)
		case strings.HasSuffix(ref, ".lock"):
		default:
			return errors.New("no plain ref")
		}
		return nil
	})
	return all, err == nil
}

// eachPacked shows the entries of packed-refs until each has seen enough. It reports whether they could be read.
func (r *repo) eachPacked(each func(name, id string) bool) bool {
	f, err := r.at.Root.OpenFile(filepath.Join(r.at.CommonDir, "packed-refs"), os.O_RDONLY, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return true
	}
	if err != nil {
		return false
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		id, name, ok := strings.Cut(lines.Text(), " ")
		if !ok || !engine.IsCommitID(id) {
			continue // the header, or what the tag before it peels to
		}
		if !each(name, id) {
			return true
		}
	}
	return lines.Err() == nil
}
