// Package forge describes code hosts: GitHub and Gitea, as lattice uses them. Start with Client, the calls that an adapter
// makes; packages github and gitea implement it, and package forgetest is a server to test them against.
//
//	forge         repositories, issues, pull requests, reviews, comments
//	client        the calls; consumers declare the few that they need
//	role          the authority of a user, and its order
//	capabilities  the table of the differences between the code hosts
//	address       which code host a repository belongs to
//	marker        how lattice finds its own texts again
//	problem       the failures of a call
//
// Everything that a code host returns was written by strangers: texts are hostile, and a name can change. Users and
// repositories are therefore compared by their numeric ids. No field of a code host grants authority: approvals bind our
// own digests, and a role is read at the moment of the decision (DESIGN 39).
package forge

import (
	"strings"
	"time"
)

// Kind is the kind of a code host.
type Kind string

// The values of Kind.
const (
	GitHub Kind = "github"
	Gitea  Kind = "gitea"
)

// Kinds lists the values of Kind.
func Kinds() []Kind { return []Kind{GitHub, Gitea} }

// Path names a repository at its code host.
type Path struct {
	Owner string `json:"owner"`
	Name  string `json:"name"`
}

// String returns OWNER/NAME.
func (p Path) String() string { return p.Owner + "/" + p.Name }

// Equal reports whether both name the same repository. Code hosts ignore the case of names.
func (p Path) Equal(q Path) bool {
	return strings.EqualFold(p.Owner, q.Owner) && strings.EqualFold(p.Name, q.Name)
}

// ParsePath reads OWNER/NAME.
func ParsePath(s string) (Path, bool) {
	owner, name, ok := strings.Cut(s, "/")
	if !ok || !isName(owner) || !isName(name) {
		return Path{}, false
	}
	return Path{owner, name}, true
}

// isName reports whether s can be the name of an owner or of a repository, and changes no URL that it is put into.
func isName(s string) bool {
	if s == "" || s == "." || s == ".." || len(s) > 100 {
		return false
	}
	for _, c := range []byte(s) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return true
}

// User is an account. Its login can change and be taken by another person; its id cannot.
type User struct {
	ID    int64  `json:"id"`
	Login string `json:"login"`
	Bot   bool   `json:"bot,omitempty"`
}

// Repository is a repository at its code host.
type Repository struct {
	ID            int64  `json:"id"`
	Path          Path   `json:"path"`
	DefaultBranch string `json:"default_branch"`
	WebURL        string `json:"web_url"`
	CloneURL      string `json:"clone_url"`
	Private       bool   `json:"private,omitempty"`
	Archived      bool   `json:"archived,omitempty"`
}

// Issue is an issue or a pull request: both have numbers of one sequence, comments and labels.
type Issue struct {
	ID      int64     `json:"id"`
	Number  int64     `json:"number"`
	Title   string    `json:"title"`
	Body    string    `json:"body"`
	Open    bool      `json:"open"`
	Author  User      `json:"author"`
	Labels  []string  `json:"labels,omitempty"`
	WebURL  string    `json:"web_url"`
	Pull    bool      `json:"pull,omitempty"` // it is a pull request
	Created time.Time `json:"created"`
	Updated time.Time `json:"updated"`
}

// Comment is a comment on an issue or on a pull request.
type Comment struct {
	ID      int64     `json:"id"`
	Number  int64     `json:"number"` // of the issue or pull request; 0 if the answer does not say
	Author  User      `json:"author"`
	Body    string    `json:"body"`
	WebURL  string    `json:"web_url"`
	Created time.Time `json:"created"`
	Updated time.Time `json:"updated"`
}

// Edited reports whether the comment was changed after it was written.
func (c Comment) Edited() bool { return !c.Updated.Equal(c.Created) }

// Branch is one side of a pull request. RepositoryID is that of a fork if the pull request comes from one; 0 if the
// repository is gone.
type Branch struct {
	Ref          string `json:"ref"` // without refs/heads/
	SHA          string `json:"sha"`
	RepositoryID int64  `json:"repository_id"`
}

// PullRequest is a pull request.
type PullRequest struct {
	Issue
	Draft  bool   `json:"draft,omitempty"`
	Merged bool   `json:"merged,omitempty"`
	Head   Branch `json:"head"`
	Base   Branch `json:"base"`
}

// FromFork reports whether the commits come from another repository, whose owner needs no permission in this one.
func (p PullRequest) FromFork() bool { return p.Head.RepositoryID != p.Base.RepositoryID }

// File is a file that a pull request changes.
type File struct {
	Path      string `json:"path"`
	Status    string `json:"status"` // as the code host names it: added, modified or changed, removed or deleted, renamed
	Additions int    `json:"additions"`
	Deletions int    `json:"deletions"`
}

// ReviewState is the verdict of a review.
type ReviewState string

