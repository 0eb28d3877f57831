package system

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/gitcmd"
	"github.com/spritekit/lattice/skills/git/patch"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/skill"
)

// contextLines is the default context of a hunk, in lines.
const contextLines = 3

// Apply applies a patch with git apply and reads rejected hunks from its messages. With spec.Reject it omits the files that
// they name and tries again, so that each file is patched completely or not at all.
func (r *repo) Apply(ctx context.Context, spec engine.ApplySpec) (engine.Applied, error) {
	answer := engine.Applied{Applied: []engine.AppliedFile{}, Rejected: []engine.RejectedHunk{}}
	files, err := patch.Parse(spec.Patch, spec.Strip)
	if err != nil {
		return answer, skill.BadInput("/patch", "%v", err)
	}
	p := patching{r, spec}
	if err := p.compareNames(ctx, files); err != nil {
		return answer, err
	}
	for refreshed := !spec.Index; len(files) > 0; {
		rejected, err := p.apply(ctx, files)
		if err != nil {
			return answer, err
		}
		if !refreshed && slices.ContainsFunc(rejected, func(h engine.RejectedHunk) bool { return h.Reason == engine.ReasonNotStaged }) {
			refreshed = true
			if err := r.refreshIndex(ctx); err != nil {
				return answer, err
			}
			continue
		}
		answer.Rejected = append(answer.Rejected, rejected...)
		if len(rejected) == 0 || !spec.Reject {
			break
		}
		files = slices.DeleteFunc(files, func(f patch.File) bool {
			return slices.ContainsFunc(rejected, func(h engine.RejectedHunk) bool { return slices.Contains(f.Names(), h.Path) })
		})
	}
	if len(answer.Rejected) == 0 || spec.Reject {
		answer.Applied = listApplied(files, spec.Reverse)
	}
	slices.SortFunc(answer.Rejected, func(a, b engine.RejectedHunk) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Hunk, b.Hunk))
	})
	return answer, nil
}

// refreshIndex has the index learn the times of files with the staged content. git apply compares times only, so that it rejects
// such a file after another program has written it again.
func (r *repo) refreshIndex(ctx context.Context) error {
	_, err := r.Run(ctx, gitcmd.Command{Args: []string{"update-index", "-q", "--refresh"}})
	if f := (*gitcmd.Failure)(nil); errors.As(err, &f) { // some files have changed
		return nil
	}
	return err
}

// patching is one patch that is being applied.
type patching struct {
	repo *repo
	spec engine.ApplySpec
}

// compareNames refuses a patch in which git finds other files than this package: the files that were checked would not be
// the files that change.
func (p patching) compareNames(ctx context.Context, files patch.Files) error {
	out, err := p.repo.Run(ctx, gitcmd.Command{
		Args: []string{"apply", "--numstat", "-z", "-p" + strconv.Itoa(p.spec.Strip), "-"}, Stdin: string(p.spec.Patch), Reading: true,
	})
	if err != nil {
		return explainPatch(err)
	}
	var theirs, ours []string
	for _, record := range gitcmd.Split(out) {
		fields := strings.SplitN(record, "\t", 3)
		theirs = append(theirs, fields[len(fields)-1])
	}
	for _, f := range files {
		ours = append(ours, f.Path())
	}
	slices.Sort(theirs)
	slices.Sort(ours)
	if !slices.Equal(ours, theirs) {
		return fault.Unsafe("ambiguous_patch", "the patch can be read in two ways: as a change of %q or of %q", ours, theirs).
			WithHint("write it with git diff")
	}
	return nil
}

// explainPatch distinguishes a patch that git cannot read from other failures.
func explainPatch(err error) error {
	f := (*gitcmd.Failure)(nil)
	if !errors.As(err, &f) {
		return err
	}
	if f.Says(
		"corrupt", "No valid patches", "unrecognized input", "lacks filename information", "fragment without header", "inconsistent", "invalid mode",
		"unable to find filename", "recount", "expected git", "bad git-diff",
	) {
		return skill.BadInput("/patch", "is not a patch that git can read: %s", f.Stderr)
	}
	return gitcmd.Explain(err, "patch_failed")
}

