package task

import (
	"cmp"
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

Workers are defined in .lattice/workers/*.toml; a file replaces the built-in worker of the same name. Built in are:

  CodeReviewLite    reviews a task that is in review          CodeReviewHeavy   the same by three agents, by hand or policy
  TestRunner        runs its tests                            PlanReviewLite    reviews the plan of a task in in_planning
  PlanReviewHeavy   the same by three agents, by hand         AutoTriage        chooses type, priority and labels in backlog
  StaleDetector     comments on tasks that have not moved for three days
  MergeQueue        merges one commit after the other into the branch lattice/merge-queue, by hand

MergeQueue verifies each merge in a fork of a sprite. A merge that is red or conflicts is left out, and the next one is tried without
it. The branch begins at the base branch; when you are content with it: git merge --ff-only lattice/merge-queue.

PlanReviewLite, AutoTriage and StaleDetector start by themselves only on boards that enable them, by {"workers": ["AutoTriage"]} in
.lattice/config.json. A plan is the description of a task and the newest artifact of the role plan.

  [worker]     name, description, actor (default: worker:NAME)
  [trigger]    on_status, missing_role: start when a task is in the status and has no artifact of the role;
               on_event = "comment_added": when such an event followed the last start; schedule = "0 9 * * 1-5": at these
               times; stale_hours: when the task has kept its status for so long; cooldown_minutes since its last end;
               retrigger = true also after a failure; manual_only = true; opt_in = true: only if config.json names it
  [execution]  engine: claude, codex, gemini, opencode, or script with command; flow (default: code-review); prompt_file, which
               is read from the base commit; worktree = true; timeout_minutes; merge = true: as MergeQueue does;
               place = "worktree": command runs on this machine, see below
  [output]     artifact_role, report_prefix, report_dir; apply = true: the outputs comment, priority, type and labels of the
               flow change the task

manifests/schema/worker.schema.json in the source of lattice describes these files to editors; $schema may name it.

With place = "worktree", the command runs with your rights in a git worktree of the commit on this machine, without a run or a
sprite. Confirm it first with lattice task trust. The command reads the prompt from standard input, and its output is the report. It
reads all files that you can read, but Landlock (Linux 5.13) lets it change only $TMPDIR, the files that its engine keeps in your home
folder, and writable = [".", "~/PATH", "/PATH"], where . is the worktree. The network is open to it, as for you.
Most variables of your environment are removed. When lattice worker ends, or at the timeout, lattice ends all programs that the
command started and removes the worktree. After a crash, the next lattice worker or lattice doctor --fix does so.

worker_policies in .lattice/config.json choose between two workers for a status, by labels, type and size of the change:

  {"worker_policies": {"review": {"default": "CodeReviewLite", "escalate_to": "CodeReviewHeavy",
    "escalate_when": {"labels": ["security"], "type": ["epic"], "diff_lines_gt": 500}}}}

Hooks and other programs ask for a worker by a file .lattice/queue/ID.json, or with lattice worker run --queue:

  {"id": "wq_01", "created_at": "2026-02-16T14:30:00Z", "task_id": "task_01", "worker": "CodeReviewLite", "status": "pending"}

commit_sha and trigger_event may be added. The status becomes claimed, and then completed or failed; a worker that
ends at once is not seen as claimed.

.lattice/logs/workers/EVENT.log is the log of the process that the event EVENT started, with the output of its run; lattice worker
ps --json lists it as log_path.

The run belongs to a leader in the background. A worker whose command was killed goes on; lattice worker watch, or the next
lattice worker run, records its end.`,
		Example: `  lattice worker run CodeReviewLite LAT-1
  lattice worker watch
  lattice worker ps`,
	})
	cmd.AddCommand(newWorkerListCmd(p), newWorkerRunCmd(p), newWorkerWatchCmd(p), newWorkerQueueCmd(p), newWorkerPsCmd(p))
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
				all, err := worker.Load(b.FS(), b.Config)
				if err != nil {
					return err
				}
				listed := make([]listedWorker, len(all))
				for i, d := range all {
					listed[i] = listedWorker{d, d.File, d.IsEnabled(b.Config)}
				}
				return cli.PrintTable(p.env.Console, listed, "WORKER\tTRIGGER\tFLOW\tENGINE\tFROM\tDESCRIPTION", func(w listedWorker) []any {
					trigger := w.Trigger.String()
					if !w.Enabled {
						trigger += " (not enabled)"
					}
					return []any{w.Worker.Name, trigger, cmp.Or(w.Execution.Flow, w.Execution.Place), orDash(w.Execution.Engine), cmp.Or(w.From, "built in"), orDash(w.Worker.Description)}
				})
			})
		},
	}
}

// listedWorker is a worker as lattice worker list prints it.
type listedWorker struct {
	worker.Definition
	From    string `json:"file,omitempty"` // "" for a built-in one
	Enabled bool   `json:"enabled"`        // its trigger counts
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
					names[t.ID] = t.Name()
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

func describeState(r board.ProcessRecord) string {
	switch {
	case r.EndedAt != "":
		return appendReason(fmt.Sprintf("%s after %.0f s", r.Result, r.Duration), r.Error)
	case worker.Late(r, time.Now()):
		return "beyond its timeout; lattice worker watch --once ends it"
	}
	return "running"
}

func newWorkerRunCmd(p *place) *cobra.Command {
	var at commitFlags
	var queue bool
	cmd := &cobra.Command{
		Use:   "run WORKER TASK",
		Short: "Run a worker on a task now, and wait for its report",
		Long: `Run a worker on a task without regard to its trigger. Uncommitted changes are not part of the work. Ctrl-C stops waiting; the run goes on
in the background. With --queue, the request is put into the queue for lattice worker watch, and the command ends; hooks, which have
ten seconds, use it.

Ends with 6 if the worker is running on this commit of the task, and with 1 if it fails.`,
		Example: "  lattice worker run CodeReviewLite LAT-1\n  lattice worker run CodeReviewLite LAT-1 --commit feature --base develop\n  lattice worker run TestRunner LAT-1 --queue\n  lattice worker run MergeQueue LAT-1 --commit feature --queue",
		Args:    cli.Args(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, list []string) error {
			if queue {
				if cmd.Flags().Changed("base") {
					return cli.UsageErrorf("--base is a flag of lattice worker watch for requests of the queue")
				}
				return p.enqueue(cmd.Context(), at, list[0], list[1])
			}
			return p.withDispatcher(cmd.Context(), at, func(ctx context.Context, d *dispatcher) error {
				w, err := worker.Find(d.workers, list[0])
				if err != nil {
					return err
				}
				t, err := d.board.Resolve(list[1])
				if err != nil {
					return err
				}
				if t, err = d.settleTask(ctx, t.ID); err != nil {
					return err
				}
				_, started, err := d.startWorker(ctx, w, worker.NewRequest(w.Worker.Name, t.ID, "", "", time.Now()), nil)
				if err != nil {
					if started.EventID != "" && ctx.Err() == nil {
						err = errors.Join(err, d.failProcess(ctx, started, err.Error()))
					}
					return err
				}
				fmt.Fprintf(p.env.Err, "lattice: %s works on %s at %s in %s\n", w.Worker.Name, t.Name(), cutCommit(started.Commit), cmp.Or(started.RunID, started.Worktree))
				ended, err := d.awaitEnd(ctx, w, started)
				if err != nil {
					return err
				}
				if p.env.JSON {
					if err := p.env.PrintJSON(ended); err != nil {
						return err
					}
				}
				if ended.Result == "failed" {
					return fault.Failed("worker_failed", "%s failed: %s", w.Worker.Name, ended.Error).WithHint("%s", hintAt(ended))
				}
				if p.env.JSON {
					return nil
				}
				if t, err = d.board.Resolve(t.ID); err != nil {
					return err
				}
				if !w.Output.HasReport() {
					_, err = fmt.Fprintf(cli.Sanitize(p.env.Out), "%s completed\n", w.Worker.Name)
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
	cmd.ValidArgsFunction = p.completeArgs(listWorkers, listTasks)
	cmd.Flags().BoolVar(&queue, "queue", false, "let lattice worker watch run it, and do not wait")
	return cmd
}

// hintAt says where the work of a process can be read.
func hintAt(r board.ProcessRecord) string {
	if r.RunID == "" {
		return "its output is in " + r.LogPath
	}
	return "lattice show " + r.RunID
}

// enqueue puts a request into the queue. The commit is resolved now, so that it is the one that the asker sees.
func (p *place) enqueue(ctx context.Context, at commitFlags, name, task string) error {
	return p.withBoard(func(b *board.Board, _ string) error {
		all, err := worker.Load(b.FS(), b.Config)
		if err != nil {
			return err
		}
		w, err := worker.Find(all, name)
		if err != nil {
			return err
		}
		t, err := b.Resolve(task)
		if err != nil {
			return err
		}
		d := &dispatcher{place: p, board: b}
		commit, err := d.findCommit(ctx, at.commit)
		if err != nil {
			return err
		}
		q := worker.NewRequest(w.Worker.Name, t.ID, commit, p.env.Getenv("LATTICE_EVENT_ID"), time.Now())
		if err := (worker.Queue{Board: b}).Add(q); err != nil {
			return err
		}
		return p.env.PrintResult(q, "%s", q.ID)
	})
}

func newWorkerQueueCmd(p *place) *cobra.Command {
	var all bool
	cmd := &cobra.Command{
		Use:   "queue",
		Short: "List the requests that wait or run; with --all also those that have ended",
		Long: `List the requests in .lattice/queue, the oldest first. A request that has ended is removed after a day. One that is pending is
withdrawn by removing its file.`,
		Example: "  lattice worker queue --all --json",
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			return p.withBoard(func(b *board.Board, _ string) error {
				list, problems, err := worker.Queue{Board: b}.List()
				if err != nil {
					return err
				}
				for _, problem := range problems {
					b.Warn(problem)
				}
				names := map[string]string{}
				tasks, err := b.Tasks()
				if err != nil {
					return err
				}
				for _, t := range tasks {
					names[t.ID] = t.Name()
				}
				list = slices.DeleteFunc(list, func(q worker.Request) bool { return q.Ended() && !all })
				return cli.PrintTable(p.env.Console, list, "REQUEST\tTASK\tWORKER\tCOMMIT\tCREATED\tSTATUS\tRUN", func(q worker.Request) []any {
					return []any{q.ID, cmp.Or(names[q.TaskID], q.TaskID), q.Worker, cutCommit(q.Commit), formatTime(q.CreatedAt), appendReason(q.Status, q.Error), orDash(q.RunID)}
				})
			})
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "also those that have ended")
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
		Long: `Look at the board and its queue again and again: start the requests of the queue and the workers that are due on the current
commit, attach the reports of those that have ended, and end those that are beyond their timeout. Several may watch the same
board; a worker is started once.

With --once it starts what is due, works off the queue, and ends.`,
		Example: "  lattice worker watch\n  lattice worker watch --once --jobs 1",
		Args:    cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if jobs < 1 || every < time.Second {
				return cli.UsageErrorf("--jobs is at least 1, and --every at least 1s")
			}
			return p.withDispatcher(cmd.Context(), at, func(ctx context.Context, d *dispatcher) error {
				return d.watchBoard(ctx, jobs, every, once)
			})
		},
	}
	at.add(cmd)
	cmd.Flags().BoolVar(&once, "once", false, "start what is due, work off the queue, and end")
	cmd.Flags().DurationVar(&every, "every", 5*time.Second, "`TIME` between two looks")
	cmd.Flags().IntVar(&jobs, "jobs", 2, "`NUMBER` of workers at once")
	return cmd
}

// withDispatcher opens the board and a connection to a leader.
func (p *place) withDispatcher(ctx context.Context, at commitFlags, do func(context.Context, *dispatcher) error) error {
	return p.withBoard(func(b *board.Board, _ string) error {
		workers, err := worker.Load(b.FS(), b.Config)
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
		d := &dispatcher{place: p, board: b, workers: workers, at: at, queue: worker.Queue{Board: b}, warned: map[string]bool{}, local: map[string]*localWork{}}
		if d.leader, err = connect.Dial(ctx, p.env, connect.Options{Detach: true}); err != nil {
			return err
		}
		defer d.leader.Close()
		if err := d.leader.Warn(ctx); err != nil {
			return err
		}
		err = do(ctx, d)
		return errors.Join(err, d.endLocal(ctx))
	})
}
