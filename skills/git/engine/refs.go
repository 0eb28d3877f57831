package engine

// Object is the object of a revision.
type Object struct {
	ID     string `json:"id"`     // the object itself: a tag object for an annotated tag
	Type   string `json:"type"`   // commit, tree, blob, tag
	Commit string `json:"commit"` // the commit that it peels to, "" when it is none
	Ref    string `json:"ref"`    // full name of the ref if the revision is one (HEAD: the ref it stands for), else ""
}

// BranchList asks for branches.
type BranchList struct {
	Name   string // only this local branch; "" is all
	Remote bool   // remote-tracking branches, too
	Max    int    // 0 is no limit
}

// Branch is one branch; lists are sorted by name, local ones first.
type Branch struct {
	Name     string `json:"name"`   // short: main; remote ones origin/main
	Commit   string `json:"commit"` // "" for the current branch before its first commit
	Current  bool   `json:"current"`
	Remote   bool   `json:"remote"`
	Upstream string `json:"upstream"` // short, "" for none
	Ahead    int    `json:"ahead"`
	Behind   int    `json:"behind"`
	Gone     bool   `json:"gone"` // the upstream is set, but not there
}

// The changes that a branch can suffer.
const (
	BranchCreate = "create"
	BranchDelete = "delete"
	BranchRename = "rename"
)

// BranchChange changes one branch.
type BranchChange struct {
	Action     string // BranchCreate, BranchDelete, BranchRename
	Name       string
	NewName    string // of a rename
	StartPoint string // revision a new branch starts at, "" is HEAD; it becomes the upstream if it is a remote-tracking branch
	NoTrack    bool
	// Force moves a branch that exists, deletes one that is not merged, or renames over another; never one that is
	// checked out.
	Force bool
}

// CheckoutSpec describes a checkout: with Paths these files from Ref ("" is the index), without any the whole of Ref.
type CheckoutSpec struct {
	Ref        string // branch, tag or other revision; the name of the new branch with Create
	Create     bool   // make the branch Ref at StartPoint first
	StartPoint string // "" is HEAD
	Paths      []string
	Detach     bool
	Force      bool   // give up edits of tracked files; untracked and ignored files stay, in any case
	Merge      bool   // merge edits of files that differ; conflicts stay in the work tree and the index
	Follow     Follow `json:"-"`
}

// CheckedOut is the result of a checkout.
type CheckedOut struct {
	Previous  HeadState `json:"previous"`
	Branch    string    `json:"branch"` // "" when detached
	Commit    string    `json:"commit"`
	Updated   int       `json:"updated"`    // files written
	Removed   int       `json:"removed"`    // files removed
	KeptLocal []string  `json:"kept_local"` // edited files that came along; never null
	Conflicts []string  `json:"conflicts"`  // files that Merge left in conflict; never null
}

// HeadState is where HEAD is.
type HeadState struct {
	Ref    string `json:"ref"` // full name of the branch, "" when detached
	Commit string `json:"commit"`
}

// The changes that the list of work trees can suffer.
const (
	WorktreeAdd    = "add"
	WorktreeRemove = "remove"
	WorktreePrune  = "prune"
)

// WorktreeChange adds, removes or prunes linked work trees.
type WorktreeChange struct {
	Action string // WorktreeAdd, WorktreeRemove, WorktreePrune
	Dest   string // absolute path inside the workspace
	Branch string // branch to check out; it is made, at Ref, if it is not there
	Ref    string // revision to start at or, without Branch, to check out detached; "" is HEAD
	Force  bool   // add: a branch that is checked out elsewhere; remove: with edits or untracked files in it
}

// Worktree is one work tree, the main one first.
type Worktree struct {
	Path     string `json:"path"`   // absolute
	Branch   string `json:"branch"` // short, "" when detached
	Head     string `json:"head"`
	Main     bool   `json:"main"`
	Locked   bool   `json:"locked"`
	Prunable bool   `json:"prunable"` // its folder is gone
}
