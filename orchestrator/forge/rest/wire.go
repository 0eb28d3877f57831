package rest

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/forge"
)

// The types in this file are the members of the answers that lattice uses. GitHub and Gitea agree on them.

// User is an account. Gitea has no type.
type User struct {
	ID    int64  `json:"id"`
	Login string `json:"login"`
	Type  string `json:"type"`
}

// Forge returns u as the type of package forge.
func (u User) Forge() forge.User { return forge.User{ID: u.ID, Login: u.Login, Bot: u.Type == "Bot"} }

// Repository is a repository.
type Repository struct {
	ID            int64  `json:"id"`
	Name          string `json:"name"`
	Owner         User   `json:"owner"`
	DefaultBranch string `json:"default_branch"`
	HTMLURL       string `json:"html_url"`
	CloneURL      string `json:"clone_url"`
	Private       bool   `json:"private"`
	Archived      bool   `json:"archived"`
}

// Forge returns r as the type of package forge.
func (r Repository) Forge() forge.Repository {
	return forge.Repository{ID: r.ID, Path: forge.Path{Owner: r.Owner.Login, Name: r.Name}, DefaultBranch: r.DefaultBranch, WebURL: r.HTMLURL, CloneURL: r.CloneURL, Private: r.Private, Archived: r.Archived}
}

// Label is a label of a repository.
type Label struct {
	ID   int64  `json:"id"`
	Name string `json:"name"`
}

// Issue is an issue, or the part of a pull request that issues have.
type Issue struct {
	ID          int64     `json:"id"`
	Number      int64     `json:"number"`
	Title       string    `json:"title"`
	Body        string    `json:"body"`
	State       string    `json:"state"`
	User        User      `json:"user"`
	Labels      []Label   `json:"labels"`
	HTMLURL     string    `json:"html_url"`
	PullRequest *struct{} `json:"pull_request"`
	CreatedAt   time.Time `json:"created_at"`
	UpdatedAt   time.Time `json:"updated_at"`
}

// Forge returns i as the type of package forge.
func (i Issue) Forge() forge.Issue {
	out := forge.Issue{ID: i.ID, Number: i.Number, Title: i.Title, Body: i.Body, Open: i.State == "open", Author: i.User.Forge(), WebURL: i.HTMLURL, Pull: i.PullRequest != nil, Created: i.CreatedAt, Updated: i.UpdatedAt}
	for _, l := range i.Labels {
		out.Labels = append(out.Labels, l.Name)
	}
	return out
}

// Branch is one side of a pull request.
type Branch struct {
	Ref  string      `json:"ref"`
	SHA  string      `json:"sha"`
	Repo *Repository `json:"repo"` // null if it is gone
}

// Forge returns b as the type of package forge.
func (b Branch) Forge() forge.Branch {
	out := forge.Branch{Ref: b.Ref, SHA: b.SHA}
	if b.Repo != nil {
		out.RepositoryID = b.Repo.ID
	}
	return out
}

// Pull is a pull request. A list has no merged, only the time.
type Pull struct {
	Issue
	NodeID   string     `json:"node_id"`
	Draft    bool       `json:"draft"`
	MergedAt *time.Time `json:"merged_at"`
	Head     Branch     `json:"head"`
	Base     Branch     `json:"base"`
}

// Forge returns p as the type of package forge.
func (p Pull) Forge() forge.PullRequest {
	out := forge.PullRequest{Issue: p.Issue.Forge(), Draft: p.Draft, Merged: p.MergedAt != nil, Head: p.Head.Forge(), Base: p.Base.Forge()}
	out.Pull = true
	return out
}

// Comment is a comment. Its number is the end of one of two URLs; Gitea has the second for pull requests.
type Comment struct {
	ID        int64     `json:"id"`
	Body      string    `json:"body"`
	User      User      `json:"user"`
	HTMLURL   string    `json:"html_url"`
	IssueURL  string    `json:"issue_url"`
	PullURL   string    `json:"pull_request_url"`
	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
}

// Forge returns c as the type of package forge.
func (c Comment) Forge() forge.Comment {
	address := c.IssueURL
	if address == "" {
		address = c.PullURL
	}
	number, err := strconv.ParseInt(address[strings.LastIndexByte(address, '/')+1:], 10, 64)
	if err != nil {
		number = 0
	}
	return forge.Comment{ID: c.ID, Number: number, Author: c.User.Forge(), Body: c.Body, WebURL: c.HTMLURL, Created: c.CreatedAt, Updated: c.UpdatedAt}
}

// Review is a review.
type Review struct {
	ID          int64     `json:"id"`
	User        User      `json:"user"`
	State       string    `json:"state"`
	Body        string    `json:"body"`
	CommitID    string    `json:"commit_id"`
	HTMLURL     string    `json:"html_url"`
	Dismissed   bool      `json:"dismissed"` // Gitea
	SubmittedAt time.Time `json:"submitted_at"`
}

// reviewStates are the names of the states; those with an underscore between other words are Gitea's.
var reviewStates = map[string]forge.ReviewState{
	"APPROVED": forge.Approved, "CHANGES_REQUESTED": forge.ChangesRequested, "REQUEST_CHANGES": forge.ChangesRequested,
	"COMMENTED": forge.Commented, "COMMENT": forge.Commented, "DISMISSED": forge.Dismissed, "PENDING": forge.Pending,
}

// Forge returns r as the type of package forge. ok is false for an entry that is not a review, such as a request for one.
func (r Review) Forge() (out forge.Review, ok bool) {
	state, ok := reviewStates[r.State]
	if r.Dismissed {
		state = forge.Dismissed
	}
	return forge.Review{ID: r.ID, Author: r.User.Forge(), State: state, Body: r.Body, CommitID: r.CommitID, WebURL: r.HTMLURL, Submitted: r.SubmittedAt}, ok
}

// Hook is a webhook.
type Hook struct {
	ID     int64    `json:"id"`
	Active bool     `json:"active"`
	Events []string `json:"events"`
	Config struct {
		URL string `json:"url"`
	} `json:"config"`
}

// Forge returns h as the type of package forge.
func (h Hook) Forge() forge.Hook {
	return forge.Hook{ID: h.ID, URL: h.Config.URL, Events: slices.Clone(h.Events), Active: h.Active}
}
