package keep

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/board"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/reconcile"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// newProtocolCmd is the filters over the wire format: no store, no leader.
func newProtocolCmd() *cobra.Command {
	cmd := cli.Group(&cobra.Command{
		Use:   "protocol",
		Short: "Debug a sprite's event stream or outbox, or the events of a task",
		Long: `Filters for the output of a sprite and the files of a board. They read files or standard input, print one JSON object per line, and need neither a
run nor a leader.`,
		Example: "  lattice protocol parse < stdout.txt\n  lattice protocol reconcile --outbox outbox.jsonl --stream stdout.txt",
	})
	cmd.AddCommand(newProtocolParseCmd(), newProtocolReconcileCmd(), newProtocolFoldCmd())
	return cmd
}

func newProtocolParseCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "parse",
		Short: "Split a raw exec stdout stream into events, output and warnings",
		Long: `Read the raw standard output of an exec from standard input, and print one JSON object per line, in the order of the stream:

  {"kind":"event","event":{…},"legacy":false,"problems":[{"pointer":…,"message":…}]}
  {"kind":"output","text":…}
  {"kind":"warning","code":…,"line":N,"detail":…}

Readers keep events with problems but do not act on them. A warning follows the output of its line: no_event (the prefix
without an event) or line_cut (longer than 1 MiB). The use of memory is bounded, and lines are printed as they arrive.

Exit codes: 0 ok, 1 reading or writing failed, 2 wrong usage.`,
		Example: `  lattice sprite exec dev -- /skills/test.run < input.json | lattice protocol parse
  lattice protocol parse < stdout.txt | jq 'select(.kind == "warning")'`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			endOnSignals()
			return parseStream(cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}

func newProtocolReconcileCmd() *cobra.Command {
	var outbox, stream string
	cmd := &cobra.Command{
		Use:   "reconcile --outbox FILE [--stream FILE]",
		Short: "Merge an outbox with the stream of the same calls, each event once",
		Long: `Merge the outbox of a sprite (JSONL) with the raw standard output of its execs, and print every event once,
ascending by time, as {"source":"stream|outbox|both","event":{…}}. Events are the same by event_id; without one by
type, instant and payload, counted. The outbox copy wins.

A missing outbox file is an empty one. --stream - reads stdin. Lines that hold no event are told on stderr. Memory is
bounded: what is large goes to temporary files in $TMPDIR, which vanish with the process.

Exit codes: 0 ok, 1 reading or writing failed, 2 wrong usage.`,
		Example: `  lattice protocol reconcile --outbox outbox.jsonl --stream stdout.txt
  lattice protocol reconcile --outbox outbox.jsonl | jq -r .event.event_type`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if outbox == "" {
				return cli.UsageErrorf("protocol reconcile needs --outbox FILE")
			}
			endOnSignals()
			return reconcileFiles(outbox, stream, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&outbox, "outbox", "", "outbox `FILE`, one event per line (required)")
	cmd.Flags().StringVar(&stream, "stream", "", "raw stdout `FILE` of the same calls, - for stdin")
	return cmd
}

func newProtocolFoldCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "fold FILE",
		Short: "Fold the events of a task into the task",
		Long: `Read the events of a task (JSON Lines; - is standard input) and print the task as one JSON object: its status, artifacts
and active_processes. Events of several tasks give one object per task, in the order in which they appear. Lines that hold no
event, or one that does not fit the task, are told on stderr and skipped.

Exit codes: 0 ok, 1 reading or writing failed, 2 wrong usage.`,
		Example: "  lattice protocol fold .lattice/events/task_01JD0000000000000000000000.jsonl | jq .active_processes",
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, list []string) error {
			endOnSignals()
			in := cmd.InOrStdin()
			if list[0] != "-" {
				f, err := os.Open(list[0])
				if err != nil {
					return fmt.Errorf("read the events: %w", err)
				}
				defer f.Close()
				in = f
			}
			return foldEvents(in, cmd.OutOrStdout(), cmd.ErrOrStderr(), list[0])
		},
	}
}

