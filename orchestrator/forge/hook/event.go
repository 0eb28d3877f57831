package hook

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/spritekit/text"
)

// Kind is the subject of an event.
type Kind string

const (
	Issue         Kind = "issue"
	Comment       Kind = "comment" // on an issue or a pull request
	PullRequest   Kind = "pull_request"
	Review        Kind = "review"
	ReviewComment Kind = "review_comment" // at a line of a pull request
	Push          Kind = "push"
	Check         Kind = "check" // a check run or a commit status of others than lattice that has ended
	Installation  Kind = "installation"
	Ping          Kind = "ping"
	Other         Kind = "other" // nothing here uses it, or it cannot be read
)

// Actions of events that both hosts have, in one spelling. Other actions pass as the host spells them.
const (
	Created      = "created"
	Edited       = "edited"
	Deleted      = "deleted"
	Opened       = "opened"
	Closed       = "closed"
	Synchronized = "synchronize" // the head of a pull request is another one
	Submitted    = "submitted"   // a review
)

// Polled is the name of an event that was asked for, not delivered.
const Polled = "poll"

// Event is the content of a delivery. Members that its kind lacks are empty.
type Event struct {
	Kind   Kind   `json:"kind"`
	Name   string `json:"name"` // the host's name of the event
	Action string `json:"action,omitempty"`
	// RepoID stays when the repository is renamed.
	Repo         forge.Path `json:"repo,omitzero"`
	RepoID       int64      `json:"repo_id,omitempty"`
	Installation int64      `json:"installation,omitempty"`
	Sender       forge.User `json:"sender,omitzero"` // who caused the event
	Author       forge.User `json:"author,omitzero"` // who wrote the text
	Number       int64      `json:"number,omitempty"`
	Pull         bool       `json:"pull,omitempty"` // the number is that of a pull request
	Title        string     `json:"title,omitempty"`
	IssueSum     string     `json:"issue_sum,omitempty"` // the digest of the issue that a comment is on; see SumIssue
	Text         string     `json:"text,omitempty"`
	Cut          bool       `json:"cut,omitempty"`   // the text was longer
	Was          string     `json:"was,omitempty"`   // the text of a comment before it was edited, unless it was longer than maxText
	State        string     `json:"state,omitempty"` // of a check, an issue or a review, which has one of forge.ReviewState
	Label        string     `json:"label,omitempty"` // that was added or removed
	// Item is the number of the comment, review or check, 0 for a review of Gitea, which has none.
	Item    int64     `json:"item_id,omitempty"`
	ReplyTo int64     `json:"reply_to,omitempty"`
	Created time.Time `json:"created,omitzero"`
	Updated time.Time `json:"updated,omitzero"`
	Path    string    `json:"path,omitempty"`
	Line    int       `json:"line,omitempty"`
	// Head is the commit of a pull request, a push or a check when the event happened; HeadRef its branch; Fork says that this
	// branch is in another repository.
	Head    string `json:"head,omitempty"`
	HeadRef string `json:"head_ref,omitempty"`
	BaseRef string `json:"base_ref,omitempty"`
	Fork    bool   `json:"fork,omitempty"`
	// Reviewed is the commit that the host names as the reviewed one.
	Reviewed string `json:"reviewed,omitempty"`
	Before   string `json:"before,omitempty"` // of a push
	Forced   bool   `json:"forced,omitempty"`
	Merged   bool   `json:"merged,omitempty"`
}

// The texts of an event have at most so many bytes.
const (
	maxText  = 64 << 10
	maxTitle = 1 << 10
)

// kinds maps the names of events, GitHub's and then Gitea's where they differ.
var kinds = map[string]Kind{
	"issues": Issue, "issue_comment": Comment, "pull_request": PullRequest, "pull_request_review": Review,
	"pull_request_review_comment": ReviewComment, "push": Push, "check_run": Check, "status": Check,
	"installation": Installation, "ping": Ping,

	"issue_assign": Issue, "issue_label": Issue, "issue_milestone": Issue, "pull_request_comment": Comment,
	"pull_request_assign": PullRequest, "pull_request_label": PullRequest, "pull_request_milestone": PullRequest,
	"pull_request_review_request": PullRequest, "pull_request_sync": PullRequest,
	"pull_request_review_approved": Review, "pull_request_review_rejected": Review,
}

