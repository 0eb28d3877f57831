package system

import (
	"context"
	"strconv"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/gitcmd"
	"github.com/spritekit/lattice/spritekit/fault"
)

// plainDiff returns options that make a diff independent of the repository's settings and start no program: neither a diff
// program, nor a converter, nor git in a submodule, whose configuration was not checked.
func plainDiff(renames bool) []string {
	options := []string{
		"--no-ext-diff", "--no-textconv", "--no-color", "--ignore-submodules=dirty", "--submodule=short", "--full-index", "--abbrev=64",
		"--src-prefix=a/", "--dst-prefix=b/", "--diff-algorithm=default", "--indent-heuristic", "--inter-hunk-context=0", "-O/dev/null",
	}
	if renames {
		return append(options, "--find-renames")
	}
	return append(options, "--no-renames")
}

// diffSettings returns the settings that have no option.
func diffSettings() []string {
	return []string{"-c", "diff.relative=false", "-c", "diff.suppressBlankEmpty=false", "-c", "diff.autoRefreshIndex=true", "-c", "diff.renameLimit=1000"}
}

// diffFormat returns the options of a format.
func diffFormat(format string, context int, binary bool) []string {
	options := []string{"-z", "--raw"}
	if format != engine.FormatNameStatus {
		options = append(options, "--numstat")
	}
	if format == engine.FormatPatch {
		options = append(options, "--patch", "--unified="+strconv.Itoa(context))
		if binary {
			options = append(options, "--binary")
		}
	}
	return options
}

// Diff compares two of commit, index and work tree. Conflicting files are compared with our side.
func (r *repo) Diff(ctx context.Context, spec engine.DiffSpec) (engine.Diff, error) {
	args := append(diffSettings(), "diff")
	args = append(args, diffFormat(spec.Format, spec.Context, spec.Binary)...)
	args = append(args, plainDiff(spec.Renames)...)
	switch {
	case spec.Staged:
		args = append(args, "--cached")
	case spec.From == "":
		args = append(args, "--ours")
	}
	for _, revision := range []string{spec.From, spec.To} {
		if revision != "" {
			args = append(args, revision)
		}
	}
	args = append(append(args, "--"), spec.Paths...)
	out := &diffOutput{limit: spec.MaxBytes}
	if _, err := r.Run(ctx, gitcmd.Command{Args: args, Reading: true, Stdout: out}); err != nil {
		return engine.Diff{}, explainRevision(err, "diff_failed")
	}
	return out.parse("diff", spec.Max)
}

// parse returns the diff with at most limit files; 0 is no limit.
func (d *diffOutput) parse(verb string, limit int) (engine.Diff, error) {
	if d.overflow {
		return engine.Diff{}, fault.Limit("too_much_output", "git %s names files in more than %d bytes", verb, maxRecords).
			WithHint("ask for some paths only")
	}
	_, records, err := d.splitFields()
	if err != nil {
		return engine.Diff{}, err
	}
	files, err := parseDiff(records)
	if err != nil {
		return engine.Diff{}, err
	}
	diff := engine.Diff{Files: files, Totals: sumStats(files), Patch: d.wholePatch(), Truncated: d.cut}
	if limit > 0 && len(files) > limit {
		diff.Files, diff.Truncated = files[:limit], true
	}
	return diff, nil
}
