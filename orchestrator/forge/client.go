package forge

import (
	"context"
	"time"
)

// Client is a connection to a code host with the authority of one account. Its methods are safe for concurrent use. A
// call that only reads may be repeated; Open and Create methods create something at each call, and their callers search
// for their marker first. All fail with a *Problem when the code host answers that it will not do it.
type Client interface {
	// Kind returns the kind of the code host.
	Kind() Kind
	// Self returns the account of the client.
	Self(ctx context.Context) (User, error)
	Repository(ctx context.Context, p Path) (Repository, error)
	// Role returns the role of a user, by id, as it is now. A user without one has NoRole; so has a user that is unknown.
	Role(ctx context.Context, p Path, user int64) (Role, error)

	Issue(ctx context.Context, p Path, number int64) (Issue, error)
	// IssuesSince returns the issues and pull requests that changed since an instant, oldest change first.
	IssuesSince(ctx context.Context, p Path, since time.Time) ([]Issue, error)
	OpenIssue(ctx context.Context, p Path, n NewIssue) (Issue, error)
	// AddLabels adds labels to an issue or pull request. Labels that the repository lacks are created.
	AddLabels(ctx context.Context, p Path, number int64, labels []string) error
	// RemoveLabel removes a label. It succeeds if the label is not there.
	RemoveLabel(ctx context.Context, p Path, number int64, label string) error

	// Comments returns the comments on an issue or pull request, oldest first.
	Comments(ctx context.Context, p Path, number int64) ([]Comment, error)
	// CommentsSince returns the comments on all issues and pull requests that changed since an instant, oldest change first.
	CommentsSince(ctx context.Context, p Path, since time.Time) ([]Comment, error)
	Comment(ctx context.Context, p Path, id int64) (Comment, error)
	CreateComment(ctx context.Context, p Path, number int64, body string) (Comment, error)
	EditComment(ctx context.Context, p Path, id int64, body string) (Comment, error)
	// React adds a reaction to a comment. A reaction that is already there stays.
	React(ctx context.Context, p Path, comment int64, r Reaction) error

	Pull(ctx context.Context, p Path, number int64) (PullRequest, error)
	// PullsOf returns the pull requests from a branch of the repository itself, open and closed, newest first.
	PullsOf(ctx context.Context, p Path, head string) ([]PullRequest, error)
	OpenPull(ctx context.Context, p Path, n NewPull) (PullRequest, error)
	// Files returns the files that a pull request changes. A code host lists at most some thousands.
	Files(ctx context.Context, p Path, number int64) ([]File, error)
	// Reviews returns the submitted reviews, oldest first.
	Reviews(ctx context.Context, p Path, number int64) ([]Review, error)
	// ReviewComments returns the comments of all reviews, oldest first.
	ReviewComments(ctx context.Context, p Path, number int64) ([]ReviewComment, error)
	// CommentOnLine comments on a line of a pull request. It fails with a *Problem if the pull request does not show the line.
	CommentOnLine(ctx context.Context, p Path, number int64, at Line, body string) (Comment, error)
	// Reply answers a comment of a review in its thread, or as a comment on the pull request where there are no threads.
	Reply(ctx context.Context, p Path, number int64, to ReviewComment, body string) (Comment, error)

	// Checks returns the check runs and commit statuses of a commit, the last of each name. Those that cannot be read at once count
	// as one that is pending.
	Checks(ctx context.Context, p Path, sha string) ([]Check, error)
	// SetCheck shows a check at a commit. A check of the same name is replaced.
	SetCheck(ctx context.Context, p Path, sha string, c Check) error
}

// HookKeeper is a Client that can add webhooks. Only the commands that connect a repository need one.
type HookKeeper interface {
	// Hooks returns the webhooks of a repository.
	Hooks(ctx context.Context, p Path) ([]Hook, error)
	// CreateHook adds a webhook that signs its deliveries with a secret.
	CreateHook(ctx context.Context, p Path, url, secret string, events []string) (Hook, error)
	// SetHookEvents has a webhook deliver these events. Its address and its secret stay.
	SetHookEvents(ctx context.Context, p Path, hook int64, events []string) error
}

// ListLag is how long a code host may not list a comment that it has taken.
const ListLag = 30 * time.Second

// Attempt is an attempt at an effect that happens once.
type Attempt struct {
	Key string // of the effect
	// Earlier is when an earlier attempt began whose outcome is unknown; zero if there is none.
	Earlier time.Time
}

// Redeliverer is a Client of a code host that keeps the deliveries of its webhooks.
type Redeliverer interface {
	// Deliveries returns the last deliveries of a webhook, newest first.
	Deliveries(ctx context.Context, p Path, hook int64) ([]Delivery, error)
	// Redeliver repeats a delivery, which keeps its GUID.
	Redeliver(ctx context.Context, p Path, hook, delivery int64) error
}

// Resolver is a Client of a code host that can resolve the threads of reviews.
type Resolver interface {
	// ResolveOutdated resolves the thread of a comment if the code host says that its lines have changed since. It returns whether
	// the thread is resolved then, by lattice or by another.
	ResolveOutdated(ctx context.Context, p Path, number, comment int64) (resolved bool, err error)
}