// actions and states map Gitea's spellings.
var (
	actions = map[string]string{"synchronized": Synchronized, "reviewed": Submitted}
	states  = map[string]forge.ReviewState{
		"pull_request_review_approved": forge.Approved, "pull_request_review_rejected": forge.ChangesRequested, "pull_request_review_comment": forge.Commented,
	}
)

// Parse returns the event of a payload. One that cannot be read is of the kind Other.
func Parse(name string, body []byte) Event {
	e := Event{Kind: kinds[name], Name: text.Cut(name, 64)}
	var p payload
	if e.Kind == "" || json.Unmarshal(body, &p) != nil {
		e.Kind = Other
		return e
	}
	e.Action, e.Sender, e.Installation, e.RepoID = p.Action, p.Sender.plain(), p.Installation.ID, p.Repository.ID
	e.Repo, _ = forge.ParsePath(p.Repository.FullName)
	if spelled, ok := actions[e.Action]; ok {
		e.Action = spelled
	}
	if p.Review != nil && p.Review.Type != "" { // Gitea
		e.Kind = Review
	}
	e.addThread(p)
	switch e.Kind {
	case Comment, ReviewComment:
		e.addComment(p.Comment)
		if e.Action == Edited && len(p.Changes.Body.From) <= maxText {
			e.Was = p.Changes.Body.From
		}
	case Review:
		e.addReview(p)
	case Push:
		e.Head, e.Before, e.HeadRef, e.Forced = p.After, p.Before, p.Ref, p.Forced
	case Check:
		e.addCheck(p)
	}
	e.BoundText()
	return e
}

// BoundText cuts a text that is too long at the end of a line, because a part of a line can have another meaning.
func (e *Event) BoundText() {
	if e.Text, e.Cut = text.Cut(e.Text, maxText), len(e.Text) > maxText; e.Cut {
		e.Text = e.Text[:strings.LastIndexByte(e.Text, '\n')+1]
	}
}

// SumIssue returns the digest of the text of an issue, which shows whether it was edited after an event; "" without a title.
func SumIssue(title, body string) string {
	if title == "" {
		return ""
	}
	sum := sha256.Sum256([]byte(title + "\x00" + body))
	return hex.EncodeToString(sum[:])
}

// addThread adds the issue or pull request that an event is about.
func (e *Event) addThread(p payload) {
	e.Number = p.Number
	if t := p.Issue; t != nil {
		e.Number, e.Title, e.Text, e.Author, e.State, e.Pull = t.Number, text.Cut(t.Title, maxTitle), t.Body, t.User.plain(), t.State, len(t.PullRequest) > 0 && string(t.PullRequest) != "null"
		e.Created, e.Updated, e.IssueSum = t.CreatedAt.Time, t.UpdatedAt.Time, SumIssue(t.Title, t.Body)
	}
	if t := p.PullRequest; t != nil {
		e.Number, e.Title, e.Text, e.Author, e.State, e.Pull = t.Number, text.Cut(t.Title, maxTitle), t.Body, t.User.plain(), t.State, true
		e.Created, e.Updated, e.Merged = t.CreatedAt.Time, t.UpdatedAt.Time, t.Merged
		e.Head, e.HeadRef, e.BaseRef = t.Head.SHA, t.Head.Ref, t.Base.Ref
		e.Fork = t.Head.Repo.ID != t.Base.Repo.ID // a deleted fork has no id
	}
	e.Label = p.Label.Name
}

func (e *Event) addComment(c remark) {
	e.Item, e.Text, e.Author, e.ReplyTo, e.Path, e.Line, e.Reviewed = c.ID, c.Body, c.User.plain(), c.InReplyTo, c.Path, c.Line, c.Commit
	e.Created, e.Updated = c.CreatedAt.Time, c.UpdatedAt.Time
}

func (e *Event) addReview(p payload) {
	r := p.Review
	if r == nil {
		e.Kind = Other
		return
	}
	e.Item, e.Text, e.Author, e.State, e.Reviewed = r.ID, r.Body, r.User.plain(), strings.ToLower(r.State), r.Commit
	e.Created, e.Updated = r.SubmittedAt.Time, r.SubmittedAt.Time
	if r.Type != "" {
		e.State, e.Text, e.Author, e.Reviewed = string(states[r.Type]), r.Content, p.Sender.plain(), p.Commit
	}
}

