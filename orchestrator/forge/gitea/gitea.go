// Package gitea is the client of Gitea's REST interface. Start with New. Forgejo has the same interface; lattice was not
// tried with it.
//
// The calls that GitHub has too are in package rest. [forge.Capabilities] lists the things that Gitea lacks.
package gitea

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/forge/rest"
)

// Client implements [forge.Client].
type Client struct{ rest.Calls }

var (
	_ forge.Client     = (*Client)(nil)
	_ forge.HookKeeper = (*Client)(nil)
)

// draftPrefix is the beginning of the title of a draft.
const draftPrefix = "WIP: "

// New returns a client of the Gitea at a web address. It uses o's Token, and its Base if that is set.
func New(web string, o rest.Options) *Client {
	o.Base = cmp.Or(o.Base, strings.TrimSuffix(web, "/")+"/api/v1")
	o.Scheme = "token"
	return &Client{rest.Calls{Client: rest.New(o)}}
}

// Kind implements [forge.Client].
func (c *Client) Kind() forge.Kind { return forge.Gitea }

// Self implements [forge.Client].
func (c *Client) Self(ctx context.Context) (forge.User, error) {
	var u rest.User
	err := c.Do(ctx, http.MethodGet, "/user", nil, &u)
	return u.Forge(), err
}

// Role implements [forge.Client]. Gitea finds a user by id only as a search.
func (c *Client) Role(ctx context.Context, p forge.Path, user int64) (forge.Role, error) {
	var found struct {
		Data []rest.User `json:"data"`
	}
	if err := c.Do(ctx, http.MethodGet, "/users/search?uid="+rest.Number(user), nil, &found); err != nil {
		return forge.NoRole, err
	}
	i := slices.IndexFunc(found.Data, func(u rest.User) bool { return u.ID == user })
	if i < 0 {
		return forge.NoRole, nil
	}
	return c.PermissionOf(ctx, p, found.Data[i].Forge())
}

// OpenIssue implements [forge.Client].
func (c *Client) OpenIssue(ctx context.Context, p forge.Path, n forge.NewIssue) (forge.Issue, error) {
	ids, err := c.labelIDs(ctx, p, n.Labels)
	if err != nil {
		return forge.Issue{}, err
	}
	var i rest.Issue
	err = c.Do(ctx, http.MethodPost, rest.At(p, "/issues"), map[string]any{"title": n.Title, "body": n.Body, "labels": ids}, &i)
	return i.Forge(), err
}

// AddLabels implements [forge.Client].
func (c *Client) AddLabels(ctx context.Context, p forge.Path, number int64, labels []string) error {
	ids, err := c.labelIDs(ctx, p, labels)
	if err != nil {
		return err
	}
	return c.Do(ctx, http.MethodPost, rest.At(p, "/issues/%d/labels", number), map[string]any{"labels": ids}, nil)
}

