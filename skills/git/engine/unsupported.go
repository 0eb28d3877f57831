package engine

import (
	"context"
	"io"
)

// Unsupported refuses everything (8). An engine embeds it in its Repo and overrides the methods that it supports.
type Unsupported struct{ Engine string }

var _ Repo = Unsupported{}

func (u Unsupported) refuseAction(action string) error { return Refuse(u.Engine, action) }

// Close has nothing to release.
func (u Unsupported) Close() error { return nil }

// The methods of Reader.

func (u Unsupported) Status(context.Context, StatusSpec) (Status, error) {
	return Status{}, u.refuseAction("status")
}

func (u Unsupported) Resolve(context.Context, string) (Object, error) {
	return Object{}, u.refuseAction("rev_parse")
}

func (u Unsupported) Branches(context.Context, BranchList) ([]Branch, error) {
	return nil, u.refuseAction("branch")
}

func (u Unsupported) Log(context.Context, LogSpec) (Log, error) { return Log{}, u.refuseAction("log") }

func (u Unsupported) Show(context.Context, ShowSpec) (Shown, error) {
	return Shown{}, u.refuseAction("show")
}

func (u Unsupported) Diff(context.Context, DiffSpec) (Diff, error) {
	return Diff{}, u.refuseAction("diff")
}

func (u Unsupported) MergeBase(context.Context, MergeBaseSpec) (MergeBase, error) {
	return MergeBase{}, u.refuseAction("merge_base")
}

func (u Unsupported) Worktrees(context.Context) ([]Worktree, error) {
	return nil, u.refuseAction("worktree")
}

// The methods of Writer.

func (u Unsupported) Add(context.Context, AddSpec) (Added, error) {
	return Added{}, u.refuseAction("add")
}

func (u Unsupported) Commit(context.Context, CommitSpec) (Committed, error) {
	return Committed{}, u.refuseAction("commit")
}

func (u Unsupported) ChangeBranch(context.Context, BranchChange) error {
	return u.refuseAction("branch")
}

func (u Unsupported) Checkout(context.Context, CheckoutSpec) (CheckedOut, error) {
	return CheckedOut{}, u.refuseAction("checkout")
}

func (u Unsupported) Worktree(context.Context, WorktreeChange) error {
	return u.refuseAction("worktree")
}

func (u Unsupported) Apply(context.Context, ApplySpec) (Applied, error) {
	return Applied{}, u.refuseAction("apply")
}

func (u Unsupported) Restore(context.Context, RestoreSpec) (Restored, error) {
	return Restored{}, u.refuseAction("restore")
}

func (u Unsupported) Stash(context.Context, StashSpec) (Stashed, error) {
	return Stashed{}, u.refuseAction("stash")
}

// The methods of Exchanger.

func (u Unsupported) Fetch(context.Context, FetchSpec) (Fetched, error) {
	return Fetched{}, u.refuseAction("fetch")
}

func (u Unsupported) Push(context.Context, PushSpec) ([]PushedRef, error) {
	return nil, Refuse(u.Engine, `a push with "mode":"direct"`).
		WithHint(`push with "mode":"request", which hands lattice a bundle to push; or use an image that has git 2.30 or newer on PATH`)
}

func (u Unsupported) Bundle(context.Context, BundleSpec, io.Writer) error {
	return u.refuseAction("bundle")
}
