// Package engine is the contract between the git skills and the programs that do git for them: the types of requests and
// results, and the interfaces Engine and Repo. There are two engines: package system drives the git of the sprite, package
// native does without one. Callers cannot tell them apart, except by Name: equal input gives equal output,
// an equal repository and equal errors.
//
// The verbs check inputs (paths, names, URLs, identities) before an engine sees them, and bind results to the
// workspace; an engine trusts its arguments and distrusts the repository. The needs of an engine — the
// workspace's root, where the repository lies, the parsed configuration, a network environment, whom to tell of
// progress — comes in as a value: it reads no environment, changes no directory and keeps nothing between calls.
//
// Errors are *skill.Error where a caller can act on them, with these codes (exit code in parentheses): not_a_repository,
// ref_not_found, not_found (3) · authentication (4) · network (5) · busy (6) · unsafe_config, unsafe_path, unsafe,
// unsafe_owner (7) · unsupported (8) · too_large, too_many, too_much_output (9) · everything else that git refused is a
// failure of the work (1) such as nothing_to_commit, head_moved, conflict, would_overwrite, exists, not_merged, rejected,
// stale, or VERB_failed. skill.Fault maps every other error: full disks, ended contexts, faults.
//
// The package does no I/O. Results carry JSON tags because verbs put them into their results as they are.
package engine

import (
	"context"
	"io"

	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/skill"
	"github.com/spritekit/lattice/spritekit/workspace"
)

// The names of the engines, as callers ask for them and results tell them.
const (
	System = "system"
	Native = "native"
	Auto   = "auto" // asked only: system where there is a git that will do, else native
)

// Engine makes and opens repositories. It may be used by many calls at once.
type Engine interface {
	// Name is System or Native.
	Name() string
	// Clone fills the empty folder spec.Dir with a repository. On failure the folder may hold anything; its owner
	// removes it. Errors: not_a_repository, ref_not_found, authentication, network, clone_failed, limits.
	Clone(ctx context.Context, spec CloneSpec) (Cloned, error)
	// Refs asks a source for its refs, HEAD among them, sorted by name; tags carry the objects that they peel to.
	Refs(ctx context.Context, from Source) ([]Ref, error)
	// Open opens a repository that was found and whose configuration was judged. It is closed by its user.
	Open(ctx context.Context, at Location) (Repo, error)
}

// Repo is one open repository, for one call: its methods are not meant for concurrent use.
type Repo interface {
	Reader
	Writer
	Exchanger
	// Close releases the resources of Open. Callers other than tests may ignore its error.
	Close() error
}

// Reader has the methods that change nothing, not even the cached times of the index.
type Reader interface {
	Status(ctx context.Context, spec StatusSpec) (Status, error)
	// Resolve finds the object that a revision names. Errors: ref_not_found.
	Resolve(ctx context.Context, revision string) (Object, error)
	Branches(ctx context.Context, spec BranchList) ([]Branch, error)
	Log(ctx context.Context, spec LogSpec) (Log, error)
	Show(ctx context.Context, spec ShowSpec) (Shown, error)
	Diff(ctx context.Context, spec DiffSpec) (Diff, error)
	MergeBase(ctx context.Context, spec MergeBaseSpec) (MergeBase, error)
	Worktrees(ctx context.Context) ([]Worktree, error)
}

// Writer has the methods that change refs, index or files. Every change takes git's own locks. A change that would destroy
// files that are stored nowhere else (untracked, ignored, edited files) is refused with would_overwrite.
type Writer interface {
	// Add stages files and lists all staged files. Errors: not_found (a path matches nothing), ignored.
	Add(ctx context.Context, spec AddSpec) (Added, error)
	// Commit commits the staged changes. Errors: nothing_to_commit, head_moved, conflict.
	Commit(ctx context.Context, spec CommitSpec) (Committed, error)
	// ChangeBranch creates, renames or deletes. Errors: exists, ref_not_found, not_merged, in_use.
	ChangeBranch(ctx context.Context, spec BranchChange) error
	// Checkout moves HEAD or puts files back. Local edits come along as with git, and are never lost.
	Checkout(ctx context.Context, spec CheckoutSpec) (CheckedOut, error)
	Worktree(ctx context.Context, spec WorktreeChange) error
	// Apply applies a patch, all of it or, unless Reject is set, nothing. Errors: conflict.
	Apply(ctx context.Context, spec ApplySpec) (Applied, error)
	Restore(ctx context.Context, spec RestoreSpec) (Restored, error)
	Stash(ctx context.Context, spec StashSpec) (Stashed, error)
}

// Exchanger moves commits between repositories.
type Exchanger interface {
	Fetch(ctx context.Context, spec FetchSpec) (Fetched, error)
	// Push makes refs of the target point to commits of this repository. A ref that the target refused is in the
	// result with Status "rejected"; the error is of the push as a whole.
	Push(ctx context.Context, spec PushSpec) ([]PushedRef, error)
	// Bundle writes the commits of Ref that Base lacks to w, as git bundle does.
	Bundle(ctx context.Context, spec BundleSpec, w io.Writer) error
}

// Location is a repository that was found: a work tree in the workspace, and the folders that hold its objects and refs.
// All paths are absolute, symlinks resolved, below Root.Dir().
type Location struct {
	Root      *workspace.Root
	Name      string // of the work tree relative to the workspace, "." for the workspace itself; for messages
	Dir       string // the work tree
	GitDir    string // .git, or .git/worktrees/NAME of a linked work tree
	CommonDir string // where refs, objects and config are; GitDir unless the work tree is linked
	Config    Config
}

// Config is a repository's own configuration, config.worktree included, as package gitconfig reads it.
type Config interface {
	// Value is the last value of a key, "" and false when it is not set. section and name count in any case, the
	// subsection does not.
	Value(section, subsection, name string) (string, bool)
}

// Limits bound the cost of a repository. 0 sets no limit; engines have limits of their own for memory.
type Limits struct {
	MaxObjects     int64 `json:"max_objects"`      // in a pack that is received
	MaxPackBytes   int64 `json:"max_pack_bytes"`   // of a pack that is received
	MaxObjectBytes int64 `json:"max_object_bytes"` // of one object that is checked out
	MaxFiles       int64 `json:"max_files"`        // that are checked out
	MaxPathLen     int64 `json:"max_path_len"`     // in bytes, of files that are checked out
}

// Progress is one report on a long operation.
type Progress struct {
	Phase   string `json:"phase"` // counting, compressing, receiving, resolving, writing, checkout …
	Percent int    `json:"percent"`
	Objects int64  `json:"objects"`
	Total   int64  `json:"total"`
	Bytes   int64  `json:"bytes,omitempty"`
}

// Follow receives progress, as often as the engine likes and from one goroutine at a time. It may be nil.
type Follow func(Progress)

// Refuse says that the native engine cannot do something, and that git can (8).
func Refuse(action string) *skill.Error {
	return fault.Unsupported("unsupported", "the native engine cannot do %s", action).
		WithHint(`use an image that has git 2.30 or newer on PATH; with "engine":"auto" it is found by itself`)
}
