package verify

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/spritekit/lattice/spritekit/skill"
)

// maxFindings bounds the findings of a review that are tried.
const maxFindings = 20

// States of a finding. It is confirmed if its reproduction ran: red at the commit, and green with the proposed fix or without a named
// commit. All others are unconfirmed.
const (
	confirmed   = "confirmed"
	unconfirmed = "unconfirmed"
)

type confirmInput struct {
	Repo     string  `json:"repo"`
	Commit   string  `json:"commit"`
	Text     string  `json:"text"`
	TimeoutS float64 `json:"timeout_s"`
}

// finding is a finding of a review.
type finding struct {
	Title     string        `json:"title"`
	Severity  string        `json:"severity"`
	File      string        `json:"file"`
	Line      int           `json:"line"`
	Reproduce *reproduction `json:"reproduce"`
	Fix       string        `json:"fix"`    // a patch
	Revert    string        `json:"revert"` // a commit in the history of the reviewed one
}

// reproduction is a command that is red where the fault is. The files are written before it runs.
type reproduction struct {
	Files   map[string]string `json:"files"`
	Command json.RawMessage   `json:"command"` // as test.run takes it
}

// judgedFinding is a finding with its state.
type judgedFinding struct {
	Title    string `json:"title"`
	Severity string `json:"severity,omitempty"`
	File     string `json:"file,omitempty"`
	Line     int    `json:"line,omitempty"`
	Status   string `json:"status"`
	Reason   string `json:"reason"`
}

type confirmOutput struct {
	Report      string          `json:"report"`
	Findings    []judgedFinding `json:"findings"`
	Confirmed   int             `json:"confirmed"`
	Unconfirmed int             `json:"unconfirmed"`
}

// Confirm is test.confirm: it runs the reproductions of a review.
func (v verifier) Confirm(ctx context.Context, c *skill.Call, in confirmInput) (*confirmOutput, error) {
	text, list, problem := splitFindings(in.Text)
	out := confirmOutput{Findings: []judgedFinding{}}
	t := trial{verifier: v, call: c, repo: cmp.Or(in.Repo, "repo"), timeout: cmp.Or(in.TimeoutS, 300), clone: "confirm-" + hexDigest(c.ID)[:12]}
	if len(list) > 0 {
		commit, err := t.resolve(ctx, cmp.Or(in.Commit, "HEAD"))
		if err != nil {
			return nil, err
		}
		t.commit = commit
	}
	for _, f := range list {
		j := judgedFinding{Title: oneLine(f.Title), Severity: oneLine(f.Severity), File: oneLine(f.File), Line: f.Line, Status: unconfirmed}
		reason, green, err := t.judge(ctx, f)
		if err != nil {
			return nil, err
		}
		j.Reason = oneLine(reason)
		if green {
			j.Status = confirmed
			out.Confirmed++
		} else {
			out.Unconfirmed++
		}
		out.Findings = append(out.Findings, j)
	}
	out.Report = formatFindings(text, out.Findings, problem)
	return &out, nil
}

// splitFindings cuts the block of findings out of a review. problem says why there are none.
func splitFindings(review string) (text string, list []finding, problem string) {
	const fence = "```findings\n"
	before, rest, ok := strings.Cut("\n"+strings.ReplaceAll(review, "\r\n", "\n")+"\n", "\n"+fence)
	if !ok {
		return review, nil, "The review lists no finding that could be confirmed."
	}
	block, after, ok := strings.Cut("\n"+rest, "\n```\n")
	if !ok {
		return review, nil, "The list of findings has no end, so that none is confirmed."
	}
	if err := json.Unmarshal([]byte(block), &list); err != nil {
		return review, nil, "The list of findings is not valid (" + oneLine(err.Error()) + "), so that none is confirmed."
	}
	text = strings.TrimSpace(before + "\n" + after)
	switch {
	case len(list) == 0:
		problem = "The review has no findings."
	case len(list) > maxFindings:
		problem = fmt.Sprintf("Only the first %d of %d findings were tried.", maxFindings, len(list))
		list = list[:maxFindings]
	}
	return text, list, problem
}

// formatFindings returns a review with the states of its findings, the confirmed ones first.
func formatFindings(text string, list []judgedFinding, problem string) string {
	var b strings.Builder
	b.WriteString(strings.TrimSpace(text) + "\n\n## Findings\n\n")
	for _, state := range []string{confirmed, unconfirmed} {
		for _, f := range list {
			if f.Status != state {
				continue
			}
			place := f.File
			if f.Line > 0 {
				place = fmt.Sprintf("%s:%d", place, f.Line)
			}
			fmt.Fprintf(&b, "- %s: %s: %s\n", state, strings.Join(slices.DeleteFunc([]string{f.Severity, place, f.Title}, func(s string) bool { return s == "" }), " "), f.Reason)
		}
	}
	if problem != "" {
		b.WriteString(problem + "\n")
	}
	return b.String()
}

// oneLine keeps a text of a review from ending its line.
func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// trial runs reproductions on clean clones of a commit.
type trial struct {
	verifier
	call                *skill.Call
	repo, commit, clone string
	timeout             float64
}

