// Command bench measures the project's targets for speed, compared with other programs, and prints a table. BENCH.md explains
// each figure and its method. It is a module of its own, and measures the repository that it lies in:
//
//	go -C scripts/bench run . [--quick] [--json] [--only NAME,…] [--peers]
//
// --only measures some groups of figures, such as --only git,session: a wrong name is answered with all of them.
//
// Whole processes are run in turn, one of each kind a round, so that a machine whose speed drifts is fair to all; a
// figure is the median over the rounds, a ratio the median of the rounds' ratios. Code inside a process is
// measured by the packages' own Go benchmarks, which interleave in the same way. A missed target is shown and fails
// nothing: speed depends on the machine, and tests check counts that must never get worse.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	quick := flag.Bool("quick", false, "fewer rounds: about five minutes instead of fifteen, and less certain figures")
	asJSON := flag.Bool("json", false, "print one JSON object instead of a table")
	only := flag.String("only", "", "comma-separated groups of figures, such as git,session; all when it is empty")
	others := flag.Bool("peers", false, "only the engine, beside other engines that are on this machine or can be fetched")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "bench: unknown argument %q; see --help\n", flag.Arg(0))
		os.Exit(2)
	}
	if err := enterRepository(); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
	measure := func(ctx context.Context, quick, asJSON bool, out, progress io.Writer) error {
		return bench(ctx, quick, asJSON, *only, out, progress)
	}
	if *others {
		measure = benchPeers
	}
	err := measure(ctx, *quick, *asJSON, os.Stdout, os.Stderr)
	interrupted := ctx.Err() != nil
	stop()
	switch {
	case interrupted:
		fmt.Fprintln(os.Stderr, "bench: interrupted; nothing is left behind")
		os.Exit(130)
	case err != nil:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// enterRepository changes to the root of the repository: the nearest folder above this one that holds all three trees.
func enterRepository() error {
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "orchestrator", "engine")); err == nil {
			return os.Chdir(dir)
		}
		if dir == filepath.Dir(dir) {
			return errors.New("run it in the repository that it measures: go -C scripts/bench run .")
		}
		dir = filepath.Dir(dir)
	}
}

// plan says how often things are done.
type plan struct {
	calls   int    // rounds of short processes
	gits    int    // rounds of git and its skills
	floods  int    // rounds of processes that read a stream
	walks   int    // rounds of searches in a large tree
	events  int    // events to reconcile
	commits int    // raw commits to disk
	count   int    // rounds of Go benchmarks
	engine  string // which benchmarks of the engine
	points  int    // rounds of checkpoints
	batches int    // of exercises
	shown   int    // events of the run that the page shows
	trees   []int  // files of the sprites that are checkpointed
}

func bench(ctx context.Context, quick, asJSON bool, only string, out, progress io.Writer) (err error) {
	p := plan{calls: 300, gits: 60, floods: 15, walks: 11, events: 1_000_000, commits: 500, count: 5, engine: "BenchmarkEngine",
		points: 40, batches: 4, shown: 10_000, trees: []int{1_000, 10_000, 100_000}}
	if quick {
		p = plan{calls: 60, gits: 15, floods: 5, walks: 3, events: 200_000, commits: 100, count: 1, engine: "BenchmarkEngine/runs=(1|8)$",
			points: 10, batches: 1, shown: 10_000, trees: []int{1_000, 100_000}}
	}
	dir, err := os.MkdirTemp("", "lattice-bench-")
	if err != nil {
		return fmt.Errorf("make a folder to work in: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	if only == "" {
		minutes := map[bool]int{false: 15, true: 5}[quick]
		fmt.Fprintf(progress, "bench: this takes about %d minutes on two processors\n", minutes)
	}
	var r report
	groups, err := choose(only, []stage{
		{"skill", "a skill call", func() error { return r.add(skillCall(ctx, dir, p.calls)) }},
		{"stream", "the parser as a process", func() error { return r.add(parseProcess(ctx, dir, p.floods)) }},
		{"git", "git", func() error { return r.add(gitCalls(ctx, dir, p.gits)) }},
		{"search", "searching files", func() error { return r.add(searching(ctx, dir, p.walks)) }},
		{"session", "a call in a session", func() error { return r.add(sessionCall(ctx, dir, p.count)) }},
		{"reconcile", "reconciling", func() error { return r.add(reconcile(ctx, dir, p.events)) }},
		{"parser", "the parser", func() error { return r.add(parser(ctx, dir, p.count)) }},
		{"engine", "the engine", func() error { return r.add(engine(ctx, dir, p.engine)) }},
		{"flows", "flows", func() error { return r.add(flows(ctx, dir, min(p.count, 3))) }},
		{"sandboxes", "sandboxes", func() error { return r.add(sandboxes(ctx, dir, p.points)) }},
		{"checkpoints", "checkpoints", func() error { return r.add(checkpoints(ctx, dir, p.points, p.trees)) }},
		{"page", "the page and its events", func() error { return r.add(page(ctx, dir, p.shown, p.points)) }},
		{"lookups", "requests among many runs", func() error { return r.add(lookups(ctx, dir)) }},
		{"growth", "growth", func() error { return r.add(growth(ctx, dir)) }},
		{"tasks", "the page in a browser", func() error { return r.add(longTasks(ctx)) }},
		{"exercises", "tests in sprites", func() error { return r.add(exercises(ctx, dir, p.batches)) }},
		{"sizes", "sizes", func() error { return r.add(sizes(dir)) }},
	})
	if err != nil {
		return err
	}
	return r.write(out, asJSON, progress, append([]stage{
		{"", "build", func() error { return build(ctx, dir) }},
		{"", "the machine", func() (err error) { r.Machine, err = look(ctx, dir, p.commits); return err }},
	}, groups...))
}

// stage is a group of figures: its name for --only, its subject for the progress line, and its function.
type stage struct {
	name, what string
	run        func() error
}

// choose picks the stages that a list of names asks for, in their own order; all for an empty list.
func choose(only string, all []stage) (chosen []stage, err error) {
	if only == "" {
		return all, nil
	}
	var names []string
	for _, s := range all {
		names = append(names, s.name)
	}
	wanted := strings.Split(only, ",")
	for _, name := range wanted {
		if !slices.Contains(names, name) {
			return nil, fmt.Errorf("there is no group %q; --only takes %s", name, strings.Join(names, ", "))
		}
	}
	for _, s := range all {
		if slices.Contains(wanted, s.name) {
			chosen = append(chosen, s)
		}
	}
	return chosen, nil
}

// write runs the stages and prints their figures. It stops at the first failure and prints the figures until then.
func (r *report) write(out io.Writer, asJSON bool, progress io.Writer, stages []stage) (failed error) {
	for i, stage := range stages {
		fmt.Fprintf(progress, "bench: %d of %d: %s …\n", i+1, len(stages), stage.what)
		if err := stage.run(); err != nil {
			failed = fmt.Errorf("measure %s: %w", stage.what, err)
			break
		}
	}
	if failed != nil && len(r.Figures) == 0 {
		return failed
	}
	r.Machine.LoadAfter = load()
	if asJSON {
		enc := json.NewEncoder(out)
		enc.SetEscapeHTML(false)
		return errors.Join(failed, enc.Encode(r))
	}
	return errors.Join(failed, r.print(out))
}
