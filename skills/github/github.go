// Package github holds the skills that propose changes at GitHub: github.open_pr, github.open_issues, github.comment
// and github.label. None of them talks to GitHub. Each asks the orchestrator, which decides and acts from outside (DESIGN 18):
// open_pr and open_issues wait for the outcome, the others do when told to.
package github

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spritekit/lattice/skills/propose"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

// Branch is a branch on its way out: the commits between BaseSHA and HeadSHA, in a bundle at a path in the sprite.
type Branch struct {
	Name             string
	BaseSHA, HeadSHA string
	Bundle, SHA256   string
	Origin           string // the URL that the repository was cloned from, "" if it is not known
}

// Bundle writes the commits of a branch, "" for the current one, that base lacks.
type Bundle func(ctx context.Context, c *skill.Call, repo, branch, base string) (Branch, error)

// Skills lists the family.
func Skills(bundle Bundle) []skill.Skill {
	f := family{bundle}
	return []skill.Skill{
		{Name: "github.comment", Run: skill.Typed(postComment)},
		{Name: "github.label", Run: skill.Typed(labelIssue)},
		{Name: "github.open_issues", Run: skill.Typed(openIssues)},
		{Name: "github.open_pr", Run: skill.Typed(f.openPR)},
	}
}

type family struct{ bundle Bundle }

type openInput struct {
	Title  string `json:"title"`
	Body   string `json:"body"`
	Branch string `json:"branch"`
	Base   string `json:"base"`
	Repo   string `json:"repo"`
	// Also has further repositories of the workspace, with a pull request each.
	Also []struct {
		Repo   string `json:"repo"`
		Branch string `json:"branch"`
		Base   string `json:"base"`
		Target string `json:"target"`
	} `json:"also"`
}

type openData struct {
	PRURL    string          `json:"pr_url,omitempty"`
	Number   int64           `json:"number,omitempty"`
	Branch   string          `json:"branch,omitempty"`
	Comments string          `json:"comments,omitempty"`
	Result   json.RawMessage `json:"result,omitempty"`
}

func (f family) openPR(ctx context.Context, c *skill.Call, in openInput) (*openData, error) {
	if err := propose.Line("/title", in.Title, protocol.MaxTitle); err != nil {
		return nil, err
	}
	if err := propose.Optional("/body", in.Body, protocol.MaxBody); err != nil {
		return nil, err
	}
	if c.Resume != nil {
		return readOpened(c, in)
	}
	b, err := f.bundle(ctx, c, in.Repo, in.Branch, in.Base)
	if err != nil {
		return nil, err
	}
	also, err := f.bundleAlso(ctx, c, in)
	if err != nil {
		return nil, err
	}
	return nil, propose.Ask(ctx, c, protocol.ActionOpenPR, protocol.OpenPR{
		Title: in.Title, Body: in.Body, Base: in.Base, Head: b.Name, BaseSHA: b.BaseSHA, HeadSHA: b.HeadSHA, Bundle: b.Bundle, SHA256: b.SHA256, Also: also,
	})
}

// bundleAlso writes the bundles of further repositories.
func (f family) bundleAlso(ctx context.Context, c *skill.Call, in openInput) (also []protocol.AlsoPush, err error) {
	if len(in.Also) > protocol.MaxAlso {
		return nil, skill.BadInput("/also", "has %d entries, at most %d are allowed", len(in.Also), protocol.MaxAlso)
	}
	for i, a := range in.Also {
		if a.Repo == "" {
			return nil, skill.BadInput(fmt.Sprintf("/also/%d/repo", i), "is missing: the folder of the repository")
		}
		b, err := f.bundle(ctx, c, a.Repo, a.Branch, a.Base)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", a.Repo, err)
		}
		to := cmp.Or(a.Target, b.Origin)
		if to == "" {
			return nil, skill.BadInput(fmt.Sprintf("/also/%d/target", i), "is missing: %s was not cloned from the URL that the commits are for", a.Repo)
		}
		also = append(also, protocol.AlsoPush{Repo: to, Branch: b.Name, Base: b.BaseSHA, Head: b.HeadSHA, Bundle: b.Bundle, SHA256: b.SHA256, Into: a.Base})
	}
	return also, nil
}