// The values of ReviewState.
const (
	Approved         ReviewState = "approved"
	ChangesRequested ReviewState = "changes_requested"
	Commented        ReviewState = "commented"
	Dismissed        ReviewState = "dismissed"
	Pending          ReviewState = "pending"
)

// Review is a review of a pull request. CommitID is the present word of the code host: GitHub moves it to the new head after a
// force-push, so it proves nothing about the commits that the reviewer saw.
type Review struct {
	ID        int64       `json:"id"`
	Author    User        `json:"author"`
	State     ReviewState `json:"state"`
	Body      string      `json:"body"`
	CommitID  string      `json:"commit_id"`
	WebURL    string      `json:"web_url"`
	Submitted time.Time   `json:"submitted"`
}

// ReviewComment is a comment of a review on a line of a file.
type ReviewComment struct {
	Comment
	ReviewID int64  `json:"review_id"`
	ReplyTo  int64  `json:"reply_to,omitempty"` // the first comment of the thread
	Path     string `json:"path"`
	Line     int    `json:"line"` // 0 if the line is gone
	CommitID string `json:"commit_id"`
}

// Line is a line of a file in a commit.
type Line struct {
	SHA  string
	Path string
	Line int // from 1
}

// CheckState is the state of a check.
type CheckState string

// The values of CheckState.
const (
	CheckPending CheckState = "pending"
	CheckSuccess CheckState = "success"
	CheckFailure CheckState = "failure"
	CheckError   CheckState = "error" // it could not be found out
)

// Check is a verdict about a commit, which the code host shows at the pull request.
type Check struct {
	Name    string     `json:"name"`
	State   CheckState `json:"state"`
	Summary string     `json:"summary"` // one line
	URL     string     `json:"url,omitempty"`
}

// CheckPrefix begins the names of the checks that lattice shows.
const CheckPrefix = "lattice/"

// CombineChecks returns the verdict of the CI about a commit: CheckFailure if a check failed, else CheckPending if one has not
// ended, else CheckSuccess. ok is false if no check is of others than lattice.
func CombineChecks(all []Check) (state CheckState, ok bool) {
	state = CheckSuccess
	for _, c := range all {
		switch {
		case strings.HasPrefix(c.Name, CheckPrefix):
			continue
		case c.State == CheckFailure || c.State == CheckError:
			state = CheckFailure
		case c.State != CheckSuccess && state == CheckSuccess:
			state = CheckPending
		}
		ok = true
	}
	return state, ok
}

// FailedChecks returns the checks of others than lattice that fail. ended says that none is pending.
func FailedChecks(all []Check) (failed []Check, ended bool) {
	ended = true
	for _, c := range all {
		switch state, ok := CombineChecks([]Check{c}); {
		case ok && state == CheckFailure:
			failed = append(failed, c)
		case ok && state == CheckPending:
			ended = false
		}
	}
	return failed, ended
}

// Reaction is a reaction to a comment. These are the ones that every code host has.
type Reaction string

// The values of Reaction.
const (
	Seen     Reaction = "eyes"
	Started  Reaction = "rocket"
	Yes      Reaction = "+1"
	No       Reaction = "-1"
	Confused Reaction = "confused"
)

// NewPull is a pull request that is to be opened. Head and Base are branches of one repository.
type NewPull struct {
	Title string
	Body  string
	Head  string
	Base  string
	Draft bool
}

// NewIssue is an issue that is to be opened.
type NewIssue struct {
	Title  string
	Body   string
	Labels []string
}

// Hook is a webhook of a repository.
type Hook struct {
	ID     int64    `json:"id"`
	URL    string   `json:"url"`
	Events []string `json:"events"`
	Active bool     `json:"active"`
}

// Delivery is one attempt of a code host to deliver a webhook. Attempts of one delivery have one GUID.
type Delivery struct {
	ID    int64     `json:"id"`
	GUID  string    `json:"guid"`
	Event string    `json:"event"`
	OK    bool      `json:"ok"`
	At    time.Time `json:"at"`
}

// Place is a repository at a code host of the settings. An approval binds it with its id, so that a repository that takes
// the name later is not meant.
type Place struct {
	Forge        string `json:"forge"` // its name in the settings
	Path         Path   `json:"path"`
	RepositoryID int64  `json:"repository_id"`
	// DefaultBranch is the branch into which a pull request goes that names none.
	DefaultBranch string `json:"default_branch"`
}

// The values of Published.Status.
const (
	Opened      = "opened"
	Posted      = "posted"
	AlreadyOpen = "already_open" // a pull request of the same branches was there, and the push updated it; or an issue with the same key was
)

// Published is the outcome of an action at a code host.
type Published struct {
	Status string `json:"status"`
	URL    string `json:"url"`
	Number int64  `json:"number"`
}
