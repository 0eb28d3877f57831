package engine

import "time"

// Signature is who and when. When carries the offset that git stores; parts of a second are dropped.
type Signature struct {
	Name  string
	Email string
	When  time.Time
}

// KeyTrailer carries the idempotency key of the call that made a commit.
const KeyTrailer = "Lattice-Key"

// CommitSpec describes a commit. No hook runs and nothing is signed. The commit concludes a merge in progress: its heads
// become parents, unless conflicts are left (error conflict).
type CommitSpec struct {
	Message   string     // the exact bytes of the message, cleaned, trailers included
	Author    *Signature // nil only with Amend, which then keeps the author
	Committer Signature
	All       bool     // stage every change first, as AddSpec.All
	Paths     []string // commit the changes of these files alone, other staged changes stay staged
	Amend     bool     // replace HEAD
	// AllowEmpty commits even if nothing is staged; otherwise that is nothing_to_commit, except for a merge or Amend.
	AllowEmpty bool
	ExpectHead string // refuse with head_moved unless HEAD is this commit; "" does not ask
	// Key is looked for first: when HEAD's message has the line KeyTrailer+": "+Key, nothing is done and Already is
	// set. "" does not look.
	Key string
}

// Committed describes HEAD and its changes against its first parent.
type Committed struct {
	Commit       string   `json:"commit"`
	Tree         string   `json:"tree"`
	Parents      []string `json:"parents"` // never null
	Branch       string   `json:"branch"`  // "" when detached
	FilesChanged int      `json:"files_changed"`
	Additions    int      `json:"additions"` // lines; binary files aside
	Deletions    int      `json:"deletions"`
	Empty        bool     `json:"empty"`   // no file changed
	Already      bool     `json:"already"` // found by Key
}