// labelIDs returns the ids of labels of the repository, and creates those that are missing.
func (c *Client) labelIDs(ctx context.Context, p forge.Path, names []string) ([]int64, error) {
	ids := []int64{}
	if len(names) == 0 {
		return ids, nil
	}
	known := map[string]int64{}
	if err := rest.List(ctx, c.Client, rest.At(p, "/labels"), rest.Pages(), func(l rest.Label) { known[strings.ToLower(l.Name)] = l.ID }); err != nil {
		return nil, err
	}
	for _, name := range names {
		id := known[strings.ToLower(name)]
		if id == 0 {
			var made rest.Label
			if err := c.Do(ctx, http.MethodPost, rest.At(p, "/labels"), map[string]string{"name": name, "color": "#ededed"}, &made); err != nil {
				return nil, err
			}
			id = made.ID
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// RemoveLabel implements [forge.Client].
func (c *Client) RemoveLabel(ctx context.Context, p forge.Path, number int64, label string) error {
	var own []rest.Label
	if err := c.Do(ctx, http.MethodGet, rest.At(p, "/issues/%d/labels", number), nil, &own); err != nil {
		return err
	}
	for _, l := range own {
		if strings.EqualFold(l.Name, label) {
			return c.Do(ctx, http.MethodDelete, rest.At(p, "/issues/%d/labels/%d", number, l.ID), nil, nil)
		}
	}
	return nil
}

// pull returns w as the type of package forge. A draft is known by its title.
func pull(w rest.Pull) forge.PullRequest {
	pr := w.Forge()
	pr.Draft = pr.Draft || strings.HasPrefix(strings.ToUpper(w.Title), draftPrefix)
	return pr
}

// Pull implements [forge.Client].
func (c *Client) Pull(ctx context.Context, p forge.Path, number int64) (forge.PullRequest, error) {
	w, err := c.FetchPull(ctx, p, number)
	return pull(w), err
}

// PullsOf implements [forge.Client]. Gitea has no list for one branch.
func (c *Client) PullsOf(ctx context.Context, p forge.Path, head string) ([]forge.PullRequest, error) {
	var out []forge.PullRequest
	err := rest.List(ctx, c.Client, rest.At(p, "/pulls"), rest.Pages("state", "all", "sort", "recentupdate"), func(w rest.Pull) {
		if pr := pull(w); pr.Head.Ref == head && !pr.FromFork() {
			out = append(out, pr)
		}
	})
	slices.SortStableFunc(out, func(a, b forge.PullRequest) int { return cmp.Compare(b.Number, a.Number) })
	return out, err
}

// OpenPull implements [forge.Client].
func (c *Client) OpenPull(ctx context.Context, p forge.Path, n forge.NewPull) (forge.PullRequest, error) {
	title := n.Title
	if n.Draft {
		title = draftPrefix + title
	}
	w, err := c.PostPull(ctx, p, map[string]any{"title": title, "body": n.Body, "head": n.Head, "base": n.Base})
	return pull(w), err
}

// ReviewComments implements [forge.Client]. Gitea lists them by review.
func (c *Client) ReviewComments(ctx context.Context, p forge.Path, number int64) ([]forge.ReviewComment, error) {
	reviews, err := c.Reviews(ctx, p, number)
	if err != nil {
		return nil, err
	}
	var out []forge.ReviewComment
	for _, r := range reviews {
		var page []struct {
			rest.Comment
			Path     string `json:"path"`
			Position int    `json:"position"`
			CommitID string `json:"commit_id"`
		}
		if err := c.Do(ctx, http.MethodGet, rest.At(p, "/pulls/%d/reviews/%d/comments", number, r.ID), nil, &page); err != nil {
			return nil, err
		}
		for _, w := range page {
			comment := forge.ReviewComment{Comment: w.Comment.Forge(), ReviewID: r.ID, Path: w.Path, Line: w.Position, CommitID: w.CommitID}
			comment.Number = number
			out = append(out, comment)
		}
	}
	slices.SortStableFunc(out, func(a, b forge.ReviewComment) int { return cmp.Compare(a.ID, b.ID) })
	return out, nil
}

// CommentOnLine implements [forge.Client]: a review with one comment.
func (c *Client) CommentOnLine(ctx context.Context, p forge.Path, number int64, at forge.Line, body string) (forge.Comment, error) {
	var made rest.Review
	in := map[string]any{"event": "COMMENT", "commit_id": at.SHA, "comments": []any{map[string]any{"path": at.Path, "new_position": at.Line, "body": body}}}
	if err := c.Do(ctx, http.MethodPost, rest.At(p, "/pulls/%d/reviews", number), in, &made); err != nil {
		return forge.Comment{}, err
	}
	var page []rest.Comment
	err := c.Do(ctx, http.MethodGet, rest.At(p, "/pulls/%d/reviews/%d/comments", number, made.ID), nil, &page)
	if err != nil || len(page) != 1 {
		return forge.Comment{}, cmp.Or(err, fmt.Errorf("the code host made %d comments of one", len(page)))
	}
	return page[0].Forge(), nil
}

// Reply implements [forge.Client]: a comment on the pull request that names the place.
func (c *Client) Reply(ctx context.Context, p forge.Path, number int64, to forge.ReviewComment, body string) (forge.Comment, error) {
	return c.CreateComment(ctx, p, number, fmt.Sprintf("> `%s:%d`\n\n%s", strings.ReplaceAll(to.Path, "`", "'"), to.Line, body))
}

// Checks implements [forge.Client]: the CI of Gitea writes commit statuses.
func (c *Client) Checks(ctx context.Context, p forge.Path, sha string) ([]forge.Check, error) {
	return c.Statuses(ctx, p, sha)
}

// SetCheck implements [forge.Client]: Gitea has commit statuses only.
func (c *Client) SetCheck(ctx context.Context, p forge.Path, sha string, k forge.Check) error {
	return c.SetStatus(ctx, p, sha, k)
}

// CreateHook implements [forge.HookKeeper].
func (c *Client) CreateHook(ctx context.Context, p forge.Path, address, secret string, events []string) (forge.Hook, error) {
	return c.PostHook(ctx, p, [2]string{"type", "gitea"}, address, secret, events)
}
