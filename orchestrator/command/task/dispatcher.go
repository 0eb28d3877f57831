package task

import (
	"cmp"
	"context"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/board"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/worker"
	"github.com/spritekit/lattice/spritekit/fault"
)

func cutCommit(sha string) string { return orDash(sha[:min(len(sha), 12)]) }

// commitFlags say which commit a worker sees.
type commitFlags struct{ commit, base string }

func (f *commitFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.commit, "commit", "HEAD", "`COMMIT` to work on")
	cmd.Flags().StringVar(&f.base, "base", "", "`BRANCH` with which it is compared (default: main or master)")
}

// dispatcher starts workers and records their ends. The run of a worker belongs to a leader in the background, and the event
// process_started names it: whichever dispatcher sees the end of the run records it, once.
type dispatcher struct {
	*place
	board   *board.Board
	workers []worker.Definition
	leader  *connect.Conn
	at      commitFlags
	queue   worker.Queue

	mu sync.Mutex // guards the members below while workers start and end side by side

	// Of the last scan, without those that ended since.
	active  []board.ProcessRecord
	pending []worker.Request
	claimed map[string]bool // by the ids of the requests of active
	warned  map[string]bool // problems that were reported

	local map[string]*localWork // by the event that started it

	commits  map[string]string // ids by revision, of the last second; nil keeps none
	forgotAt time.Time         // when commits was emptied
}

// findCommit returns the id of a commit.
func (d *dispatcher) findCommit(ctx context.Context, revision string) (string, error) {
	d.mu.Lock()
	commit, ok := d.commits[revision]
	d.mu.Unlock()
	if ok {
		return commit, nil
	}
	commit, err := d.runGit(ctx, "rev-parse", "--verify", "--quiet", "--end-of-options", revision+"^{commit}")
	if err != nil {
		return "", fault.NotFound("commit_not_found", "%s names no commit of %s", revision, d.board.Root).WithHint("--commit COMMIT")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.commits != nil {
		d.commits[revision] = commit
	}
	return commit, nil
}

// findBase returns the commit where the reviewed branch left the base branch; of a commit of the base branch itself, its parent.
func (d *dispatcher) findBase(ctx context.Context, commit string) (string, error) {
	for _, branch := range []string{d.at.base, "main", "master"} {
		if branch == "" {
			continue
		}
		base, err := d.runGit(ctx, "merge-base", "--", branch, commit)
		if err == nil && base == commit {
			if parent, err := d.runGit(ctx, "rev-parse", "--verify", "--quiet", commit+"^"); err == nil {
				base = parent
			}
		}
		if err == nil {
			return base, nil
		}
		if branch == d.at.base {
			break
		}
	}
	return "", fault.NotFound("base_not_found", "%s and %s have no common history", cutCommit(commit), cmp.Or(d.at.base, "main or master")).WithHint("--base BRANCH")
}

// runGit runs a reading command of git in the repository and returns its output without the final newline.
func (d *dispatcher) runGit(ctx context.Context, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Env = d.board.Root, d.env.Environ
	out, err := cmd.Output()
	return strings.TrimRight(string(out), "\n"), err
}
