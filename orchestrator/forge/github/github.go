// Package github is the client of GitHub's REST interface, and of GitHub Enterprise Server's. New makes one for a token,
// NewApp one for an installation of a GitHub App, whose tokens it mints itself.
//
// The calls that Gitea has too are in package rest.
package github

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/forge/rest"
)

// Client implements [forge.Client], [forge.Redeliverer] and [forge.Resolver].
type Client struct {
	rest.Calls
	app     *App // nil: a token of a person
	graphql string
}

var (
	_ forge.Client      = (*Client)(nil)
	_ forge.HookKeeper  = (*Client)(nil)
	_ forge.Redeliverer = (*Client)(nil)
	_ forge.Resolver    = (*Client)(nil)
)

// writeGap keeps lattice below GitHub's limit of 80 writes in a minute.
const writeGap = time.Second

// newHeader returns the headers of each request. The version is the one that these calls were written against.
func newHeader() http.Header {
	return http.Header{"Accept": {"application/vnd.github+json"}, "X-Github-Api-Version": {"2022-11-28"}}
}

// BaseOf returns the address of the REST interface of the GitHub at a web address.
func BaseOf(web string) string {
	web = strings.TrimSuffix(web, "/")
	if web == "https://github.com" {
		return "https://api.github.com"
	}
	return web + "/api/v3"
}

// New returns a client with a token. It uses o's Token, and its Base if that is set.
func New(web string, o rest.Options) *Client {
	o.Base = cmp.Or(o.Base, BaseOf(web))
	o.Header = newHeader()
	if o.Gap == 0 {
		o.Gap = writeGap
	}
	graphql := strings.TrimSuffix(o.Base, "/v3") + "/graphql" // beside /api/v3
	return &Client{Calls: rest.Calls{Client: rest.New(o)}, graphql: graphql}
}

// App returns the App of the client, nil if it has the token of a person.
func (c *Client) App() *App { return c.app }

// Kind implements [forge.Client].
func (c *Client) Kind() forge.Kind { return forge.GitHub }

// Self implements [forge.Client]. An App has an account named after it.
func (c *Client) Self(ctx context.Context) (forge.User, error) {
	var u rest.User
	path := "/user"
	if c.app != nil {
		slug, err := c.app.fetchSlug(ctx)
		if err != nil {
			return forge.User{}, err
		}
		path = "/users/" + url.PathEscape(slug+"[bot]")
	}
	err := c.Do(ctx, http.MethodGet, path, nil, &u)
	return u.Forge(), err
}

// Role implements [forge.Client].
func (c *Client) Role(ctx context.Context, p forge.Path, user int64) (forge.Role, error) {
	var u rest.User
	err := c.Do(ctx, http.MethodGet, "/user/"+rest.Number(user), nil, &u)
	if forge.IsNotFound(err) || err == nil && u.ID != user {
		return forge.NoRole, nil
	}
	if err != nil {
		return forge.NoRole, err
	}
	return c.PermissionOf(ctx, p, u.Forge())
}

// OpenIssue implements [forge.Client].
func (c *Client) OpenIssue(ctx context.Context, p forge.Path, n forge.NewIssue) (forge.Issue, error) {
	var i rest.Issue
	err := c.Do(ctx, http.MethodPost, rest.At(p, "/issues"), map[string]any{"title": n.Title, "body": n.Body, "labels": notNil(n.Labels)}, &i)
	return i.Forge(), err
}

// AddLabels implements [forge.Client]. GitHub creates labels that are missing.
func (c *Client) AddLabels(ctx context.Context, p forge.Path, number int64, labels []string) error {
	return c.Do(ctx, http.MethodPost, rest.At(p, "/issues/%d/labels", number), map[string]any{"labels": notNil(labels)}, nil)
}

// RemoveLabel implements [forge.Client].
func (c *Client) RemoveLabel(ctx context.Context, p forge.Path, number int64, label string) error {
	err := c.Do(ctx, http.MethodDelete, rest.At(p, "/issues/%d/labels/%s", number, label), nil, nil)
	if forge.IsNotFound(err) {
		return nil
	}
	return err
}

// Pull implements [forge.Client].
func (c *Client) Pull(ctx context.Context, p forge.Path, number int64) (forge.PullRequest, error) {
	w, err := c.FetchPull(ctx, p, number)
	return w.Forge(), err
}

// PullsOf implements [forge.Client].
func (c *Client) PullsOf(ctx context.Context, p forge.Path, head string) ([]forge.PullRequest, error) {
	var out []forge.PullRequest
	err := rest.List(ctx, c.Client, rest.At(p, "/pulls"), rest.Pages("state", "all", "head", p.Owner+":"+head), func(w rest.Pull) {
		if pr := w.Forge(); pr.Head.Ref == head && !pr.FromFork() {
			out = append(out, pr)
		}
	})
	slices.SortStableFunc(out, func(a, b forge.PullRequest) int { return cmp.Compare(b.Number, a.Number) })
	return out, err
}

// OpenPull implements [forge.Client]. A repository whose plan has no drafts gets an ordinary pull request.
func (c *Client) OpenPull(ctx context.Context, p forge.Path, n forge.NewPull) (forge.PullRequest, error) {
	members := map[string]any{"title": n.Title, "body": n.Body, "head": n.Head, "base": n.Base, "draft": n.Draft}
	w, err := c.PostPull(ctx, p, members)
	if refused, ok := errors.AsType[*forge.Problem](err); ok && n.Draft && refused.Status == http.StatusUnprocessableEntity && strings.Contains(strings.ToLower(refused.Message), "draft") {
		members["draft"] = false
		w, err = c.PostPull(ctx, p, members)
	}
	return w.Forge(), err
}