func foldEvents(in io.Reader, out, diagnosis io.Writer, file string) error {
	var order []*board.Task
	tasks := map[string]*board.Task{}
	problems, err := board.ReadEvents(in, func(e board.Event) error {
		t := tasks[e.TaskID]
		if t == nil {
			t = board.NewTask(e.TaskID)
			tasks[e.TaskID] = t
			order = append(order, t)
		}
		return t.Apply(e)
	})
	for _, p := range problems {
		fmt.Fprintf(cli.Sanitize(diagnosis), "%s: %s\n", file, p)
	}
	w := cli.NewEncoder(out)
	for _, t := range order {
		err = errors.Join(err, w.Encode(t))
	}
	return err
}

// endOnSignals gives signals back their own effect. A filter has nothing to put in order, and its reads cannot be
// called off.
func endOnSignals() { signal.Reset(os.Interrupt, syscall.SIGTERM) }

func parseStream(in io.Reader, out io.Writer) error {
	w := bufio.NewWriterSize(out, 256<<10)
	s := protocol.NewScanner(flushFirst{in, w})
	var rec protocol.Record
	for {
		err := s.Read(&rec)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			// The records before the error are already printed.
			return errors.Join(fmt.Errorf("read the stream: %w", err), w.Flush())
		}
		line, err := rec.AppendJSON(w.AvailableBuffer())
		if err != nil {
			return err
		}
		if _, err := w.Write(append(line, '\n')); err != nil {
			return fmt.Errorf("write records: %w", err)
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write records: %w", err)
	}
	return nil
}

// flushFirst writes out its buffer before it waits for more input: a trickle is shown line by line, a flood in
// large pieces.
type flushFirst struct {
	io.Reader
	w *bufio.Writer
}

func (f flushFirst) Read(p []byte) (int, error) {
	if err := f.w.Flush(); err != nil {
		return 0, fmt.Errorf("write records: %w", err)
	}
	return f.Reader.Read(p)
}

func reconcileFiles(outbox, stream string, in io.Reader, out, diagnosis io.Writer) (err error) {
	m := reconcile.New("")
	defer func() { err = errors.Join(err, m.Close()) }()
	f, err := os.Open(outbox)
	switch {
	case errors.Is(err, fs.ErrNotExist): // a sprite that never emitted anything has none
	case err != nil:
		return fmt.Errorf("read the outbox: %w", err)
	default:
		defer f.Close()
		if err := readEvents(protocol.NewOutboxScanner(f), m.AddOutbox, outbox, diagnosis); err != nil {
			return err
		}
	}
	if stream != "" && stream != "-" {
		f, err := os.Open(stream)
		if err != nil {
			return fmt.Errorf("read the stream: %w", err)
		}
		defer f.Close()
		in = f
	}
	if stream != "" {
		if err := readEvents(protocol.NewScanner(in), m.AddStream, stream, diagnosis); err != nil {
			return err
		}
	}
	w := bufio.NewWriterSize(out, 64<<10)
	if err := m.Each(func(e reconcile.Merged) error {
		if _, err := w.Write(append(e.AppendJSON(w.AvailableBuffer()), '\n')); err != nil {
			return fmt.Errorf("write events: %w", err)
		}
		return nil
	}); err != nil {
		return err
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write events: %w", err)
	}
	return nil
}

// readEvents adds the events of s and prints other findings to diagnosis.
func readEvents(s *protocol.Scanner, add func(protocol.Event) error, file string, diagnosis io.Writer) error {
	w := bufio.NewWriter(diagnosis)
	defer w.Flush() // an error here cannot be reported
	var rec protocol.Record
	for {
		err := s.Read(&rec)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read events: %w", err)
		}
		switch rec.Kind {
		case protocol.KindEvent:
			if err := add(rec.Event); err != nil {
				return err
			}
			for _, p := range rec.Problems {
				fmt.Fprintf(w, "%s:%d: %s %s\n", file, rec.Line, p.Pointer, p.Message)
			}
		case protocol.KindWarning:
			fmt.Fprintf(w, "%s:%d: %s: %s\n", file, rec.Line, rec.Code, rec.Detail)
		case protocol.KindOutput: // ordinary output is not an event
		}
	}
}
