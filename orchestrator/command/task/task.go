// Package task holds lattice task, lattice next and lattice worker: the commands over the board of a repository. The first two work
// on files; a worker's run belongs to a leader.
package task

import (
	"cmp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/board"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/worker"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Commands returns lattice task, lattice next and lattice worker.
func Commands(env *setup.Env) []*cobra.Command {
	p := &place{env: env}
	task := cli.Group(&cobra.Command{
		Use:   "task",
		Short: "Keep the tasks of a repository: a board of files that agents and people share",
		Long: `A board is the folder .lattice of a repository: config.json with its rules, and events/TASK.jsonl with all that happened to
each task. The events are the truth; commit them with the code. tasks/TASK.json holds the same as one object.

The board is that of the current folder or the nearest one above it, unless --board or $LATTICE_ROOT names another.
Events name who acted: --actor or $LATTICE_ACTOR, by default human:USER.

A task is named by its short id (LAT-42), its id, or the beginning of its id.

config.json may refuse moves: workflow.transitions lists the statuses that may follow one,
workflow.completion_policies.STATUS.require_roles the artifacts that a task needs first, and
workflow.review_cycle_limit bounds how often a task goes back from review. A move to needs_human or cancelled is always allowed.

Hooks are shell commands in config.json: hooks.post_event, hooks.on.TYPE and hooks.transitions."FROM -> TO", where * is any
status. They get the event on standard input, may take ten seconds, and do not stop what they react to. They run only after
lattice task trust, and not again once they were changed.`,
		Example: `  lattice task init --code LAT
  lattice task create "Retry uploads" --label network
  lattice task move LAT-1 review
  lattice next --claim --actor agent:claude`,
	})
	task.PersistentFlags().StringVar(&p.root, "board", "", "`FOLDER` with the board (default: $LATTICE_ROOT, or the nearest)")
	task.PersistentFlags().StringVar(&p.actor, "actor", "", "`NAME` of the one who acts, such as agent:claude (default: $LATTICE_ACTOR, or human:USER)")
	task.AddCommand(newInitCmd(p), newCreateCmd(p), newImportCmd(p), newListCmd(p), newShowCmd(p), newMoveCmd(p), newAssignCmd(p), newCommentCmd(p), newAttachCmd(p), newSyncCmd(p), newTrustCmd(p))
	for _, cmd := range task.Commands() {
		if strings.Contains(cmd.Use, " TASK") && cmd.ValidArgsFunction == nil {
			cmd.ValidArgsFunction = p.completeArgs(listTasks)
		}
	}
	next := newNextCmd(p)
	next.Flags().AddFlagSet(task.PersistentFlags())
	workers := newWorkerCmd(p)
	workers.PersistentFlags().AddFlagSet(task.PersistentFlags())
	return []*cobra.Command{task, next, workers}
}

func newTrustCmd(p *place) *cobra.Command {
	return &cobra.Command{
		Use:   "trust",
		Short: "Let the hooks of the board and its workers with place = \"worktree\" run, as they are now",
		Long: `Record for this user that the hooks in .lattice/config.json may run, and the commands of workers that run on this machine. When they
are changed, they do not run until they are trusted again.`,
		Example: "  lattice task trust",
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			return p.withBoard(func(b *board.Board, _ string) error {
				workers, err := worker.Load(b.FS(), b.Config)
				if err != nil {
					return err
				}
				digests := []string{b.Config.HooksDigest()}
				for _, w := range workers {
					digests = append(digests, w.TrustDigest())
				}
				digests = slices.DeleteFunc(digests, func(d string) bool { return d == "" })
				if len(digests) == 0 {
					return fault.NotFound("no_hooks", "the board has no hooks, and no worker that runs on this machine").WithHint("lattice task --help")
				}
				for _, digest := range digests {
					if err := board.Trust(p.env.Home, digest); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
}

func newInitCmd(p *place) *cobra.Command {
	var code string
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Make a board in the current folder",
		Long: `Make .lattice/config.json with the statuses backlog, in_planning, in_progress, review, done, needs_human and cancelled. A task
needs an artifact of the role review before it is done, and may go back from review three times.`,
		Example: "  lattice task init --code LAT",
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			if code == "" || len(code) > 10 || strings.TrimLeft(code, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") != "" {
				return cli.UsageErrorf("--code is %q, not up to ten capital letters such as LAT", code)
			}
			dir := cmp.Or(p.root, p.env.Getenv("LATTICE_ROOT"), ".")
			if err := board.Init(dir, board.DefaultConfig(code)); err != nil {
				return err
			}
			return p.env.PrintResult(board.DefaultConfig(code), "made the board .lattice; next: lattice task create TITLE")
		},
	}
	cmd.Flags().StringVar(&code, "code", "TASK", "`PREFIX` of short ids")
	return cmd
}
