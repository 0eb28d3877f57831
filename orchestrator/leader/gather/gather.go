// Package gather collects from a thread the texts that an agent may read. Start with [Read]; [Content.Bundle] makes the files of the context
// bundle. Besides the issue or pull request itself, an agent gets only texts of people with a role, and only the parts that the code host
// shows. [LeftOut] names the others. The package writes nothing.
package gather

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/forge/comment"
	"github.com/spritekit/lattice/orchestrator/forge/hook"
	"github.com/spritekit/lattice/orchestrator/leader/thread"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/text"
)

// MaxText bounds the text of an issue that an agent gets, in bytes.
const MaxText = 64 << 10

// Client is the part of forge.Client that reads the texts of a thread.
type Client interface {
	Self(ctx context.Context) (forge.User, error)
	Role(ctx context.Context, p forge.Path, user int64) (forge.Role, error)
	Issue(ctx context.Context, p forge.Path, number int64) (forge.Issue, error)
	Comments(ctx context.Context, p forge.Path, number int64) ([]forge.Comment, error)
	Files(ctx context.Context, p forge.Path, number int64) ([]forge.File, error)
	Reviews(ctx context.Context, p forge.Path, number int64) ([]forge.Review, error)
	ReviewComments(ctx context.Context, p forge.Path, number int64) ([]forge.ReviewComment, error)
}

// Source is a thread at the moment of a command.
type Source struct {
	thread.Thread
	Client  Client
	Comment int64 // the one that holds the command
	// IssueSum is the digest of the issue when the command was given, "" if that is not known.
	IssueSum string
	Left     *LeftOut // gets the parts that are left out; not nil
}

// Content is the content of a source. Texts are without parts that the code host does not show.
type Content struct {
	Source
	Title, Body string
	Pull        bool
	At          time.Time // of the command, or of the issue if the code host does not list the command yet

	comments string               // those before the command
	withheld int                  // comments that are left out
	roles    map[int64]forge.Role // of people, by their numbers
}

// Text returns body and comments in one text.
func (g Content) Text() string {
	s := g.Body + g.comments
	if g.withheld > 0 {
		s += fmt.Sprintf("\n\n%d comments are left out: their authors have no role here, or they were edited.", g.withheld)
	}
	return text.Head(s, MaxText)
}

// Read reads a thread with the comments before the one that holds the command. The issue or pull request must be as it was when a person gave
// the command: one that was edited since is refused. A poll does not tell how the issue was. Comments of people without the role,
// and those that were edited afterwards, are left out: neither may speak to an agent through another person's command.
func Read(ctx context.Context, s Source) (g Content, err error) {
	issue, err := s.Client.Issue(ctx, s.Repo, s.Number)
	if err != nil {
		return g, err
	}
	if s.IssueSum != "" && s.IssueSum != hook.SumIssue(issue.Title, issue.Body) {
		return g, fault.Failed("issue_edited", "the issue was edited after the command").WithHint("read it again, and repeat the command")
	}
	self, err := s.Client.Self(ctx)
	if err != nil {
		return g, err
	}
	comments, err := s.Client.Comments(ctx, s.Repo, s.Number)
	if err != nil {
		return g, err
	}
	g = Content{Source: s, Title: text.Line(issue.Title), Body: shownText(issue.Body), Pull: issue.Pull, At: issue.Created, roles: map[int64]forge.Role{}}
	s.Left.addHidden("the issue", issue.Author, s.Host, issue.Title, issue.Body)
	for _, c := range comments {
		if c.ID >= s.Comment {
			if c.ID == s.Comment {
				g.At = c.Created
			}
			break
		}
		trusted, err := g.isTrusted(ctx, c.Author)
		switch {
		case err != nil:
			return g, err
		case c.Author.ID == self.ID:
		case !trusted:
			g.withheld++
			s.Left.addComment(c, s.Host, "its author has no role here")
		case c.Edited():
			g.withheld++
			s.Left.addComment(c, s.Host, "it was edited")
		default:
			s.Left.addHidden(fmt.Sprintf("comment %d", c.ID), c.Author, s.Host, c.Body)
			g.comments += fmt.Sprintf("\n\n%s wrote:\n\n%s", text.Line(c.Author.Login), shownText(c.Body))
		}
	}
	return g, nil
}

// isTrusted reports whether the texts of a person may reach an agent.
func (g Content) isTrusted(ctx context.Context, u forge.User) (bool, error) {
	role, known := g.roles[u.ID]
	if !known {
		var err error
		if role, err = g.Client.Role(ctx, g.Repo, u.ID); err != nil {
			return false, err
		}
		g.roles[u.ID] = role
	}
	return role.AtLeast(forge.Triage) && !u.Bot, nil
}

// shownText returns a text without the parts that the code host does not show.
func shownText(s string) string { return comment.StripHidden(text.Visible(s)) }

// LeftOut lists the parts of a thread that an agent does not get. The entry about the command names who wrote each, where, and why. A long
// thread has a part of its comments there, and their number.
type LeftOut struct {
	Comments int           `json:"comments,omitempty"`
	First    []leftComment `json:"first,omitempty"`
	Hidden   []leftHidden  `json:"hidden_text,omitempty"`
}

type leftComment struct {
	Comment int64  `json:"comment_id"`
	Author  string `json:"author"`
	Why     string `json:"why"`
}

// leftHidden is a text with parts that the code host does not show.
type leftHidden struct {
	In     string `json:"in"`
	Author string `json:"author"`
}

// maxLeft bounds each list of an entry.
const maxLeft = 20

func (l *LeftOut) addComment(c forge.Comment, host, why string) {
	if l.Comments++; len(l.First) < maxLeft {
		l.First = append(l.First, leftComment{c.ID, thread.NameUser(host, c.Author), why})
	}
}

// addHidden notes that texts of a person have parts that are not shown, if they have.
func (l *LeftOut) addHidden(in string, author forge.User, host string, texts ...string) {
	if len(l.Hidden) < maxLeft && slices.ContainsFunc(texts, func(t string) bool { t = strings.ReplaceAll(t, "\r\n", "\n"); return shownText(t) != t }) {
		l.Hidden = append(l.Hidden, leftHidden{in, thread.NameUser(host, author)})
	}
}

// OrNil returns l, or nil if nothing was left out.
func (l *LeftOut) OrNil() *LeftOut {
	if l == nil || l.Comments == 0 && len(l.Hidden) == 0 {
		return nil
	}
	return l
}
