package system

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/gitcmd"
	"github.com/spritekit/lattice/spritekit/fault"
)

// isUnknownRevision reports whether git failed because a revision does not exist.
func isUnknownRevision(f *gitcmd.Failure) bool {
	return f.Says(
		"bad revision", "ambiguous argument", "unknown revision", "bad object", "Not a valid object name", "not a valid object name",
		"Needed a single revision", "Invalid symmetric difference expression", "could not resolve", "not a valid commit name", "does not exist in '",
		"invalid object name", "only has ", "no upstream configured", "no such branch",
	)
}

// explainRevision is [gitcmd.Explain] for commands that take revisions.
func explainRevision(err error, code string) error {
	if f := (*gitcmd.Failure)(nil); errors.As(err, &f) && isUnknownRevision(f) {
		return engine.RefNotFound("%v", f)
	}
	return gitcmd.Explain(err, code)
}

// Resolve finds an object. It reads HEAD from its file, else starts one git for a commit or a tag of one, and a second git
// for anything else.
func (r *repo) Resolve(ctx context.Context, revision string) (engine.Object, error) {
	if revision == "HEAD" {
		if ref, commit, ok := r.files.Head(); ok && commit != "" {
			return engine.Object{ID: commit, Type: "commit", Commit: commit, Ref: ref}, nil
		}
	}
	out, err := r.Read(ctx, "rev-parse", revision, revision+"^{commit}", "--symbolic-full-name", revision, "--")
	if f := (*gitcmd.Failure)(nil); errors.As(err, &f) {
		return r.resolveObject(ctx, revision)
	}
	if err != nil {
		return engine.Object{}, err
	}
	lines := strings.Fields(strings.TrimSuffix(strings.TrimSpace(string(out)), "--"))
	if len(lines) < 2 || !engine.IsCommitID(lines[0]) || !engine.IsCommitID(lines[1]) {
		return engine.Object{}, engine.RefNotFound("%s names nothing in %s", revision, r.at.Name)
	}
	o := engine.Object{ID: lines[0], Type: "commit", Commit: lines[1]}
	if o.ID != o.Commit {
		o.Type = "tag"
	}
	if len(lines) > 2 && strings.HasPrefix(lines[2], "refs/") {
		o.Ref = lines[2]
	}
	return o, nil
}

// resolveObject resolves a revision that is not a commit: a tree, a blob, a tag of one.
func (r *repo) resolveObject(ctx context.Context, revision string) (engine.Object, error) {
	out, err := r.Run(ctx, gitcmd.Command{Args: []string{"cat-file", "--batch-check"}, Stdin: revision + "\n", Reading: true})
	if err != nil {
		return engine.Object{}, explainRevision(err, "rev_parse_failed")
	}
	fields := strings.Fields(string(out))
	if len(fields) != 3 || !engine.IsCommitID(fields[0]) { // "NAME missing", "NAME ambiguous"
		return engine.Object{}, engine.RefNotFound("%s names nothing in %s", revision, r.at.Name)
	}
	return engine.Object{ID: fields[0], Type: fields[1]}, nil
}

// MergeBase finds the common ancestors of commits. For two commits one rev-parse suffices: "A...B" prints B, A and their
// bases, each after a ^.
func (r *repo) MergeBase(ctx context.Context, spec engine.MergeBaseSpec) (engine.MergeBase, error) {
	answer := engine.MergeBase{Bases: []string{}}
	if len(spec.Commits) > 2 {
		args := []string{"merge-base", "--octopus", "--all"}
		out, err := r.Run(ctx, gitcmd.Command{Args: append(append(args, "--"), spec.Commits...), OK: []int{1}, Reading: true})
		if err != nil {
			return answer, explainRevision(err, "merge_base_failed")
		}
		answer.Bases = append(answer.Bases, strings.Fields(string(out))...)
		return firstOf(answer, spec.All), nil
	}
	out, err := r.Read(ctx, "rev-parse", spec.Commits[0]+"^{commit}..."+spec.Commits[1]+"^{commit}", "--")
	if err != nil {
		return answer, explainRevision(err, "merge_base_failed")
	}
	lines := strings.Fields(strings.TrimSuffix(strings.TrimSpace(string(out)), "--"))
	if len(lines) < 2 {
		return answer, fault.Failed("merge_base_failed", "git rev-parse did not print both commits")
	}
	for _, line := range lines[2:] {
		answer.Bases = append(answer.Bases, strings.TrimPrefix(line, "^"))
	}
	answer.IsAncestor = slices.Contains(answer.Bases, lines[1])
	return firstOf(answer, spec.All), nil
}

// firstOf keeps the first base unless all is set.
func firstOf(m engine.MergeBase, all bool) engine.MergeBase {
	if !all {
		m.Bases = m.Bases[:min(1, len(m.Bases))]
	}
	return m
}

// exact returns a revision that means the object if the revision is a full id. git checkout and git restore take an id for the
// branch of that name, if there is one.
func exact(revision string) string {
	if engine.IsCommitID(revision) {
		return revision + "^{}"
	}
	return revision
}
