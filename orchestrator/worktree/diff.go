package worktree

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/orchestrator/worktree/gitexec"
)

// Bounds of a Diff: it is stored with the run and shown to a person. The digest covers everything.
const (
	maxFiles   = 200
	maxCommits = 50
	maxNames   = 200 // bytes of a subject
)

// Diff describes base..head for a person.
type Diff struct {
	Files        []File   `json:"files"`   // the first 200, in git's order
	Commits      []Commit `json:"commits"` // the first 50, newest first
	FilesTotal   int      `json:"files_total"`
	CommitsTotal int      `json:"commits_total"`
	Additions    int      `json:"additions"` // lines, over all files that are not binary
	Deletions    int      `json:"deletions"`
	Stat         string   `json:"stat"` // one line
}

// File is one changed path. Status is git's letter: A, M, D or T.
type File struct {
	Path      string `json:"path"`
	Status    string `json:"status"`
	Additions int    `json:"additions"` // -1 = binary
	Deletions int    `json:"deletions"`
}

// Commit is one commit of the push.
type Commit struct {
	SHA     string `json:"sha"`
	Subject string `json:"subject"`
	Author  string `json:"author"` // name <email>
}

// change is one record of git diff-tree --raw.
type change struct {
	path    string
	status  string
	newMode string
	newOID  string
}

// describeDiff fills in the digest, the description and the warnings of s.
func (s *staged) describeDiff(ctx context.Context) error {
	q := s.repo
	if err := q.checkPaths(ctx, s.Base, s.Head); err != nil {
		return err
	}
	raw, err := q.run(ctx, "diff-tree", "-r", "-z", "--full-index", "--no-renames", s.Base, s.Head)
	if err != nil {
		return err
	}
	if raw.Exit != 0 {
		return fmt.Errorf("compare base and head: %s", raw.Stderr)
	}
	sum := sha256.Sum256(raw.Stdout)
	s.DiffDigest = hex.EncodeToString(sum[:])
	changes, err := parseRaw(string(raw.Stdout))
	if err != nil {
		return err
	}
	num, err := q.mustRun(ctx, "diff-tree", "-r", "-z", "--numstat", "--no-renames", "--no-ext-diff", "--no-textconv", s.Base, s.Head)
	if err != nil {
		return err
	}
	lines := parseNumstat(string(num.Stdout))
	s.Diff.Files, s.Diff.Commits = []File{}, []Commit{}
	s.Diff.FilesTotal = len(changes)
	for i, c := range changes {
		n := lines[c.path]
		s.Diff.Additions += max(n[0], 0)
		s.Diff.Deletions += max(n[1], 0)
		if i < maxFiles {
			s.Diff.Files = append(s.Diff.Files, File{Path: gitexec.CleanLine(c.path), Status: c.status, Additions: n[0], Deletions: n[1]})
		}
	}
	s.Diff.Stat = fmt.Sprintf("%d files changed, %d insertions(+), %d deletions(-)", len(changes), s.Diff.Additions, s.Diff.Deletions)
	if s.Warnings, err = q.diffWarnings(ctx, changes, lines); err != nil {
		return err
	}
	if s.Request.Review != nil {
		content := Content{q: q, base: s.Base, head: s.Head}
		for _, c := range changes {
			content.Changes = append(content.Changes, Change{c.path, c.status == "D"})
		}
		found, err := s.Request.Review(ctx, content)
		if err != nil {
			return err
		}
		s.Warnings = append(found, s.Warnings...)
	}
	return s.describeCommits(ctx)
}

func (s *staged) describeCommits(ctx context.Context) error {
	q := s.repo
	rng := s.Base + ".." + s.Head
	r, err := q.mustRun(ctx, "rev-list", "--count", rng)
	if err != nil {
		return err
	}
	if s.Diff.CommitsTotal, err = strconv.Atoi(r.StdoutText()); err != nil {
		return fmt.Errorf("count the commits: %w", err)
	}
	// %s and %an cannot hold a newline, so lines are records whatever a commit says.
	r, err = q.mustRun(ctx, "log", "--no-show-signature", "--format=%H%x00%an <%ae>%x00%<("+strconv.Itoa(maxNames)+",trunc)%s",
		"--max-count="+strconv.Itoa(maxCommits), rng)
	if err != nil {
		return err
	}
	for l := range strings.Lines(string(r.Stdout)) {
		f := strings.SplitN(l, "\x00", 3)
		if len(f) == 3 {
			s.Diff.Commits = append(s.Diff.Commits, Commit{SHA: f[0], Author: gitexec.CleanLine(f[1]), Subject: gitexec.CleanLine(f[2])})
		}
	}
	return nil
}

// parseRaw reads the output of git diff-tree -r -z.
func parseRaw(out string) ([]change, error) {
	var changes []change
	fields := strings.Split(strings.TrimSuffix(out, "\x00"), "\x00")
	if out == "" {
		return nil, nil
	}
	if len(fields)%2 != 0 {
		return nil, fmt.Errorf("read git diff-tree: a record is cut")
	}
	for i := 0; i < len(fields); i += 2 {
		meta := strings.Fields(fields[i]) // :oldmode newmode oldoid newoid status
		if len(meta) != 5 {
			return nil, fmt.Errorf("read git diff-tree: a record has %d fields", len(meta))
		}
		changes = append(changes, change{path: fields[i+1], status: meta[4], newMode: meta[1], newOID: meta[3]})
	}
	return changes, nil
}

// parseNumstat reads the output of git diff-tree -z --numstat: path → additions and deletions, -1 for binary files.
func parseNumstat(out string) map[string][2]int {
	lines := map[string][2]int{}
	for record := range strings.SplitSeq(out, "\x00") {
		f := strings.SplitN(record, "\t", 3)
		if len(f) != 3 {
			continue
		}
		var n [2]int
		for i := range n {
			v, err := strconv.Atoi(f[i])
			if err != nil { // "-"
				v = -1
			}
			n[i] = v
		}
		lines[f[2]] = n
	}
	return lines
}

// checkedOut reports whether the output of git worktree list --porcelain shows ref in use.
func checkedOut(list, ref string) bool {
	for l := range strings.SplitSeq(list, "\n") {
		if l == "branch "+ref {
			return true
		}
	}
	return false
}
