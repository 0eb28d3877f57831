package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/spritekit/protocol"
)

// newProtocolCmd is the filters over the wire format: no store, no leader.
func newProtocolCmd() *cobra.Command {
	cmd := group(&cobra.Command{
		Use:   "protocol",
		Short: "Debug a sprite's event stream or outbox",
		Long: `Filters over what a sprite says. They read files or stdin, print one JSON object per line, and need neither
a run nor a leader.`,
	})
	cmd.AddCommand(newProtocolParseCmd(), newProtocolReconcileCmd())
	return cmd
}

func newProtocolParseCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "parse",
		Short: "Split a raw exec stdout stream into events, output and warnings",
		Long: `Reads the raw stdout of an exec from stdin and prints one JSON object per line, in the stream's order:

  {"kind":"event","event":{…},"legacy":false,"problems":[{"pointer":…,"message":…}]}
  {"kind":"output","text":…}
  {"kind":"warning","code":…,"line":N,"detail":…}

Events with problems are kept by every reader and acted on by none. A warning follows the output of its line:
no_event (the prefix, but no event) or line_cut (longer than 1 MiB). Memory is bounded; input that trickles is
printed line by line.

Exit codes: 0 ok, 1 the input could not be read or the output not written, 2 wrong usage.`,
		Example: `  lattice sprite exec dev -- /skills/test.run < input.json | lattice protocol parse
  lattice protocol parse < stdout.txt | jq 'select(.kind == "warning")'`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return parseStream(cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
}

func newProtocolReconcileCmd() *cobra.Command {
	var outbox, stream string
	cmd := &cobra.Command{
		Use:   "reconcile --outbox FILE [--stream FILE]",
		Short: "Merge an outbox with the stream of the same calls, each event once",
		Long: `Merges the outbox of a sprite (JSONL) with the raw stdout of its execs and prints every event once,
ascending by time, as {"source":"stream|outbox|both","event":{…}}. Events are the same by event_id; without one by
type, instant and payload, counted. The outbox copy wins.

A missing outbox file is an empty one. --stream - reads stdin. Lines that hold no event are told on stderr.

Exit codes: 0 ok, 1 a file could not be read, 2 wrong usage.`,
		Example: `  lattice protocol reconcile --outbox outbox.jsonl --stream stdout.txt
  lattice protocol reconcile --outbox outbox.jsonl | jq -r .event.event_type`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if outbox == "" {
				return usageError{errors.New("protocol reconcile needs --outbox FILE")}
			}
			return reconcileFiles(outbox, stream, cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&outbox, "outbox", "", "outbox `FILE`, one event per line (required)")
	cmd.Flags().StringVar(&stream, "stream", "", "raw stdout `FILE` of the same calls, - for stdin")
	return cmd
}

func parseStream(in io.Reader, out io.Writer) error {
	w := bufio.NewWriterSize(out, 64<<10)
	s := protocol.NewScanner(flushFirst{in, w})
	var rec protocol.Record
	var line []byte
	for {
		err := s.Read(&rec)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			// What came before the error was printed on the way to it.
			return errors.Join(fmt.Errorf("read the stream: %w", err), w.Flush())
		}
		if line, err = rec.AppendJSON(line[:0]); err != nil {
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

// flushFirst writes out what is buffered before it waits for more input: a trickle is shown line by line, a flood in
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

func reconcileFiles(outbox, stream string, in io.Reader, out, diagnosis io.Writer) error {
	var stored, shown []protocol.Event
	f, err := os.Open(outbox)
	switch {
	case errors.Is(err, fs.ErrNotExist): // a sprite that never emitted anything has none
	case err != nil:
		return fmt.Errorf("read the outbox: %w", err)
	default:
		defer f.Close()
		if stored, err = readEvents(protocol.NewOutboxScanner(f), outbox, diagnosis); err != nil {
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
		if shown, err = readEvents(protocol.NewScanner(in), stream, diagnosis); err != nil {
			return err
		}
	}
	w := bufio.NewWriter(out)
	var line []byte
	for _, m := range protocol.Reconcile(stored, shown) {
		line = append(m.AppendJSON(line[:0]), '\n')
		if _, err := w.Write(line); err != nil {
			return fmt.Errorf("write events: %w", err)
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write events: %w", err)
	}
	return nil
}

// readEvents keeps the events of s and tells what else is worth knowing on diagnosis.
func readEvents(s *protocol.Scanner, file string, diagnosis io.Writer) ([]protocol.Event, error) {
	var events []protocol.Event
	var rec protocol.Record
	for {
		err := s.Read(&rec)
		if errors.Is(err, io.EOF) {
			return events, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		switch rec.Kind {
		case protocol.KindEvent:
			events = append(events, rec.Event)
			for _, p := range rec.Problems {
				fmt.Fprintf(diagnosis, "%s:%d: %s %s\n", file, rec.Line, p.Pointer, p.Message)
			}
		case protocol.KindWarning:
			fmt.Fprintf(diagnosis, "%s:%d: %s: %s\n", file, rec.Line, rec.Code, rec.Detail)
		case protocol.KindOutput: // ordinary output is nobody's event
		}
	}
}