// apply applies some files of the patch, all or nothing, and returns the rejected hunks.
func (p patching) apply(ctx context.Context, files patch.Files) ([]engine.RejectedHunk, error) {
	spec := p.spec
	args := []string{"-c", "apply.ignoreWhitespace=no", "apply", "--whitespace=nowarn", "-p" + strconv.Itoa(spec.Strip)}
	for _, option := range []struct {
		set  bool
		name string
	}{
		{spec.Check, "--check"}, {spec.Index, "--index"}, {spec.ThreeWay, "--3way"}, {spec.Reverse, "--reverse"},
		{spec.Fuzz > 0, fmt.Sprintf("-C%d", contextLines-spec.Fuzz)},
	} {
		if option.set {
			args = append(args, option.name)
		}
	}
	var messages []string
	_, err := p.repo.Run(ctx, gitcmd.Command{
		Args: append(args, "-"), Stdin: string(patch.Select(spec.Patch, files)), Reading: spec.Check,
		Follow: func(line string) { messages = append(messages, line) },
	})
	if f := (*gitcmd.Failure)(nil); !errors.As(err, &f) {
		return nil, err
	}
	if spec.ThreeWay && !spec.Check && slices.ContainsFunc(messages, func(line string) bool { return strings.HasSuffix(line, "with conflicts.") }) {
		conflicts, err := p.repo.listConflicts(ctx)
		if err != nil {
			return nil, err
		}
		return nil, engine.Conflict(conflicts, "the patch was merged and left conflicts in %s", strings.Join(conflicts, ", "))
	}
	rejected, unsafe := parseRejections(messages, files, spec.Reverse)
	if unsafe != "" {
		return nil, fault.Unsafe("unsafe_path", "git refused the patch: %s", unsafe).WithHint("a patch may change files of the repository only, and not through symlinks")
	}
	if len(rejected) == 0 {
		return nil, explainPatch(err)
	}
	return rejected, nil
}

// parseRejections reads the messages of git apply: "error: patch failed: PATH:LINE" for a hunk, "error: PATH: REASON" for a
// file. A path may contain any text, so it searches for the paths of the patch. It returns each rejected file once.
func parseRejections(messages []string, files patch.Files, reverse bool) (rejected []engine.RejectedHunk, unsafe string) {
	at := map[string]int{}
	reject := func(h engine.RejectedHunk) {
		if i, ok := at[h.Path]; ok {
			if rejected[i].Reason == "" {
				rejected[i].Reason = h.Reason
			}
			return
		}
		at[h.Path] = len(rejected)
		rejected = append(rejected, h)
	}
	for _, line := range messages {
		text, ok := strings.CutPrefix(line, "error: ")
		if !ok {
			continue
		}
		if strings.Contains(text, "beyond a symbolic link") || strings.HasPrefix(text, "invalid path ") {
			return nil, text
		}
		place, isHunk := strings.CutPrefix(text, "patch failed: ")
		for _, f := range files {
			for _, name := range f.Names() {
				if number, ok := strings.CutPrefix(place, name+":"); ok && isHunk {
					line, err := strconv.Atoi(number)
					if err == nil {
						reject(engine.RejectedHunk{Path: name, Hunk: hunkAt(f, line, reverse)})
					}
				} else if reason, ok := strings.CutPrefix(text, name+": "); ok {
					reject(engine.RejectedHunk{Path: name, Reason: reason})
				} else if strings.Contains(text, "'"+name+"'") {
					reject(engine.RejectedHunk{Path: name, Reason: text})
				}
			}
		}
	}
	for i := range rejected {
		rejected[i].Reason = cmp.Or(rejected[i].Reason, "patch does not apply")
	}
	return rejected, ""
}

// hunkAt returns the number of the hunk at a line of the patched file, 0 when there is none.
func hunkAt(f patch.File, line int, reverse bool) int {
	return 1 + slices.IndexFunc(f.Hunks, func(h patch.Hunk) bool {
		if reverse {
			return h.NewStart == line
		}
		return h.OldStart == line
	})
}

// listApplied lists the results of the files, sorted.
func listApplied(files patch.Files, reverse bool) []engine.AppliedFile {
	list := []engine.AppliedFile{}
	for _, f := range files {
		a := engine.AppliedFile{Path: f.Path(), Status: f.Status}
		switch {
		case !reverse:
		case f.Status == "A", f.Status == "C":
			a.Status = "D"
		case f.Status == "D":
			a.Status = "A"
		case f.Status == "R":
			a.Path = f.Old
		}
		list = append(list, a)
	}
	slices.SortStableFunc(list, func(a, b engine.AppliedFile) int { return cmp.Compare(a.Path, b.Path) })
	return list
}
