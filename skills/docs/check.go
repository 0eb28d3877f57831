// Package docs holds docs.check: it finds the lines of documents that name a flag, a route or a config key that the code no longer
// has. Start with checker.Check. The changes of the code say which names it lost (names.go, which is pure); a search of the work
// tree says which of them the code still uses elsewhere, and where documents name the others. Package git compares, package fs
// searches; this package calls their skills by name.
package docs

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spritekit/lattice/skills/unified"
	"github.com/spritekit/lattice/spritekit/skill"
)

const (
	defaultDepth = 50       // commits that are compared
	maxDepth     = 999      // that git.log lists with one more
	maxPatch     = 16 << 20 // bytes of the changes
	maxLosses    = 100      // names that are searched for
	maxFindings  = 100
	maxText      = 200 // bytes of a line in a finding
)

// Skills lists the family. siblings are the skills of the other families.
func Skills(siblings []skill.Skill) []skill.Skill {
	return []skill.Skill{{Name: "docs.check", Run: skill.Typed(checker{siblings}.Check)}}
}

type checker struct{ skill.Siblings }

type input struct {
	Repo  string `json:"repo"`
	Base  string `json:"base"`
	Depth int    `json:"depth"`
}

// finding is a line of a document that names a thing that the code lost.
type finding struct {
	Document  string `json:"document"`
	Line      int    `json:"line"`
	Text      string `json:"text"`
	Kind      string `json:"kind"`
	Name      string `json:"name"`
	RenamedTo string `json:"renamed_to,omitempty"`
	Code      string `json:"code"`
}

type output struct {
	Base      string    `json:"base"`
	Stale     int       `json:"stale"`
	Findings  []finding `json:"findings"`
	Report    string    `json:"report"`
	Truncated bool      `json:"truncated"`
}

// Check is docs.check.
func (k checker) Check(ctx context.Context, c *skill.Call, in input) (*output, error) {
	if in.Depth = cmp.Or(in.Depth, defaultDepth); in.Depth < 1 || in.Depth > maxDepth {
		return nil, skill.BadInput("/depth", "is not between 1 and %d", maxDepth)
	}
	in.Repo = cmp.Or(in.Repo, "repo")
	out := output{Base: in.Base, Findings: []finding{}}
	if out.Base == "" {
		var err error
		if out.Base, err = k.findBase(ctx, c, in); err != nil {
			return nil, err
		}
	}
	files, cut, err := k.compare(ctx, c, in.Repo, out.Base)
	if err != nil {
		return nil, err
	}
	out.Truncated = cut
	lost := lossesOf(files)
	if len(lost) > maxLosses {
		lost, out.Truncated = lost[:maxLosses], true
	}
	for _, l := range lost {
		found, err := k.findMentions(ctx, c, in.Repo, l)
		if err != nil {
			return nil, err
		}
		out.Findings = append(out.Findings, found...)
	}
	if len(out.Findings) > maxFindings {
		out.Findings, out.Truncated = out.Findings[:maxFindings], true
	}
	out.Stale, out.Report = len(out.Findings), formatReport(out.Findings)
	return &out, nil
}

// findBase returns the commit that lies in.Depth commits before the newest one, or the oldest commit.
func (k checker) findBase(ctx context.Context, c *skill.Call, in input) (string, error) {
	var log struct {
		Commits []struct {
			Commit string `json:"commit"`
		} `json:"commits"`
	}
	if err := k.CallSkill(ctx, c, "git.log", map[string]any{"repo": in.Repo, "first_parent": true, "max_count": in.Depth + 1}, &log); err != nil {
		return "", err
	}
	if len(log.Commits) == 0 {
		return "", skill.BadInput("/repo", "has no commit")
	}
	return log.Commits[len(log.Commits)-1].Commit, nil
}

// compare returns the changes between a commit and the work tree.
func (k checker) compare(ctx context.Context, c *skill.Call, repo, base string) (files []unified.File, cut bool, err error) {
	var diff struct {
		Patch     string `json:"patch"`
		PatchFile string `json:"patch_file"`
		Truncated bool   `json:"truncated"`
	}
	if err := k.CallSkill(ctx, c, "git.diff", map[string]any{"repo": repo, "from": base, "context": 0, "renames": true, "max_bytes": maxPatch}, &diff); err != nil {
		return nil, false, err
	}
	if diff.PatchFile != "" {
		raw, err := c.Root.ReadFile(diff.PatchFile, maxPatch)
		if err != nil {
			return nil, false, err
		}
		diff.Patch = string(raw)
	}
	sections, err := unified.Sections(diff.Patch)
	if err != nil && !diff.Truncated {
		return nil, false, fmt.Errorf("read the changes since %s: %w", base, err)
	}
	for _, s := range sections {
		if s.Binary {
			continue
		}
		f, err := s.File()
		if err != nil {
			return nil, false, fmt.Errorf("read the changes since %s: %w", base, err)
		}
		f.Strip(1) // a/ and b/
		files = append(files, f)
	}
	return files, diff.Truncated, nil
}

// match is a line that fs.search found.
type match struct {
	Path string `json:"path"`
	Line int    `json:"line"`
	Text string `json:"text"`
}

// findMentions returns the lines of documents that name a thing that the code lost; none if a line of code still uses it.
func (k checker) findMentions(ctx context.Context, c *skill.Call, repo string, l loss) (found []finding, err error) {
	named, err := k.searchFiles(ctx, c, repo, map[string]any{"pattern": l.inDocument(), "include": documents, "exclude": others})
	if err != nil || len(named) == 0 {
		return nil, err
	}
	used, err := k.searchFiles(ctx, c, repo, map[string]any{"pattern": l.inCode(), "exclude": slices.Concat(documents, others)})
	if err != nil {
		return nil, err
	}
	for _, m := range used {
		if !isComment(m.Text) {
			return nil, nil
		}
	}
	for _, m := range named {
		found = append(found, finding{Document: strings.TrimPrefix(m.Path, repo+"/"), Line: m.Line, Text: strings.TrimSpace(m.Text), Kind: l.Kind, Name: l.asWritten(),
			RenamedTo: name{l.Kind, l.RenamedTo}.asWritten(), Code: fmt.Sprintf("%s:%d", l.File, l.Line)})
	}
	return found, nil
}

// searchFiles calls fs.search with an expression.
func (k checker) searchFiles(ctx context.Context, c *skill.Call, repo string, query map[string]any) ([]match, error) {
	query["path"], query["regexp"], query["hidden"], query["max_results"], query["max_line_bytes"] = repo, true, true, 1000, maxText
	var result struct {
		Matches []match `json:"matches"`
	}
	err := k.CallSkill(ctx, c, "fs.search", query, &result)
	return result.Matches, err
}

// asWritten returns the name as people write it.
func (n name) asWritten() string {
	if n.Kind == flagKind && n.Text != "" {
		return "--" + n.Text
	}
	return n.Text
}

// formatReport returns a line for each finding, for people and agents.
func formatReport(all []finding) string {
	var b strings.Builder
	for _, f := range all {
		fmt.Fprintf(&b, "- %s:%d names the %s %s, which the code no longer has (it was in %s)", f.Document, f.Line, f.Kind, f.Name, f.Code)
		if f.RenamedTo != "" {
			fmt.Fprintf(&b, "; it may be %s now", f.RenamedTo)
		}
		b.WriteByte('\n')
	}
	return b.String()
}
