package dialogue

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/forge/comment"
	"github.com/spritekit/lattice/orchestrator/forge/hook"
	"github.com/spritekit/lattice/orchestrator/intent"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/text"
)

// maxIssue bounds the text of an issue that an agent gets, in bytes.
const maxIssue = 64 << 10

// planTask creates the intent that lets an agent answer an issue.
func (d *Dialogue) planTask(ctx context.Context, a asked) (intent.State, error) {
	g, err := d.gatherThread(ctx, a)
	if err != nil {
		return intent.State{}, err
	}
	bundle, err := d.makeBundle(ctx, a, g)
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
	input["title"], input["body"], input["context"] = g.title, g.text(), bundle
	if r.Input, err = json.Marshal(input); err != nil {
		return intent.State{}, err
	}
	r.Kind, r.Subject, r.Signal = "issue_triage", a.Thread.String(), "forge"
	r.Key = a.key()
	return d.Runs.CreateIntent(ctx, r)
}

// key returns the key of the intent of a command.
func (a asked) key() string { return fmt.Sprintf("forge/%s/%d/%d", a.Host, a.item, a.Line) }

// gathered is an issue or pull request as an agent may read it. Texts are without parts that the code host does not show.
type gathered struct {
	title, body string
	thread      string // the comments before the command
	withheld    int    // comments that are left out
	pull        bool
	at          time.Time            // of the command, or of the issue if the code host does not list the command yet
	roles       map[int64]forge.Role // of people, by their numbers
}

// text returns body and comments in one text.
func (g gathered) text() string {
	s := g.body + g.thread
	if g.withheld > 0 {
		s += fmt.Sprintf("\n\n%d comments are left out: their authors have no role here, or they were edited.", g.withheld)
	}
	return text.Head(s, maxIssue)
}

// gatherThread reads an issue with the comments before the one that holds the command. The issue must be as it was when a person gave
// the command: one that was edited since is refused. A poll does not tell how the issue was. Comments of people without the role,
// and those that were edited afterwards, are left out: neither may speak to an agent through another person's command.
func (d *Dialogue) gatherThread(ctx context.Context, a asked) (g gathered, err error) {
	issue, err := a.client.Issue(ctx, a.Repo, a.Number)
	if err != nil {
		return g, err
	}
	if a.issueSum != "" && a.issueSum != hook.SumIssue(issue.Title, issue.Body) {
		return g, fault.Failed("issue_edited", "the issue was edited after the command").WithHint("read it again, and repeat the command")
	}
	self, err := a.client.Self(ctx)
	if err != nil {
		return g, err
	}
	comments, err := a.client.Comments(ctx, a.Repo, a.Number)
	if err != nil {
		return g, err
	}
	g = gathered{title: text.Line(issue.Title), body: shownText(issue.Body), pull: issue.Pull, at: issue.Created, roles: map[int64]forge.Role{}}
	a.left.addHidden("the issue", issue.Author, a.Host, issue.Title, issue.Body)
	for _, c := range comments {
		if c.ID >= a.item {
			if c.ID == a.item {
				g.at = c.Created
			}
			break
		}
		trusted, err := g.trusts(ctx, a, c.Author)
		switch {
		case err != nil:
			return g, err
		case c.Author.ID == self.ID:
		case !trusted:
			g.withheld++
			a.left.add(c, a.Host, "its author has no role here")
		case c.Edited():
			g.withheld++
			a.left.add(c, a.Host, "it was edited")
		default:
			a.left.addHidden(fmt.Sprintf("comment %d", c.ID), c.Author, a.Host, c.Body)
			g.thread += fmt.Sprintf("\n\n%s wrote:\n\n%s", text.Line(c.Author.Login), shownText(c.Body))
		}
	}
	return g, nil
}

// trusts reports whether the texts of a person may reach an agent.
func (g gathered) trusts(ctx context.Context, a asked, u forge.User) (bool, error) {
	role, known := g.roles[u.ID]
	if !known {
		var err error
		if role, err = a.client.Role(ctx, a.Repo, u.ID); err != nil {
			return false, err
		}
		g.roles[u.ID] = role
	}
	return role.AtLeast(forge.Triage) && !u.Bot, nil
}

// shownText returns a text without the parts that the code host does not show.
func shownText(s string) string { return comment.StripHidden(text.Visible(s)) }