// resolve returns the id of a commit.
func (t *trial) resolve(ctx context.Context, revision string) (string, error) {
	var found struct {
		Resolved []struct {
			Commit string `json:"commit"`
		} `json:"resolved"`
	}
	if err := t.CallSkill(ctx, t.call, "git.rev_parse", map[string]any{"repo": t.repo, "refs": []string{revision}}, &found); err != nil {
		return "", err
	}
	if !isCommitID(found.Resolved[0].Commit) {
		return "", skill.BadInput("/commit", "%s is not a commit", revision)
	}
	return found.Resolved[0].Commit, nil
}

// judge tries a finding and says why it is confirmed or not. Its error is one of this machine, not of the review.
func (t *trial) judge(ctx context.Context, f finding) (reason string, ok bool, err error) {
	short := t.commit[:12]
	switch {
	case f.Reproduce == nil || len(f.Reproduce.Command) == 0:
		return "it has no reproduction", false, nil
	case f.Fix == "" && f.Revert == "":
		return "it proposes no fix and names no commit to revert", false, nil
	}
	status, err := t.try(ctx, f, func(string) error { return nil })
	if err != nil || status != red {
		return fmt.Sprintf("its reproduction is %s at %s", status, short), false, err
	}
	mend, how := t.applyFix, "with the proposed fix"
	if f.Fix == "" {
		mend, how = t.revertCommit, "without "+f.Revert
	}
	status, err = t.try(ctx, f, func(clone string) error { return mend(ctx, clone, f) })
	if err != nil || status != green {
		return fmt.Sprintf("its reproduction is red at %s, and %s %s", short, status, how), false, err
	}
	return fmt.Sprintf("red at %s, green %s", short, how), true, nil
}

// Outcomes of a reproduction; any other says why it did not run.
const (
	red   = "red"
	green = "green"
)

// try clones the commit, mends the clone, writes the files of the reproduction over it and runs its command.
func (t *trial) try(ctx context.Context, f finding, mend func(clone string) error) (status string, err error) {
	root := t.call.Root
	defer func() { err = errors.Join(err, root.RemoveAll(t.clone)) }()
	if err := root.RemoveAll(t.clone); err != nil {
		return "", err
	}
	if err := t.CallSkill(ctx, t.call, "git.clone", map[string]any{"url": t.repo, "dest": t.clone, "ref": t.commit}, nil); err != nil {
		return "", err
	}
	if err := mend(t.clone); err != nil {
		return refusedBy(ctx, "not run, as the change does not apply", err)
	}
	for _, name := range slices.Sorted(maps.Keys(f.Reproduce.Files)) {
		if !fs.ValidPath(name) || name == ".git" || strings.HasPrefix(strings.ToLower(name), ".git/") {
			return fmt.Sprintf("not run, as %q is not a file of the repository", name), nil
		}
		file := path.Join(t.clone, name)
		err := root.MkdirAll(path.Dir(file))
		if err == nil {
			err = root.WriteFile(file, []byte(f.Reproduce.Files[name]), 0o644)
		}
		if err != nil {
			return refusedBy(ctx, "not run, as its files cannot be written", err)
		}
	}
	back, err := setAside(t.call, t.clone)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, back()) }()
	var report struct {
		Status string `json:"status"`
	}
	err = t.runTests(ctx, t.call, map[string]any{"cwd": t.clone, "command": f.Reproduce.Command, "framework": "command", "env": neutral, "allow_red": true, "timeout_s": t.timeout}, &report)
	switch {
	case err != nil:
		return refusedBy(ctx, "not run", err)
	case report.Status == "passed":
		return green, nil
	case report.Status == "failed":
		return red, nil
	}
	return "not run (" + report.Status + ")", nil
}

// refusedBy says that a skill refused what the review asks for. An end of the call stays an error.
func refusedBy(ctx context.Context, status string, err error) (string, error) {
	if ctx.Err() != nil {
		return "", err
	}
	return status + " (" + oneLine(err.Error()) + ")", nil
}

func (t *trial) applyFix(ctx context.Context, clone string, f finding) error {
	patch := f.Fix
	if !strings.HasSuffix(patch, "\n") {
		patch += "\n"
	}
	return t.CallSkill(ctx, t.call, "git.apply", map[string]any{"repo": clone, "patch": patch, "index": false}, nil)
}

// revertCommit takes the changes of one commit back, which must be in the history.
func (t *trial) revertCommit(ctx context.Context, clone string, f finding) error {
	var base struct {
		IsAncestor bool `json:"is_ancestor"`
	}
	if err := t.CallSkill(ctx, t.call, "git.merge_base", map[string]any{"repo": clone, "commits": []string{f.Revert, t.commit}}, &base); err != nil {
		return err
	}
	if !base.IsAncestor {
		return fmt.Errorf("%s is not in the history of %s", f.Revert, t.commit[:12])
	}
	var diff struct {
		Patch     string `json:"patch"`
		PatchFile string `json:"patch_file"`
		Truncated bool   `json:"truncated"`
	}
	if err := t.CallSkill(ctx, t.call, "git.diff", map[string]any{"repo": clone, "from": f.Revert + "^", "to": f.Revert, "binary": true}, &diff); err != nil {
		return err
	}
	if diff.Truncated {
		return fmt.Errorf("the changes of %s are too large", f.Revert)
	}
	apply := map[string]any{"repo": clone, "reverse": true, "index": false, "patch": diff.Patch}
	if diff.PatchFile != "" {
		delete(apply, "patch")
		apply["patch_file"] = diff.PatchFile
	}
	return t.CallSkill(ctx, t.call, "git.apply", apply, nil)
}