func (e *Event) addCheck(p payload) {
	e.Head, e.State = p.SHA, p.State
	if c := p.CheckRun; c != nil {
		e.Item, e.Head, e.State, e.Title = c.ID, c.HeadSHA, c.Status, c.Name
		if c.Conclusion != "" {
			e.State = c.Conclusion
		}
	} else {
		e.Item, e.Title = p.ID, p.Context
	}
	if strings.HasPrefix(e.Title, forge.CheckPrefix) || slices.Contains([]string{"", "queued", "in_progress", "waiting", "requested", "pending"}, e.State) {
		e.Kind = Other
	}
}

// payload has the members of all payloads that are used.
type payload struct {
	Action      string  `json:"action"`
	Number      int64   `json:"number"`
	Repository  repo    `json:"repository"`
	Sender      account `json:"sender"`
	Issue       *thread `json:"issue"`
	PullRequest *thread `json:"pull_request"`
	Comment     remark  `json:"comment"`
	Review      *remark `json:"review"`
	Changes     struct {
		Body struct {
			From string `json:"from"`
		} `json:"body"`
	} `json:"changes"`
	Installation struct {
		ID int64 `json:"id"`
	} `json:"installation"`
	Label struct {
		Name string `json:"name"`
	} `json:"label"`
	// Of a push:
	Ref    string `json:"ref"`
	Before string `json:"before"`
	After  string `json:"after"`
	Forced bool   `json:"forced"`
	// Of a commit status, and of Gitea's reviews:
	ID      int64  `json:"id"`
	SHA     string `json:"sha"`
	State   string `json:"state"`
	Context string `json:"context"`
	Commit  string `json:"commit_id"`

	CheckRun *struct {
		ID         int64  `json:"id"`
		Name       string `json:"name"`
		HeadSHA    string `json:"head_sha"`
		Status     string `json:"status"`
		Conclusion string `json:"conclusion"`
	} `json:"check_run"`
}

type account struct {
	ID    int64  `json:"id"`
	Login string `json:"login"`
	Type  string `json:"type"`
}

func (a account) plain() forge.User {
	return forge.User{ID: a.ID, Login: a.Login, Bot: a.Type == "Bot"}
}

type repo struct {
	ID       int64  `json:"id"`
	FullName string `json:"full_name"`
}

// thread is an issue or a pull request.
type thread struct {
	Number      int64           `json:"number"`
	Title       string          `json:"title"`
	Body        string          `json:"body"`
	User        account         `json:"user"`
	State       string          `json:"state"`
	Merged      bool            `json:"merged"`
	CreatedAt   stamp           `json:"created_at"`
	UpdatedAt   stamp           `json:"updated_at"`
	PullRequest json.RawMessage `json:"pull_request"`
	Head        branch          `json:"head"`
	Base        branch          `json:"base"`
}

type branch struct {
	Ref  string `json:"ref"`
	SHA  string `json:"sha"`
	Repo repo   `json:"repo"`
}

// remark is a comment or a review.
type remark struct {
	ID          int64   `json:"id"`
	Body        string  `json:"body"`
	User        account `json:"user"`
	State       string  `json:"state"`
	Commit      string  `json:"commit_id"`
	Path        string  `json:"path"`
	Line        int     `json:"line"`
	InReplyTo   int64   `json:"in_reply_to_id"`
	CreatedAt   stamp   `json:"created_at"`
	UpdatedAt   stamp   `json:"updated_at"`
	SubmittedAt stamp   `json:"submitted_at"`
	// Of Gitea's reviews:
	Type    string `json:"type"`
	Content string `json:"content"`
}

// stamp is an instant. Old payloads have other forms, which are read as none: nothing is decided by an event without its time.
type stamp struct{ time.Time }

func (s *stamp) UnmarshalJSON(raw []byte) error {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		s.Time, _ = time.Parse(time.RFC3339, text)
		s.Time = s.UTC()
	}
	return nil
}
