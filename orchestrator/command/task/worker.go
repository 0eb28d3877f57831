package task

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/board"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/worker"
	"github.com/spritekit/lattice/spritekit/fault"
)

func newWorkerCmd(p *place) *cobra.Command {
	cmd := cli.Group(&cobra.Command{
		Use:   "worker",
		Short: "Let flows react to the tasks of a board: review, test, report",
		Long: `A worker is a flow that runs on the commit of a task, in a sprite of its own, and leaves a report: a file of the repository
that is attached to the task. The task's events say that it started, and that it completed or failed.

Workers are defined in .lattice/workers/*.toml; CodeReviewLite and TestRunner are built in, and a file with the same name
replaces one:

  [worker]     name, description, actor (default: worker:NAME)
  [trigger]    on_status, missing_role: start when a task is in the status and has no artifact of the role;
               cooldown_minutes since its last end; retrigger = true also after a failure; manual_only = true
  [execution]  engine: claude, codex, gemini, opencode, or script with command; flow (default: code-review); prompt_file, which
               is read from the base commit; worktree = true; timeout_minutes
  [output]     artifact_role, report_prefix, report_dir

worker_policies in .lattice/config.json choose between two workers for a status, by labels, type and size of the change:

  {"worker_policies": {"review": {"default": "CodeReviewLite", "escalate_to": "CodeReviewHeavy",
    "escalate_when": {"labels": ["security"], "type": ["epic"], "diff_lines_gt": 500}}}}

The run belongs to a leader in the background. A worker whose command was killed goes on; lattice worker watch, or the next
lattice worker run, records its end.`,
		Example: `  lattice worker run CodeReviewLite LAT-1
  lattice worker watch
  lattice worker ps`,
	})
	cmd.AddCommand(newWorkerListCmd(p), newWorkerRunCmd(p), newWorkerWatchCmd(p), newWorkerPsCmd(p))
	return cmd
}

func newWorkerListCmd(p *place) *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Aliases: []string{"ls"},
		Short:   "List the workers and their triggers",
		Example: "  lattice worker list --json",
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			return p.withBoard(func(b *board.Board, _ string) error {
				all, err := worker.Load(b.FS())
				if err != nil {
					return err
				}
				return cli.PrintTable(p.env.Console, all, "WORKER\tTRIGGER\tFLOW\tENGINE\tFROM\tDESCRIPTION", func(d worker.Definition) []any {
					from := "built in"
					if d.File != "" {
						from = d.File
					}
					return []any{d.Worker.Name, describeTrigger(d.Trigger), d.Execution.Flow, orDash(d.Execution.Engine), from, orDash(d.Worker.Description)}
				})
			})
		},
	}
}

func describeTrigger(t worker.Trigger) string {
	switch {
	case t.ManualOnly:
		return "by hand"
	case t.MissingRole != "":
		return t.OnStatus + " without " + t.MissingRole
	}
	return t.OnStatus
}

func newWorkerPsCmd(p *place) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:     "ps",
		Short:   "List the workers that run; with --all also those that have ended",
		Example: "  lattice worker ps --all",
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			return p.withBoard(func(b *board.Board, _ string) error {
				tasks, err := b.Tasks()
				if err != nil {
					return err
				}
				var records []board.ProcessRecord
				names := map[string]string{}
				for _, t := range tasks {
					names[t.ID] = nameOf(t)
					events, err := b.History(t.ID)
					if err != nil {
						return err
					}
					records = append(records, board.Processes(events)...)
				}
				records = slices.DeleteFunc(records, func(r board.ProcessRecord) bool { return r.EndedAt != "" && !all })
				slices.SortStableFunc(records, func(a, b board.ProcessRecord) int { return strings.Compare(a.StartedAt, b.StartedAt) })
				return cli.PrintTable(p.env.Console, records, "TASK\tWORKER\tCOMMIT\tSTARTED\tSTATE\tRUN", func(r board.ProcessRecord) []any {
					return []any{names[r.TaskID], r.Type, cutCommit(r.Commit), formatTime(r.StartedAt), describeState(r), orDash(r.RunID)}
				})
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "also those that have ended")
	return cmd
}

func cutCommit(sha string) string { return orDash(sha[:min(len(sha), 12)]) }

func describeState(r board.ProcessRecord) string {
	switch {
	case r.EndedAt != "":
		return appendReason(fmt.Sprintf("%s after %.0f s", r.Result, r.Duration), r.Error)
	case worker.Late(r, time.Now()):
		return "beyond its timeout; lattice worker watch --once ends it"
	}
	return "running"
}

// commitFlags say which commit a worker sees.
type commitFlags struct{ commit, base string }

