package rest

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/spritekit/lattice/orchestrator/forge"
)

// Calls holds the calls of [forge.Client] that are the same at GitHub and Gitea.
type Calls struct{ *Client }

// At returns the path of a resource of a repository. The format gets the parts, which are escaped here if they are text.
func At(p forge.Path, format string, parts ...any) string {
	for i, part := range parts {
		if s, ok := part.(string); ok {
			parts[i] = url.PathEscape(s)
		}
	}
	return "/repos/" + url.PathEscape(p.Owner) + "/" + url.PathEscape(p.Name) + fmt.Sprintf(format, parts...)
}

// Pages returns the parameters of a list. GitHub reads per_page, Gitea limit.
func Pages(more ...string) url.Values {
	q := url.Values{"per_page": {"100"}, "limit": {"50"}}
	for i := 0; i+1 < len(more); i += 2 {
		q.Set(more[i], more[i+1])
	}
	return q
}

// Repository implements [forge.Client].
func (c Calls) Repository(ctx context.Context, p forge.Path) (forge.Repository, error) {
	var r Repository
	err := c.Do(ctx, http.MethodGet, At(p, ""), nil, &r)
	return r.Forge(), err
}

// Issue implements [forge.Client].
func (c Calls) Issue(ctx context.Context, p forge.Path, number int64) (forge.Issue, error) {
	var i Issue
	err := c.Do(ctx, http.MethodGet, At(p, "/issues/%d", number), nil, &i)
	return i.Forge(), err
}

// IssuesSince implements [forge.Client].
func (c Calls) IssuesSince(ctx context.Context, p forge.Path, since time.Time) ([]forge.Issue, error) {
	var out []forge.Issue
	err := List(ctx, c.Client, At(p, "/issues"), Pages("state", "all", "sort", "updated", "direction", "asc", "since", formatTime(since)), func(i Issue) { out = append(out, i.Forge()) })
	slices.SortStableFunc(out, func(a, b forge.Issue) int {
		return cmp.Or(a.Updated.Compare(b.Updated), cmp.Compare(a.Number, b.Number))
	})
	return out, err
}

// Comments implements [forge.Client].
func (c Calls) Comments(ctx context.Context, p forge.Path, number int64) ([]forge.Comment, error) {
	var out []forge.Comment
	err := List(ctx, c.Client, At(p, "/issues/%d/comments", number), Pages(), func(w Comment) {
		comment := w.Forge()
		comment.Number = number
		out = append(out, comment)
	})
	slices.SortStableFunc(out, func(a, b forge.Comment) int { return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID)) })
	return out, err
}

// CommentsSince implements [forge.Client].
func (c Calls) CommentsSince(ctx context.Context, p forge.Path, since time.Time) ([]forge.Comment, error) {
	var out []forge.Comment
	err := List(ctx, c.Client, At(p, "/issues/comments"), Pages("sort", "updated", "direction", "asc", "since", formatTime(since)), func(w Comment) { out = append(out, w.Forge()) })
	slices.SortStableFunc(out, func(a, b forge.Comment) int { return cmp.Or(a.Updated.Compare(b.Updated), cmp.Compare(a.ID, b.ID)) })
	return out, err
}

// Comment implements [forge.Client].
func (c Calls) Comment(ctx context.Context, p forge.Path, id int64) (forge.Comment, error) {
	return c.doComment(ctx, http.MethodGet, At(p, "/issues/comments/%d", id), nil)
}

// CreateComment implements [forge.Client].
func (c Calls) CreateComment(ctx context.Context, p forge.Path, number int64, body string) (forge.Comment, error) {
	comment, err := c.doComment(ctx, http.MethodPost, At(p, "/issues/%d/comments", number), map[string]string{"body": body})
	comment.Number = number
	return comment, err
}

// EditComment implements [forge.Client].
func (c Calls) EditComment(ctx context.Context, p forge.Path, id int64, body string) (forge.Comment, error) {
	return c.doComment(ctx, http.MethodPatch, At(p, "/issues/comments/%d", id), map[string]string{"body": body})
}

func (c Calls) doComment(ctx context.Context, method, path string, in any) (forge.Comment, error) {
	var w Comment
	err := c.Do(ctx, method, path, in, &w)
	return w.Forge(), err
}

// React implements [forge.Client].
func (c Calls) React(ctx context.Context, p forge.Path, comment int64, r forge.Reaction) error {
	return c.Do(ctx, http.MethodPost, At(p, "/issues/comments/%d/reactions", comment), map[string]string{"content": string(r)}, nil)
}

// FetchPull returns a pull request as the code host describes it.
func (c Calls) FetchPull(ctx context.Context, p forge.Path, number int64) (Pull, error) {
	var w Pull
	err := c.Do(ctx, http.MethodGet, At(p, "/pulls/%d", number), nil, &w)
	return w, err
}

// PostPull opens a pull request with these members.
func (c Calls) PostPull(ctx context.Context, p forge.Path, members map[string]any) (Pull, error) {
	var w Pull
	err := c.Do(ctx, http.MethodPost, At(p, "/pulls"), members, &w)
	return w, err
}