// reviewComment is a comment on a line, as GitHub describes it.
type reviewComment struct {
	rest.Comment
	ReviewID int64  `json:"pull_request_review_id"`
	ReplyTo  int64  `json:"in_reply_to_id"`
	Path     string `json:"path"`
	Line     int    `json:"line"`
	CommitID string `json:"commit_id"`
}

func (w reviewComment) convert(number int64) forge.ReviewComment {
	out := forge.ReviewComment{Comment: w.Comment.Forge(), ReviewID: w.ReviewID, ReplyTo: w.ReplyTo, Path: w.Path, Line: w.Line, CommitID: w.CommitID}
	out.Number = number
	return out
}

// ReviewComments implements [forge.Client].
func (c *Client) ReviewComments(ctx context.Context, p forge.Path, number int64) ([]forge.ReviewComment, error) {
	var out []forge.ReviewComment
	err := rest.List(ctx, c.Client, rest.At(p, "/pulls/%d/comments", number), rest.Pages(), func(w reviewComment) { out = append(out, w.convert(number)) })
	return out, err
}

// CommentOnLine implements [forge.Client].
func (c *Client) CommentOnLine(ctx context.Context, p forge.Path, number int64, at forge.Line, body string) (forge.Comment, error) {
	var w reviewComment
	err := c.Do(ctx, http.MethodPost, rest.At(p, "/pulls/%d/comments", number), map[string]any{"body": body, "commit_id": at.SHA, "path": at.Path, "line": at.Line, "side": "RIGHT"}, &w)
	return w.convert(number).Comment, err
}

// Reply implements [forge.Client].
func (c *Client) Reply(ctx context.Context, p forge.Path, number int64, to forge.ReviewComment, body string) (forge.Comment, error) {
	first := cmp.Or(to.ReplyTo, to.ID) // a reply to a reply is refused
	var w reviewComment
	err := c.Do(ctx, http.MethodPost, rest.At(p, "/pulls/%d/comments/%d/replies", number, first), map[string]string{"body": body}, &w)
	return w.convert(number).Comment, err
}

// Checks implements [forge.Client].
func (c *Client) Checks(ctx context.Context, p forge.Path, sha string) ([]forge.Check, error) {
	var w struct {
		Total int `json:"total_count"`
		Runs  []struct {
			Name       string `json:"name"`
			Status     string `json:"status"`
			Conclusion string `json:"conclusion"`
			DetailsURL string `json:"details_url"`
		} `json:"check_runs"`
	}
	if err := c.Do(ctx, http.MethodGet, rest.At(p, "/commits/%s/check-runs?per_page=100", sha), nil, &w); err != nil {
		return nil, err
	}
	var all []forge.Check
	for _, r := range w.Runs {
		state := forge.CheckFailure
		switch {
		case r.Status != "completed":
			state = forge.CheckPending
		case r.Conclusion == "success" || r.Conclusion == "neutral" || r.Conclusion == "skipped":
			state = forge.CheckSuccess
		}
		all = append(all, forge.Check{Name: r.Name, State: state, URL: r.DetailsURL})
	}
	all = rest.MarkCut(all, w.Total)
	statuses, err := c.Statuses(ctx, p, sha)
	return append(all, statuses...), err
}

// SetCheck implements [forge.Client]. Only an App may write check runs.
func (c *Client) SetCheck(ctx context.Context, p forge.Path, sha string, k forge.Check) error {
	if c.app == nil {
		return c.SetStatus(ctx, p, sha, k)
	}
	in := map[string]any{"name": k.Name, "head_sha": sha, "status": "completed", "output": map[string]string{"title": k.Name, "summary": k.Summary}}
	switch k.State {
	case forge.CheckPending:
		in["status"] = "in_progress"
	case forge.CheckSuccess:
		in["conclusion"] = "success"
	case forge.CheckFailure:
		in["conclusion"] = "failure"
	case forge.CheckError:
		in["conclusion"] = "neutral"
	}
	if k.URL != "" {
		in["details_url"] = k.URL
	}
	return c.Do(ctx, http.MethodPost, rest.At(p, "/check-runs"), in, nil)
}

// CreateHook implements [forge.HookKeeper].
func (c *Client) CreateHook(ctx context.Context, p forge.Path, address, secret string, events []string) (forge.Hook, error) {
	return c.PostHook(ctx, p, [2]string{"name", "web"}, address, secret, events)
}

// Deliveries implements [forge.Redeliverer].
func (c *Client) Deliveries(ctx context.Context, p forge.Path, hook int64) ([]forge.Delivery, error) {
	var page []struct {
		ID          int64     `json:"id"`
		GUID        string    `json:"guid"`
		Event       string    `json:"event"`
		StatusCode  int       `json:"status_code"`
		DeliveredAt time.Time `json:"delivered_at"`
	}
	if err := c.Do(ctx, http.MethodGet, rest.At(p, "/hooks/%d/deliveries?per_page=100", hook), nil, &page); err != nil {
		return nil, err
	}
	var out []forge.Delivery
	for _, d := range page {
		out = append(out, forge.Delivery{ID: d.ID, GUID: d.GUID, Event: d.Event, OK: d.StatusCode >= 200 && d.StatusCode < 300, At: d.DeliveredAt})
	}
	return out, nil
}

// Redeliver implements [forge.Redeliverer].
func (c *Client) Redeliver(ctx context.Context, p forge.Path, hook, delivery int64) error {
	return c.Do(ctx, http.MethodPost, rest.At(p, "/hooks/%d/deliveries/%d/attempts", hook, delivery), nil, nil)
}

// notNil returns a list that JSON shows as a list.
func notNil(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}
