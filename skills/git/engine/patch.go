package engine

// ApplySpec says how to apply a patch.
type ApplySpec struct {
	Patch    []byte
	Check    bool // only say whether it applies
	Index    bool // to the index, too; the files must be as the index has them
	ThreeWay bool // merge where it does not apply; conflicts stay in the work tree and the index
	Reverse  bool
	Strip    int  // leading folders to take off the names
	Fuzz     int  // outer lines of context that may differ, at most 3
	Reject   bool // apply the files that apply, tell the others
}

// Applied is the result of a patch. Without Reject a patch with a rejected hunk changes nothing.
type Applied struct {
	Applied  []AppliedFile  `json:"applied"`  // sorted; never null
	Rejected []RejectedHunk `json:"rejected"` // never null
}

// AppliedFile is one file that a patch changed.
type AppliedFile struct {
	Path   string `json:"path"`
	Status string `json:"status"` // A, M, D, R, C
}

// RejectedHunk is a hunk that did not apply; Hunk counts from 1, 0 is the file as a whole.
type RejectedHunk struct {
	Path   string `json:"path"`
	Hunk   int    `json:"hunk"`
	Reason string `json:"reason"`
}

// ReasonNotStaged is the Reason for a file whose content in the work tree is not that of the index.
const ReasonNotStaged = "does not match index"

// RestoreSpec puts files back as they are in Source ("" is the index, or HEAD with Staged).
type RestoreSpec struct {
	Paths    []string // judged, literal; at least one
	Source   string   // judged revision
	Staged   bool     // the index
	Worktree bool     // the files
}

// Restored lists the restored files, sorted.
type Restored struct {
	Restored []string `json:"restored"` // never null
}

// The actions on the stash.
const (
	StashPush  = "push"
	StashPop   = "pop"
	StashApply = "apply"
	StashList  = "list"
	StashDrop  = "drop"
)

// StashSpec acts on the stash.
type StashSpec struct {
	Action    string
	Message   string
	Paths     []string
	Untracked bool // push: untracked files, too
	KeepIndex bool
	Index     bool // pop, apply: restore staged changes as staged
	Entry     int  // pop, apply, drop: stash@{Entry}
	By        Signature
}

// Stashed is the stash after an action, and the result of the action.
type Stashed struct {
	Commit    string       `json:"commit"`    // of the entry made or used, "" when there was nothing to do
	Entries   []StashEntry `json:"entries"`   // never null
	Conflicts []string     `json:"conflicts"` // files that pop or apply left in conflict; never null
}

// StashEntry is one entry, newest first.
type StashEntry struct {
	Index   int    `json:"index"`
	Commit  string `json:"commit"`
	Message string `json:"message"`
	Date    string `json:"date"`
}
