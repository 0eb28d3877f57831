package github

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/spritekit/lattice/skills/propose"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

type issuesInput struct {
	Document string `json:"document"`
	// Tasks are as the flow plan-tasks has them; the priority is for the board.
	Tasks []struct {
		Key         string `json:"key"`
		Epic        string `json:"epic"`
		Title       string `json:"title"`
		Description string `json:"description"`
		Priority    string `json:"priority"`
	} `json:"tasks"`
	Number int64  `json:"number"`
	Repo   string `json:"repo"`
}

type openedIssue struct {
	Key    string `json:"key"`
	URL    string `json:"url"`
	Number int64  `json:"number"`
	Status string `json:"status"`
}

type issuesData struct {
	Issues   []openedIssue `json:"issues"`
	Epics    []openedIssue `json:"epics"`
	Comments string        `json:"comments,omitempty"`
}

// openIssues asks for an issue for each task, and for one for each epic.
func openIssues(ctx context.Context, c *skill.Call, in issuesInput) (*issuesData, error) {
	if err := propose.Line("/document", in.Document, protocol.MaxTitle); err != nil {
		return nil, err
	}
	if len(in.Tasks) == 0 || len(in.Tasks) > protocol.MaxIssues {
		return nil, skill.BadInput("/tasks", "has %d entries, 1 to %d are allowed", len(in.Tasks), protocol.MaxIssues)
	}
	p := protocol.OpenIssues{Document: in.Document, Number: in.Number, Repo: in.Repo}
	for i, t := range in.Tasks {
		if err := propose.Line(fmt.Sprintf("/tasks/%d/title", i), t.Title, protocol.MaxTitle); err != nil {
			return nil, err
		}
		p.Issues = append(p.Issues, protocol.TaskIssue{Key: t.Key, Epic: t.Epic, Title: t.Title, Body: t.Description})
	}
	if c.Resume == nil {
		return nil, propose.Ask(ctx, c, protocol.ActionOpenIssues, p)
	}
	a, err := propose.Answered(c, protocol.ActionOpenIssues)
	if err != nil {
		return nil, err
	}
	d := issuesData{Issues: []openedIssue{}, Epics: []openedIssue{}}
	if len(a.Result) > 0 {
		if err := json.Unmarshal(a.Result, &d); err != nil {
			return nil, skill.BadInput("/result", "is not an answer to %s: %v", protocol.ActionOpenIssues, err)
		}
	}
	d.Comments = a.Comments
	for _, list := range [][]openedIssue{d.Issues, d.Epics} {
		for i, one := range list {
			if err := propose.Link(fmt.Sprintf("/result/%d/url", i), one.URL); err != nil {
				return nil, err
			}
			if err := c.Emit(protocol.Artifact{Kind: "issue_url", Ref: one.Key, URL: one.URL}); err != nil {
				return nil, err
			}
		}
	}
	return &d, nil
}
