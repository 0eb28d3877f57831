// Command bench measures what the project promises about its speed, beside what anybody can compare it with, and prints a
// table. BENCH.md says what each figure means and why it is measured so. Run it in the repository's root:
//
//	go run ./scripts/bench [--quick] [--json] [--peers]
//
// Whole processes are run in turn, one of each kind a round, so that a machine whose speed drifts is fair to all; a
// figure is the median over the rounds, a ratio the median of the rounds' ratios. What happens inside a process is
// measured by the packages' own Go benchmarks, which interleave in the same way. A target that is missed is shown and
// fails nothing: speed depends on the machine, and what must never get worse is counted in tests instead.
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
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	quick := flag.Bool("quick", false, "fewer rounds: a minute instead of several, and less certain figures")
	asJSON := flag.Bool("json", false, "print one JSON object instead of a table")
	others := flag.Bool("peers", false, "only the engine, beside other engines that are on this machine or can be fetched")
	flag.Parse()
	if flag.NArg() > 0 {
		fmt.Fprintf(os.Stderr, "bench: unknown argument %q; see --help\n", flag.Arg(0))
		os.Exit(2)
	}
	measure := bench
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
	trees   []int  // files of the sprites that are checkpointed
}

func bench(ctx context.Context, quick, asJSON bool, out, progress io.Writer) (err error) {
	p := plan{calls: 300, gits: 60, floods: 15, walks: 11, events: 1_000_000, commits: 500, count: 5, engine: "BenchmarkEngine",
		points: 40, trees: []int{1_000, 10_000, 100_000}}
	if quick {
		p = plan{calls: 60, gits: 15, floods: 5, walks: 3, events: 200_000, commits: 100, count: 1, engine: "BenchmarkEngine/runs=(1|8)$",
			points: 10, trees: []int{1_000, 100_000}}
	}
	dir, err := os.MkdirTemp("", "lattice-bench-")
	if err != nil {
		return fmt.Errorf("make a folder to work in: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()

	var r report
	return r.write(out, asJSON, progress, []stage{
		{"build", func() error { return build(ctx, dir) }},
		{"the machine", func() (err error) { r.Machine, err = look(ctx, dir, p.commits); return err }},
		{"a skill call", func() error { return r.add(skillCall(ctx, dir, p.calls)) }},
		{"the parser as a process", func() error { return r.add(parseProcess(ctx, dir, p.floods)) }},
		{"git", func() error { return r.add(gitCalls(ctx, dir, p.gits)) }},
		{"searching files", func() error { return r.add(searching(ctx, dir, p.walks)) }},
		{"a call in a session", func() error { return r.add(sessionCall(ctx, dir, p.count)) }},
		{"reconciling", func() error { return r.add(reconcile(ctx, dir, p.events)) }},
		{"the parser", func() error { return r.add(parser(ctx, dir, p.count)) }},
		{"the engine", func() error { return r.add(engine(ctx, dir, p.engine)) }},
		{"flows", func() error { return r.add(flows(ctx, dir, min(p.count, 3))) }},
		{"sandboxes", func() error { return r.add(sandboxes(ctx, dir, p.points)) }},
		{"checkpoints", func() error { return r.add(checkpoints(ctx, dir, p.points, p.trees)) }},
		{"sizes", func() error { return r.add(sizes(dir)) }},
	})
}

type stage struct {
	name string
	run  func() error
}

// write runs the stages and prints what they found.
func (r *report) write(out io.Writer, asJSON bool, progress io.Writer, stages []stage) error {
	for _, stage := range stages {
		fmt.Fprintln(progress, "bench:", stage.name, "…")
		if err := stage.run(); err != nil {
			return fmt.Errorf("measure %s: %w", stage.name, err)
		}
	}
	r.Machine.LoadAfter = load()
	if asJSON {
		enc := json.NewEncoder(out)
		enc.SetEscapeHTML(false)
		return enc.Encode(r)
	}
	return r.print(out)
}
