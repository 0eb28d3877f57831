// Package publish performs at a code host the actions that people approved: it opens pull requests, writes comments and
// adds labels. Start with Publisher.
//
// Each effect happens once. A process can be killed, and an answer can be lost, after the code host has done its part, so
// every method first looks for the work of an earlier attempt: for a text of its own account whose last line is the marker
// of the action's key, or for the pull request of the same branches. The code host decides in a race of two attempts:
// it refuses a second pull request for the same branches.
//
// Texts of sprites mention no account and load no image there; see Mute.
package publish

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/forge/rest"
)

// Client is the part of [forge.Client] that Publisher needs.
type Client interface {
	Self(ctx context.Context) (forge.User, error)
	Repository(ctx context.Context, p forge.Path) (forge.Repository, error)
	Comments(ctx context.Context, p forge.Path, number int64) ([]forge.Comment, error)
	CreateComment(ctx context.Context, p forge.Path, number int64, body string) (forge.Comment, error)
	AddLabels(ctx context.Context, p forge.Path, number int64, labels []string) error
	IssuesSince(ctx context.Context, p forge.Path, since time.Time) ([]forge.Issue, error)
	OpenIssue(ctx context.Context, p forge.Path, n forge.NewIssue) (forge.Issue, error)
	PullsOf(ctx context.Context, p forge.Path, head string) ([]forge.PullRequest, error)
	OpenPull(ctx context.Context, p forge.Path, n forge.NewPull) (forge.PullRequest, error)
}

// Host is a code host of the settings.
type Host struct {
	Web          string       // the address of its pages
	Repositories []forge.Path // that lattice may write to
	Client       func() (Client, error)
}

// Publisher performs actions. It is safe for concurrent use. Its errors are a *forge.Problem if the code host refused, and
// otherwise mean that the outcome is unknown: the call may be repeated.
type Publisher struct {
	Hosts map[string]Host
	// Sleep waits; nil is rest.Sleep.
	Sleep func(ctx context.Context, d time.Duration) error
}

// lookPause is the time between two looks for a comment that may be listed late.
const lookPause = 2 * time.Second

// marked is the kind of the markers.
const marked = "action"

// Find returns the place of a repository. ok is false if no code host of the settings has it.
func (p *Publisher) Find(ctx context.Context, repository string) (place forge.Place, ok bool, err error) {
	for name, h := range p.Hosts {
		path, ok := forge.Locate(h.Web, repository)
		if !ok || !slices.ContainsFunc(h.Repositories, path.Equal) {
			continue
		}
		c, err := h.Client()
		if err != nil {
			return place, false, err
		}
		r, err := c.Repository(ctx, path)
		if err != nil {
			return place, false, fmt.Errorf("find %s at the code host %s: %w", path, name, err)
		}
		return forge.Place{Forge: name, Path: path, RepositoryID: r.ID, DefaultBranch: r.DefaultBranch}, true, nil
	}
	return place, false, nil
}

// connect returns the client of a place and its account. It fails if the repository there is another one than was approved.
func (p *Publisher) connect(ctx context.Context, place forge.Place) (Client, forge.User, error) {
	h, ok := p.Hosts[place.Forge]
	if !ok {
		return nil, forge.User{}, &forge.Problem{Status: http.StatusNotFound, Message: fmt.Sprintf("the settings no longer have the code host %s", place.Forge)}
	}
	c, err := h.Client()
	if err != nil {
		return nil, forge.User{}, err
	}
	r, err := c.Repository(ctx, place.Path)
	if err != nil {
		return nil, forge.User{}, err
	}
	if r.ID != place.RepositoryID {
		return nil, forge.User{}, &forge.Problem{Status: http.StatusConflict, Message: fmt.Sprintf("%s is another repository than the one that was approved", place.Path)}
	}
	self, err := c.Self(ctx)
	return c, self, err
}

// OpenPull opens a pull request, unless that was done under the same key before or an open one has the same branches.
func (p *Publisher) OpenPull(ctx context.Context, place forge.Place, key string, n forge.NewPull) (forge.Published, error) {
	c, self, err := p.connect(ctx, place)
	if err != nil {
		return forge.Published{}, err
	}
	marker := forge.MarkerOf(marked, key)
	n.Body = marker.Add(Mute(n.Body))
	done, found, err := findPull(ctx, c, place.Path, n, self.ID, marker)
	if found || err != nil {
		return done, err
	}
	opened, err := c.OpenPull(ctx, place.Path, n)
	if refused, ok := errors.AsType[*forge.Problem](err); ok && (refused.Status == http.StatusUnprocessableEntity || refused.Status == http.StatusConflict) {
		if done, found, again := findPull(ctx, c, place.Path, n, self.ID, marker); found || again != nil { // another attempt was faster
			return done, again
		}
	}
	return forge.Published{Status: forge.Opened, URL: opened.WebURL, Number: opened.Number}, err
}

// findPull looks for the pull request that n describes: one with the marker, also if people have closed it since, or else
// an open one with the same branches.
func findPull(ctx context.Context, c Client, path forge.Path, n forge.NewPull, self int64, m forge.Marker) (forge.Published, bool, error) {
	all, err := c.PullsOf(ctx, path, n.Head)
	if err != nil {
		return forge.Published{}, false, err
	}
	for _, pr := range all {
		if pr.Author.ID == self && m.IsIn(pr.Body) {
			return forge.Published{Status: forge.Opened, URL: pr.WebURL, Number: pr.Number}, true, nil
		}
	}
	for _, pr := range all {
		if pr.Open && pr.Base.Ref == n.Base {
			return forge.Published{Status: forge.AlreadyOpen, URL: pr.WebURL, Number: pr.Number}, true, nil
		}
	}
	return forge.Published{}, false, nil
}

// PostComment writes a comment, unless that was done under the same key before. After an earlier attempt it looks for its comment until
// the code host must list it.
func (p *Publisher) PostComment(ctx context.Context, place forge.Place, attempt forge.Attempt, number int64, body string) (forge.Published, error) {
	c, self, err := p.connect(ctx, place)
	if err != nil {
		return forge.Published{}, err
	}
	marker := forge.MarkerOf(marked, attempt.Key)
	var done forge.Comment
	found, err := p.lookAgain(ctx, attempt.Earlier, func() (bool, error) {
		all, err := c.Comments(ctx, place.Path, number)
		var found bool
		done, found = forge.FindComment(all, self.ID, marker)
		return found, err
	})
	if found || err != nil {
		return forge.Published{Status: forge.Posted, URL: done.WebURL, Number: number}, err
	}
	made, err := c.CreateComment(ctx, place.Path, number, marker.Add(Mute(body)))
	return forge.Published{Status: forge.Posted, URL: made.WebURL, Number: number}, err
}

// lookAgain calls look until it finds the work of an earlier attempt, or the code host must list that.
func (p *Publisher) lookAgain(ctx context.Context, earlier time.Time, look func() (found bool, err error)) (found bool, err error) {
	sleep := p.Sleep
	if sleep == nil {
		sleep = rest.Sleep
	}
	for waited := time.Since(earlier); ; waited += lookPause {
		if found, err = look(); found || err != nil || waited >= forge.ListLag {
			return found, err
		}
		if err := sleep(ctx, lookPause); err != nil {
			return false, err
		}
	}
}

// AddLabels adds labels. Adding one twice is the same as adding it once.
func (p *Publisher) AddLabels(ctx context.Context, place forge.Place, number int64, labels []string) error {
	c, _, err := p.connect(ctx, place)
	if err != nil {
		return err
	}
	return c.AddLabels(ctx, place.Path, number, labels)
}
