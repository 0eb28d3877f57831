package system

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/gitcmd"
)

// commitFields counts the fields of commitFormat: commit, tree, parents, refs, author, committer, subject and body. A NUL
// follows each field and cannot occur in one. An empty field precedes them.
const (
	commitFields = 12
	commitFormat = "--format=tformat:%x00%H%x00%T%x00%P%x00%D%x00%an%x00%ae%x00%at%x00%cn%x00%ce%x00%ct%x00%s%x00"
	withBody     = "%b"
)

// historyOptions returns options that make a history independent of the repository's settings.
func historyOptions() []string {
	return []string{"-z", "--decorate=full", "--no-notes", "--no-color", "--encoding=UTF-8"}
}

// historySettings returns the settings that have no option.
func historySettings() []string {
	return []string{"-c", "log.follow=false", "-c", "log.mailmap=false", "-c", "log.showRoot=true", "-c", "log.diffMerges=separate"}
}

// Log lists commits, newest first.
func (r *repo) Log(ctx context.Context, spec engine.LogSpec) (engine.Log, error) {
	args := append(historySettings(), "log")
	args = append(args, historyOptions()...)
	args = append(args, "--max-count="+strconv.Itoa(spec.Max+1))
	if spec.Skip > 0 {
		args = append(args, "--skip="+strconv.Itoa(spec.Skip))
	}
	if !spec.Since.IsZero() {
		args = append(args, "--since="+spec.Since.UTC().Format(time.RFC3339))
	}
	if !spec.Until.IsZero() {
		args = append(args, "--until="+spec.Until.UTC().Format(time.RFC3339))
	}
	if spec.Author != "" || spec.Grep != "" {
		args = append(args, "--fixed-strings", "--regexp-ignore-case", "--all-match")
	}
	if spec.Author != "" {
		args = append(args, "--author="+spec.Author)
	}
	if spec.Grep != "" {
		args = append(args, "--grep="+spec.Grep)
	}
	if spec.FirstParent {
		args = append(args, "--first-parent")
	}
	if spec.Stats {
		// -c shows a merge against all parents and counts it against the first, also in versions without --diff-merges.
		args = append(args, "-c", "--shortstat")
		args = append(args, plainDiff(false)...)
	} else {
		args = append(args, "--no-patch")
	}
	format := commitFormat
	if !spec.Short {
		format += withBody
	}
	args = append(append(args, format), spec.Revisions...)
	args = append(append(args, "--"), spec.Paths...)
	out, err := r.Run(ctx, gitcmd.Command{Args: args, Reading: true})
	if err != nil {
		if f := (*gitcmd.Failure)(nil); errors.As(err, &f) && len(spec.Revisions) == 0 && f.Says("does not have any commits yet") {
			return engine.Log{Commits: []engine.Commit{}}, nil
		}
		return engine.Log{}, explainRevision(err, "log_failed")
	}
	commits, err := parseLog(gitcmd.Split(out), spec.Stats)
	if err != nil {
		return engine.Log{}, err
	}
	log := engine.Log{Commits: commits, More: len(commits) > spec.Max}
	log.Commits = commits[:min(spec.Max, len(commits))]
	return log, nil
}

// parseLog reads commits and, with stats, the line of --shortstat that may follow each.
func parseLog(fields []string, stats bool) ([]engine.Commit, error) {
	commits := []engine.Commit{}
	for i := 0; i < len(fields); {
		if !engine.IsCommitID(fields[i]) { // between two commits
			if text := strings.TrimSpace(fields[i]); text != "" {
				if !stats || len(commits) == 0 {
					return nil, fmt.Errorf("read git log: unexpected %q", text)
				}
				if s, ok := parseStats(text); ok {
					commits[len(commits)-1].Stats = &s
				}
			}
			i++
			continue
		}
		if i+commitFields > len(fields) {
			return nil, fmt.Errorf("read git log: %d fields remain, want %d", len(fields)-i, commitFields)
		}
		c, err := parseCommit(fields[i : i+commitFields])
		if err != nil {
			return nil, err
		}
		if stats {
			c.Stats = &engine.Stats{}
		}
		commits = append(commits, c)
		i += commitFields
	}
	return commits, nil
}

// parseStats reads " 2 files changed, 1 insertion(+), 3 deletions(-)", of which only the first part is always present. ok is
// false for any other line.
func parseStats(line string) (s engine.Stats, ok bool) {
	parts := strings.Split(strings.TrimSpace(line), ", ")
	if !strings.HasSuffix(parts[0], " changed") {
		return s, false
	}
	for _, part := range parts {
		number, unit, _ := strings.Cut(part, " ")
		n, err := strconv.Atoi(number)
		switch {
		case err != nil:
			return s, false
		case strings.HasPrefix(unit, "file"):
			s.Files = n
		case strings.HasPrefix(unit, "insertion"):
			s.Additions = n
		case strings.HasPrefix(unit, "deletion"):
			s.Deletions = n
		default:
			return s, false
		}
	}
	return s, true
}

// parseCommit reads the fields of commitFormat.
func parseCommit(f []string) (engine.Commit, error) {
	if !engine.IsCommitID(f[0]) || !engine.IsCommitID(f[1]) {
		return engine.Commit{}, fmt.Errorf("read git log: %q is not a commit", f[0])
	}
	return engine.Commit{
		Commit: f[0], Tree: f[1], Parents: append([]string{}, strings.Fields(f[2])...), Refs: parseRefs(f[3]),
		Author:    engine.Person{Name: f[4], Email: f[5], Date: formatDate(f[6])},
		Committer: engine.Person{Name: f[7], Email: f[8], Date: formatDate(f[9])},
		Subject:   f[10], Body: strings.TrimRight(f[11], "\n"),
	}, nil
}

// parseRefs reads %D of --decorate=full: "HEAD -> refs/heads/main, tag: refs/tags/v1". A ref cannot contain a space.
func parseRefs(text string) []string {
	refs := []string{}
	for ref := range strings.SplitSeq(text, ", ") {
		ref = strings.TrimPrefix(ref, "tag: ")
		head, branch, both := strings.Cut(ref, " -> ")
		if both {
			refs = append(refs, branch)
		}
		if head == "HEAD" || strings.HasPrefix(head, "refs/heads/") || strings.HasPrefix(head, "refs/tags/") || strings.HasPrefix(head, "refs/remotes/") {
			refs = append(refs, head)
		}
	}
	slices.Sort(refs)
	return refs
}

// formatDate formats seconds since 1970, "" when git could not read the time of the commit.
func formatDate(seconds string) string {
	n, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return ""
	}
	return time.Unix(n, 0).UTC().Format(time.RFC3339)
}