// readOpened ends a call whose pull request was opened. A person who said no more than yes opened it by hand.
func readOpened(c *skill.Call, in openInput) (*openData, error) {
	a, err := propose.Answered(c, protocol.ActionOpenPR)
	if err != nil {
		return nil, err
	}
	d := openData{Branch: in.Branch, Comments: a.Comments, Result: a.Result}
	var result struct {
		URL    string `json:"url"`
		PRURL  string `json:"pr_url"`
		Number int64  `json:"number"`
		Also   []struct {
			URL    string `json:"url"`
			Branch string `json:"branch"`
		} `json:"also"`
	}
	if len(a.Result) > 0 {
		if err := json.Unmarshal(a.Result, &result); err != nil {
			return nil, skill.BadInput("/result", "is not what a pull request answers: %v", err)
		}
	}
	if d.PRURL = result.PRURL; d.PRURL == "" {
		d.PRURL = result.URL
	}
	if d.Number = result.Number; d.PRURL == "" {
		return &d, nil
	}
	if err := propose.Link("/result/url", d.PRURL); err != nil {
		return nil, err
	}
	for i, one := range result.Also {
		if err := propose.Link(fmt.Sprintf("/result/also/%d/url", i), one.URL); err != nil {
			return nil, err
		}
		if err := c.Emit(protocol.Artifact{Kind: "pr_url", Ref: one.Branch, URL: one.URL}); err != nil {
			return nil, err
		}
	}
	return &d, c.Emit(protocol.Artifact{Kind: "pr_url", Ref: in.Branch, URL: d.PRURL})
}

// proposed is the data of a comment or of labels.
type proposed struct {
	Requested bool            `json:"requested"`
	Done      bool            `json:"done"`
	URL       string          `json:"url,omitempty"`
	Comments  string          `json:"comments,omitempty"`
	Result    json.RawMessage `json:"result,omitempty"`
}

type commentInput struct {
	protocol.PostComment
	Wait bool `json:"wait"`
}

func postComment(ctx context.Context, c *skill.Call, in commentInput) (*proposed, error) {
	if in.Number < 1 {
		return nil, skill.BadInput("/number", "is not positive")
	}
	if err := propose.Text("/body", in.Body, protocol.MaxBody); err != nil {
		return nil, err
	}
	return request(ctx, c, protocol.ActionPostComment, in.PostComment, in.Wait)
}

type labelInput struct {
	protocol.LabelIssue
	Wait bool `json:"wait"`
}

func labelIssue(ctx context.Context, c *skill.Call, in labelInput) (*proposed, error) {
	if in.Number < 1 {
		return nil, skill.BadInput("/number", "is not positive")
	}
	if len(in.Labels) == 0 || len(in.Labels) > protocol.MaxLabels {
		return nil, skill.BadInput("/labels", "has %d entries, 1 to %d are allowed", len(in.Labels), protocol.MaxLabels)
	}
	seen := map[string]bool{}
	for i, label := range in.Labels {
		pointer := fmt.Sprintf("/labels/%d", i)
		if err := propose.Line(pointer, label, protocol.MaxLabel); err != nil {
			return nil, err
		}
		if key := strings.ToLower(label); seen[key] { // GitHub's labels are the same in any case
			return nil, skill.BadInput(pointer, "is given twice")
		} else {
			seen[key] = true
		}
	}
	return request(ctx, c, protocol.ActionLabelIssue, in.LabelIssue, in.Wait)
}

// request asks for something whose outcome the work can do without; with wait it is waited for all the same.
func request(ctx context.Context, c *skill.Call, action string, parameters any, wait bool) (*proposed, error) {
	switch {
	case !wait:
		return &proposed{Requested: true}, propose.Tell(c, action, parameters)
	case c.Resume == nil:
		return nil, propose.Ask(ctx, c, action, parameters)
	}
	a, err := propose.Answered(c, action)
	if err != nil {
		return nil, err
	}
	d := proposed{Requested: true, Done: true, Comments: a.Comments, Result: a.Result}
	var result struct {
		URL string `json:"url"`
	}
	if len(a.Result) > 0 {
		if err := json.Unmarshal(a.Result, &result); err != nil {
			return nil, skill.BadInput("/result", "is no answer to %s: %v", action, err)
		}
	}
	if d.URL = result.URL; d.URL == "" {
		return &d, nil
	}
	return &d, propose.Link("/result/url", d.URL)
}