// Files implements [forge.Client].
func (c Calls) Files(ctx context.Context, p forge.Path, number int64) ([]forge.File, error) {
	var out []forge.File
	type file struct {
		Filename  string `json:"filename"`
		Status    string `json:"status"`
		Additions int    `json:"additions"`
		Deletions int    `json:"deletions"`
	}
	err := List(ctx, c.Client, At(p, "/pulls/%d/files", number), Pages(), func(w file) {
		out = append(out, forge.File{Path: w.Filename, Status: w.Status, Additions: w.Additions, Deletions: w.Deletions})
	})
	return out, err
}

// Reviews implements [forge.Client].
func (c Calls) Reviews(ctx context.Context, p forge.Path, number int64) ([]forge.Review, error) {
	var out []forge.Review
	err := List(ctx, c.Client, At(p, "/pulls/%d/reviews", number), Pages(), func(w Review) {
		if r, ok := w.Forge(); ok && r.State != forge.Pending {
			out = append(out, r)
		}
	})
	slices.SortStableFunc(out, func(a, b forge.Review) int { return cmp.Or(a.Submitted.Compare(b.Submitted), cmp.Compare(a.ID, b.ID)) })
	return out, err
}

// SetStatus writes a commit status. Its description is one line of at most 140 characters.
func (c Calls) SetStatus(ctx context.Context, p forge.Path, sha string, k forge.Check) error {
	summary := []rune(k.Summary)
	in := map[string]string{"state": string(k.State), "context": k.Name, "description": string(summary[:min(len(summary), 140)])}
	if k.URL != "" {
		in["target_url"] = k.URL
	}
	return c.Do(ctx, http.MethodPost, At(p, "/statuses/%s", sha), in, nil)
}

// Statuses returns the commit statuses of a commit, the last of each name.
func (c Calls) Statuses(ctx context.Context, p forge.Path, sha string) (all []forge.Check, err error) {
	var w struct {
		Total    int `json:"total_count"`
		Statuses []struct {
			Context     string `json:"context"`
			State       string `json:"state"`  // of GitHub
			Status      string `json:"status"` // of Gitea
			Description string `json:"description"`
			TargetURL   string `json:"target_url"`
		} `json:"statuses"`
	}
	if err := c.Do(ctx, http.MethodGet, At(p, "/commits/%s/status?per_page=100&limit=50", sha), nil, &w); err != nil {
		return nil, err
	}
	for _, s := range w.Statuses {
		state := forge.CheckState(s.State + s.Status)
		switch state {
		case forge.CheckPending, forge.CheckSuccess, forge.CheckFailure:
		case "skipped":
			state = forge.CheckSuccess
		default:
			state = forge.CheckError
		}
		all = append(all, forge.Check{Name: s.Context, State: state, Summary: s.Description, URL: s.TargetURL})
	}
	return MarkCut(all, w.Total), nil
}

// MarkCut adds a pending check to a list that lacks some of total.
func MarkCut(all []forge.Check, total int) []forge.Check {
	if total > len(all) {
		all = append(all, forge.Check{Name: "more checks", State: forge.CheckPending})
	}
	return all
}

// PermissionOf returns the role of a user of a name. It is NoRole if the account at that name has another id.
func (c Calls) PermissionOf(ctx context.Context, p forge.Path, u forge.User) (forge.Role, error) {
	var w struct {
		Permission string `json:"permission"`
		RoleName   string `json:"role_name"`
		User       *User  `json:"user"`
	}
	err := c.Do(ctx, http.MethodGet, At(p, "/collaborators/%s/permission", u.Login), nil, &w)
	switch {
	case forge.IsNotFound(err):
		return forge.NoRole, nil
	case err != nil:
		return forge.NoRole, err
	case w.User == nil || w.User.ID != u.ID: // the name was given to another account
		return forge.NoRole, nil
	}
	return forge.ParseRole(w.Permission, w.RoleName), nil
}

// Hooks implements [forge.HookKeeper].
func (c Calls) Hooks(ctx context.Context, p forge.Path) (out []forge.Hook, err error) {
	err = List(ctx, c.Client, At(p, "/hooks"), Pages(), func(w Hook) { out = append(out, w.Forge()) })
	return out, err
}

// PostHook adds a webhook; kind is the member of the request that names its type, with its value.
func (c Calls) PostHook(ctx context.Context, p forge.Path, kind [2]string, address, secret string, events []string) (forge.Hook, error) {
	var w Hook
	in := map[string]any{kind[0]: kind[1], "active": true, "events": events, "config": map[string]string{"url": address, "content_type": "json", "secret": secret}}
	err := c.Do(ctx, http.MethodPost, At(p, "/hooks"), in, &w)
	return w.Forge(), err
}

// SetHookEvents implements [forge.HookKeeper].
func (c Calls) SetHookEvents(ctx context.Context, p forge.Path, hook int64, events []string) error {
	return c.Do(ctx, http.MethodPatch, At(p, "/hooks/%d", hook), map[string]any{"active": true, "events": events}, nil)
}

// Number returns n as text, for parameters.
func Number(n int64) string { return strconv.FormatInt(n, 10) }

func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }
