package engine

import "github.com/spritekit/lattice/spritekit/workspace"

// Source is where commits come from or go to, judged.
type Source struct {
	URL      string // as given to git; for a local one the absolute path, symlinks resolved, inside the workspace
	Protocol string // the one transport that may be used: https, http, ssh, git or file
	Local    bool   // a path
	Bundle   bool   // a local file: a git bundle; it cannot be shallow, and pushed to
	// Env holds the variables of the sprite's environment for reaching a remote, as NAME=value: proxies and authorities
	// (http_proxy, https_proxy, all_proxy, no_proxy, SSL_CERT_FILE, SSL_CERT_DIR, GIT_SSL_CAINFO, GIT_SSL_CAPATH). It
	// is never passed together with a credential that it could leak.
	Env        []string
	Credential *Credential // nil goes without
}

// Credential opens one remote: it is sent to Source.URL's scheme, host and port alone, dropped on any redirect to
// another, and never put into arguments, environments, files of the repository, errors or results.
type Credential struct {
	Username string // "x-access-token" unless told otherwise
	Token    string // https; "" for none
	// KeyFile and KnownHosts are files outside the workspace for ssh; the host must be known already.
	KeyFile    string
	KnownHosts string
}

// String hides the secrets from %v.
func (Credential) String() string { return "***" }

// GoString hides the secrets from %#v.
func (Credential) GoString() string { return "***" }

// Ref is a name and the object that it points to.
type Ref struct {
	Name   string `json:"name"`             // full: refs/heads/main; HEAD
	ID     string `json:"id"`               // "" for a HEAD that names an unborn branch
	Peeled string `json:"peeled,omitempty"` // the commit that an annotated tag names
	Target string `json:"target,omitempty"` // the ref that HEAD stands for, when the source tells
}

// CloneSpec describes a clone. The remote is called origin; its URL in the configuration is RemoteURL, which
// carries no credential. A clone has the branches of the source as refs/remotes/origin/*, or only one with SingleBranch;
// tags only with Tags, except those that Ref names. Submodules are never fetched, hooks never made.
type CloneSpec struct {
	Root      *workspace.Root `json:"-"` // holds Dir
	From      Source
	RemoteURL string // to store as remote.origin.url
	Dir       string // absolute, empty folder: the work tree
	// Branch to check out, made to follow origin's. "" is the branch that the source's HEAD names; if that names
	// none, its only branch, else main or master; an empty source gives an empty clone. With Ref: the new branch,
	// following none, that starts there. With a bundle that holds HEAD alone: the name for it.
	Branch       string
	Ref          string // tag, branch or full commit id to check out, detached unless Branch is set
	Depth        int    // fetch only so many commits; 0 is all
	SingleBranch bool
	Tags         bool
	Filter       string // partial clone, such as blob:none; "" for none
	Reference    string // absolute path of a repository of the workspace whose objects may be borrowed; "" for none
	Limits       Limits
	Follow       Follow `json:"-"`
}

// Cloned describes a clone.
type Cloned struct {
	Branch  string `json:"branch"` // "" when detached
	Head    string `json:"head"`   // "" when the source is empty
	Files   int    `json:"files"`  // tracked; the verb counts them
	Shallow bool   `json:"shallow"`
	Objects int64  `json:"objects"` // received; 0 when the source did not say
	Bytes   int64  `json:"bytes"`   // of packs and loose objects on disk
}

// FetchSpec describes a fetch. Without Refspecs the remote's configured ones are used.
type FetchSpec struct {
	Remote    string // name; tracking refs and refspecs are this remote's
	From      Source
	Refspecs  []string // judged: [+]src:dst below refs/, or a plain name, which goes to the remote's tracking ref
	Depth     int      // 0 leaves the depth alone
	Unshallow bool     // fetch the history that a shallow clone omitted
	Prune     bool
	Tags      bool // all of them; otherwise none
	Limits    Limits
	Follow    Follow `json:"-"`
}

// Fetched lists the changes of a fetch, sorted by ref.
type Fetched struct {
	Updated []RefChange `json:"updated"`
}

// RefChange is one ref that moved.
type RefChange struct {
	Ref    string `json:"ref"`
	Old    string `json:"old"` // "" when it is new
	New    string `json:"new"` // "" when it was pruned
	Forced bool   `json:"forced"`
}

// PushSpec describes a push. Only the listed refs move; no tags follow, no hook runs.
type PushSpec struct {
	To     Source
	Refs   []PushRef
	DryRun bool // only ask the target for its answer
	// Remote is the name of To in the configuration; its tracking refs of branches that were pushed follow. With
	// SetUpstream the branch Upstream follows the first ref of Refs.
	Remote      string
	SetUpstream string // local branch, "" for none
	Follow      Follow `json:"-"`
}

// PushRef is one ref to move.
type PushRef struct {
	From string // commit id
	To   string // full ref
	// Expect is where the ref must be, for a push that may lose commits: an id, or "0" for nowhere. "" does not ask.
	Expect string
}

// The statuses of a pushed ref.
const (
	PushOK       = "ok"
	PushUpToDate = "up_to_date"
	PushRejected = "rejected"
)

// PushedRef is the result of pushing a ref.
type PushedRef struct {
	Ref    string `json:"ref"`
	Old    string `json:"old"` // "" when it was not there or git did not say
	New    string `json:"new"`
	Status string `json:"status"`
	Reason string `json:"reason,omitempty"` // of a rejection, in the remote's words
	Stale  bool   `json:"-"`                // rejected because the remote has commits that we lack or is not at Expect
}

// BundleSpec describes a bundle: the commits of Ref that Base lacks, under Ref's name.
type BundleSpec struct {
	Base string // commit id
	Ref  string // HEAD or refs/heads/…
}
