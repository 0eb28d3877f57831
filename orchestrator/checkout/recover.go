package checkout

import (
	"context"
	"errors"
	"path/filepath"

	"github.com/spritekit/lattice/orchestrator/board"
)

// IsLocal reports whether a process runs in a worktree of the machine that started it.
func IsLocal(r board.ProcessRecord) bool {
	return r.RunID == "" && r.RequestID != "" && r.Worktree != ""
}

// FolderOf returns the folder of a worktree in a state directory. Of the path of an event, which may come from elsewhere, only the name
// counts.
func FolderOf(home, worktree string) string {
	return filepath.Join(home, "worktrees", filepath.Base(worktree))
}

// LeaseName returns the name of the lease of the dispatcher that works on a request in a worktree.
func LeaseName(request string) string { return "worker-" + request }

// IsLost reports whether the dispatcher of a process died on this machine.
func IsLost(b *board.Board, r board.ProcessRecord) (bool, error) {
	if !IsLocal(r) {
		return false, nil
	}
	lease, err := b.TakeLost(LeaseName(r.RequestID))
	if err != nil || lease == nil {
		return false, err
	}
	return true, lease.Leave()
}

// Recover cleans up after a process whose dispatcher died on this machine, and then calls record, which records that it failed. It reports
// whether it did; of other processes, it does nothing.
func Recover(ctx context.Context, b *board.Board, home string, r board.ProcessRecord, record func(reason string) error) (bool, error) {
	lease, err := b.TakeLost(LeaseName(r.RequestID))
	if err != nil || lease == nil {
		return false, err
	}
	if err = Clean(ctx, b.Root, FolderOf(home, r.Worktree), r.EventID); err == nil {
		err = record("its dispatcher ended before it")
	}
	if err != nil {
		return false, errors.Join(err, lease.Leave())
	}
	return true, lease.End()
}
