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
	"github.com/spritekit/lattice/skills/git/patch"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/skill"
)

// contextLines is the default context of a hunk, in lines.
const contextLines = 3

// Apply applies a patch by git apply. What it rejects is read from its messages; with spec.Reject the files that they
// name are left out and the rest is tried again, so that each file is patched whole or not at all.
func (r *repo) Apply(ctx context.Context, spec engine.ApplySpec) (engine.Applied, error) {
	answer := engine.Applied{Applied: []engine.AppliedFile{}, Rejected: []engine.RejectedHunk{}}
	files, err := patch.Parse(spec.Patch, spec.Strip)
	if err != nil {
		return answer, skill.BadInput("/patch", "%v", err)
	}
	if err := r.sameNames(ctx, spec, files); err != nil {
		return answer, err
	}
	for len(files) > 0 {
		rejected, err := r.apply(ctx, spec, files)
		if err != nil {
			return answer, err
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
		answer.Applied = applied(files, spec.Reverse)
	}
	slices.SortFunc(answer.Rejected, func(a, b engine.RejectedHunk) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Hunk, b.Hunk))
	})
	return answer, nil
}

// sameNames refuses a patch whose files git reads otherwise than we do: what was judged would not be what is changed.
func (r *repo) sameNames(ctx context.Context, spec engine.ApplySpec, files patch.Files) error {
	out, err := r.in(ctx, command{
		args: []string{"apply", "--numstat", "-z", "-p" + strconv.Itoa(spec.Strip), "-"}, stdin: string(spec.Patch), reading: true,
	})
	if err != nil {
		return badPatch(err)
	}
	var theirs, ours []string
	for _, record := range split(out) {
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

// badPatch tells a patch that git cannot read from other failures.
func badPatch(err error) error {
	f := (*failure)(nil)
	if !errors.As(err, &f) {
		return err
	}
	for _, text := range []string{
		"corrupt", "No valid patches", "unrecognized input", "lacks filename information", "fragment without header", "inconsistent", "invalid mode",
		"unable to find filename", "recount", "expected git", "bad git-diff",
	} {
		if strings.Contains(f.stderr, text) {
			return skill.BadInput("/patch", "is not a patch that git can read: %s", f.stderr)
		}
	}
	return explain(err, "patch_failed")
}

// apply applies some files of the patch, all or nothing, and returns what was rejected.
func (r *repo) apply(ctx context.Context, spec engine.ApplySpec, files patch.Files) ([]engine.RejectedHunk, error) {
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
	var said []string
	_, err := r.in(ctx, command{
		args: append(args, "-"), stdin: string(patch.Select(spec.Patch, files)), reading: spec.Check,
		follow: func(line string) { said = append(said, line) },
	})
	if f := (*failure)(nil); !errors.As(err, &f) {
		return nil, err
	}
	if spec.ThreeWay && !spec.Check && slices.ContainsFunc(said, func(line string) bool { return strings.HasSuffix(line, "with conflicts.") }) {
		conflicts, err := r.conflicts(ctx)
		if err != nil {
			return nil, err
		}
		return nil, engine.Conflict(conflicts, "the patch was merged and left conflicts in %s", strings.Join(conflicts, ", "))
	}
	rejected, unsafe := rejections(said, files, spec.Reverse)
	if unsafe != "" {
		return nil, fault.Unsafe("unsafe_path", "git refused the patch: %s", unsafe).WithHint("a patch may change files of the repository only, and not through symlinks")
	}
	if len(rejected) == 0 {
		return nil, badPatch(err)
	}
	return rejected, nil
}

// rejections reads the messages of git apply: "error: patch failed: PATH:LINE" for a hunk, "error: PATH: REASON" for a
// file. A path may hold anything, so the known ones are looked for. Every rejected file comes once.
func rejections(said []string, files patch.Files, reverse bool) (rejected []engine.RejectedHunk, unsafe string) {
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
	for _, line := range said {
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

// hunkAt is the number of the hunk at a line of the file that is patched, 0 when there is none.
func hunkAt(f patch.File, line int, reverse bool) int {
	return 1 + slices.IndexFunc(f.Hunks, func(h patch.Hunk) bool {
		if reverse {
			return h.NewStart == line
		}
		return h.OldStart == line
	})
}

// applied lists what the files became, sorted.
func applied(files patch.Files, reverse bool) []engine.AppliedFile {
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
