package dialogue

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/forge/comment"
	"github.com/spritekit/lattice/orchestrator/forge/hook"
	"github.com/spritekit/lattice/orchestrator/intent"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/text"
)

// maxIssue bounds the text of an issue that an agent gets, in bytes.
const maxIssue = 64 << 10

// plan creates the intent that lets an agent answer an issue. It gets the issue as it was when a person asked for a plan: one that
// was edited since is refused. A poll does not tell how the issue was.
func (d *Dialogue) plan(ctx context.Context, a asked) (intent.State, error) {
	issue, err := a.client.Issue(ctx, a.Repo, a.Number)
	if err != nil {
		return intent.State{}, err
	}
	if a.issueSum != "" && a.issueSum != hook.SumIssue(issue.Title, issue.Body) {
		return intent.State{}, fault.Failed("issue_edited", "the issue was edited after the command").WithHint("read it again, and repeat the command")
	}
	comments, err := a.client.Comments(ctx, a.Repo, a.Number)
	if err != nil {
		return intent.State{}, err
	}
	body, err := d.gather(ctx, a, issue, comments)
	if err != nil {
		return intent.State{}, err
	}
	r := d.Hosts[a.Host].Plan
	input := map[string]any{}
	if len(r.Input) > 0 {
		if err := json.Unmarshal(r.Input, &input); err != nil {
			return intent.State{}, err
		}
	}
	input["title"], input["body"] = text.Line(issue.Title), body
	if r.Input, err = json.Marshal(input); err != nil {
		return intent.State{}, err
	}
	r.Kind, r.Subject, r.Signal = "issue_triage", a.Thread.String(), "forge"
	r.Key = fmt.Sprintf("forge/%s/%d/%d", a.Host, a.item, a.Line)
	return d.Runs.CreateIntent(ctx, r)
}

// gather returns the text of an issue with the comments before the one that holds the command. Those of people without the
// role, and those that were edited afterwards, are left out: neither may speak to an agent through another person's command.
func (d *Dialogue) gather(ctx context.Context, a asked, issue forge.Issue, comments []forge.Comment) (string, error) {
	self, err := a.client.Self(ctx)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString(comment.StripHidden(text.Visible(issue.Body)))
	roles, withheld := map[int64]forge.Role{}, 0
	for _, c := range comments {
		if c.ID >= a.item {
			break
		}
		role, known := roles[c.Author.ID]
		if !known {
			if role, err = a.client.Role(ctx, a.Repo, c.Author.ID); err != nil {
				return "", err
			}
			roles[c.Author.ID] = role
		}
		switch {
		case c.Author.ID == self.ID:
		case !role.AtLeast(forge.Triage) || c.Edited() || c.Author.Bot:
			withheld++
		default:
			fmt.Fprintf(&b, "\n\n%s wrote:\n\n%s", text.Line(c.Author.Login), comment.StripHidden(text.Visible(c.Body)))
		}
	}
	if withheld > 0 {
		fmt.Fprintf(&b, "\n\n%d comments are left out: their authors have no role here, or they were edited.", withheld)
	}
	return text.Head(b.String(), maxIssue), nil
}
