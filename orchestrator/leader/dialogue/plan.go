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

// plan creates the intent that lets an agent answer an issue.
func (d *Dialogue) plan(ctx context.Context, a asked) (intent.State, error) {
	title, body, err := d.readIssue(ctx, a)
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
	input["title"], input["body"] = title, body
	if r.Input, err = json.Marshal(input); err != nil {
		return intent.State{}, err
	}
	r.Kind, r.Subject, r.Signal = "issue_triage", a.Thread.String(), "forge"
	r.Key = a.key()
	return d.Runs.CreateIntent(ctx, r)
}

// key returns the key of the intent of a command.
func (a asked) key() string { return fmt.Sprintf("forge/%s/%d/%d", a.Host, a.item, a.Line) }

// readIssue returns the title of an issue, and its text with the comments. The issue must be as it was when a person gave the
// command: one that was edited since is refused. A poll does not tell how the issue was.
func (d *Dialogue) readIssue(ctx context.Context, a asked) (title, body string, err error) {
	issue, err := a.client.Issue(ctx, a.Repo, a.Number)
	if err != nil {
		return "", "", err
	}
	if a.issueSum != "" && a.issueSum != hook.SumIssue(issue.Title, issue.Body) {
		return "", "", fault.Failed("issue_edited", "the issue was edited after the command").WithHint("read it again, and repeat the command")
	}
	comments, err := a.client.Comments(ctx, a.Repo, a.Number)
	if err != nil {
		return "", "", err
	}
	body, err = d.gather(ctx, a, issue, comments)
	return text.Line(issue.Title), body, err
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
