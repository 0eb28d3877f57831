package engine

import "context"

// Unsupported refuses (8) the operations that only git can do. Repos of the native engine embed it.
type Unsupported struct{}

func (Unsupported) Show(context.Context, ShowSpec) (Shown, error) { return Shown{}, Refuse("show") }

func (Unsupported) Worktrees(context.Context) ([]Worktree, error) { return nil, Refuse("worktree") }

func (Unsupported) Checkout(context.Context, CheckoutSpec) (CheckedOut, error) {
	return CheckedOut{}, Refuse("checkout")
}

func (Unsupported) Worktree(context.Context, WorktreeChange) error { return Refuse("worktree") }

func (Unsupported) Apply(context.Context, ApplySpec) (Applied, error) {
	return Applied{}, Refuse("apply")
}

func (Unsupported) Restore(context.Context, RestoreSpec) (Restored, error) {
	return Restored{}, Refuse("restore")
}

func (Unsupported) Stash(context.Context, StashSpec) (Stashed, error) {
	return Stashed{}, Refuse("stash")
}

func (Unsupported) Fetch(context.Context, FetchSpec) (Fetched, error) {
	return Fetched{}, Refuse("fetch")
}

func (Unsupported) Push(context.Context, PushSpec) ([]PushedRef, error) {
	return nil, Refuse(`a push with "mode":"direct"`).
		WithHint(`push with "mode":"request", which hands lattice a bundle to push; or use an image that has git 2.30 or newer on PATH`)
}