func (f *commitFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.commit, "commit", "HEAD", "`COMMIT` to work on")
	cmd.Flags().StringVar(&f.base, "base", "", "`BRANCH` with which it is compared (default: main or master)")
}

func newWorkerRunCmd(p *place) *cobra.Command {
	var at commitFlags
	cmd := &cobra.Command{
		Use:   "run WORKER TASK",
		Short: "Run a worker on a task now, and wait for its report",
		Long: `Run a worker on a task without regard to its trigger. Uncommitted changes are not part of the work. Ctrl-C stops waiting; the run goes on
in the background.

Ends with 6 if the worker is running on this commit of the task, and with 1 if it fails.`,
		Example: "  lattice worker run CodeReviewLite LAT-1\n  lattice worker run CodeReviewLite LAT-1 --commit feature --base develop",
		Args:    cli.Args(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, list []string) error {
			return p.withDispatcher(cmd.Context(), at, func(ctx context.Context, d *dispatcher) error {
				w, err := worker.Find(d.workers, list[0])
				if err != nil {
					return err
				}
				t, err := d.board.Resolve(list[1])
				if err != nil {
					return err
				}
				if t, err = d.settle(ctx, t.ID); err != nil {
					return err
				}
				started, err := d.start(ctx, w, t)
				if err != nil {
					return err
				}
				fmt.Fprintf(p.env.Err, "lattice: %s works on %s at %s in %s\n", w.Worker.Name, nameOf(t), cutCommit(started.Commit), started.RunID)
				ended, err := d.await(ctx, w, started)
				if err != nil {
					return err
				}
				if p.env.JSON {
					if err := p.env.PrintJSON(ended); err != nil {
						return err
					}
				}
				if ended.Result == "failed" {
					return fault.Failed("worker_failed", "%s failed: %s", w.Worker.Name, ended.Error).WithHint("lattice show %s", started.RunID)
				}
				if p.env.JSON {
					return nil
				}
				t, err = d.board.Resolve(t.ID)
				if err != nil {
					return err
				}
				i := slices.IndexFunc(t.Artifacts, func(a board.Artifact) bool { return a.ID == ended.ArtifactID })
				if i < 0 {
					return errors.New("the report is not attached")
				}
				_, err = fmt.Fprintf(cli.Sanitize(p.env.Out), "%s\n", t.Artifacts[i].Path)
				return err
			})
		},
	}
	at.add(cmd)
	return cmd
}

func newWorkerWatchCmd(p *place) *cobra.Command {
	var at commitFlags
	var once bool
	var every time.Duration
	var jobs int
	cmd := &cobra.Command{
		Use:   "watch",
		Short: "Start workers when tasks need them, and record their ends, until Ctrl-C",
		Long: `Look at the board again and again: start the workers that are due on the current commit, attach the reports of those that have
ended, and end those that are beyond their timeout. Several may watch the same board; a worker is started once.

With --once it looks once, waits for the workers that it started, and ends.`,
		Example: "  lattice worker watch\n  lattice worker watch --once --jobs 1",
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if jobs < 1 || every < time.Second {
				return cli.UsageErrorf("--jobs is at least 1, and --every at least 1s")
			}
			return p.withDispatcher(cmd.Context(), at, func(ctx context.Context, d *dispatcher) error {
				for {
					running, err := d.look(ctx, jobs)
					if err != nil || once && running == 0 {
						return err
					}
					pause := every
					if once {
						pause, jobs = time.Second, 0 // nothing more is started
					}
					select {
					case <-ctx.Done():
						return ctx.Err()
					case <-time.After(pause):
					}
				}
			})
		},
	}
	at.add(cmd)
	cmd.Flags().BoolVar(&once, "once", false, "look once, wait for what was started, and end")
	cmd.Flags().DurationVar(&every, "every", 5*time.Second, "`TIME` between two looks")
	cmd.Flags().IntVar(&jobs, "jobs", 2, "`NUMBER` of workers at once")
	return cmd
}

// withDispatcher opens the board and a connection to a leader.
func (p *place) withDispatcher(ctx context.Context, at commitFlags, do func(context.Context, *dispatcher) error) error {
	return p.withBoard(func(b *board.Board, _ string) error {
		workers, err := worker.Load(b.FS())
		if err != nil {
			return err
		}
		for _, policy := range b.Config.WorkerPolicies {
			for _, name := range []string{policy.Default, policy.EscalateTo} {
				if _, err := worker.Find(workers, name); err != nil && name != "" {
					return err
				}
			}
		}
		d := &dispatcher{place: p, board: b, workers: workers, at: at}
		if d.leader, err = connect.Dial(ctx, p.env, connect.Options{Detach: true}); err != nil {
			return err
		}
		defer d.leader.Close()
		return do(ctx, d)
	})
}
