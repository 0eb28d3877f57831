package travel

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

func newReplayCmd(env *setup.Env) *cobra.Command {
	var from string
	cmd := connect.NewQueryCmd(env, "replay [RUN]", "Replay a run from its journal alone, and compare the result",
		"  lattice replay run_0123\n  lattice events run_0123 --journal >run.jsonl\n  lattice replay run_0123 --from run.jsonl", cobra.MaximumNArgs(1),
		func(ctx context.Context, c *connect.Conn, list []string) error {
			var journal []lattice.Entry
			if from != "" {
				data, err := env.ReadNamed(ctx, from, maxJournal)
				if err != nil {
					return fault.BadInput("journal_unreadable", "read journal: %v", err)
				}
				if journal, err = readJournal(data); err != nil {
					return err
				}
			}
			out, err := c.Replay(ctx, cli.Optional(list), journal)
			if err != nil {
				return err
			}
			return printReplay(env.Console, out)
		})
	cmd.Long = `Replay a run from its journal alone: feed every fact to the program again and check that each step starts the same nodes,
makes the same calls and leads to the same state, byte for byte. Nothing is called, asked or written. The command names the
first difference: a changed input, result, edge, digest or program, or an entry that is missing, extra or out of order.

--from reads a journal as lattice events --journal prints it, instead of the stored one, and compares it with the run's
program and end. The command ends with 1 if the result differs.
` + cli.ExitCodes
	cmd.Flags().StringVar(&from, "from", "", "replay the journal in `FILE` instead of the stored one; - is standard input")
	return cmd
}

// maxJournal bounds a journal that is read from a file, in bytes.
const maxJournal = 256 << 20

// readJournal reads the lines of lattice events --journal. Events are not replayed.
func readJournal(data []byte) ([]lattice.Entry, error) {
	if len(data) > maxJournal {
		return nil, fault.Limit("journal_too_large", "read journal: more than %d bytes", maxJournal)
	}
	journal := []lattice.Entry{}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	for {
		var e lattice.Entry
		switch err := dec.Decode(&e); {
		case errors.Is(err, io.EOF):
			return journal, nil
		case err != nil:
			return nil, fault.BadInput("journal_unreadable", "read journal after %d entries: %v", len(journal), err).WithHint("lattice events RUN --journal prints one")
		case e.Kind == lattice.EntryFact:
			journal = append(journal, e)
		}
	}
}

func printReplay(console *cli.Console, r api.Replay) error {
	switch {
	case console.JSON:
		if err := console.PrintJSON(r); err != nil {
			return err
		}
	case r.OK:
		_, err := fmt.Fprintf(console.Out, "%s: %d facts lead to the same state, byte for byte (%s)\n", r.RunID, r.Facts, r.StateSum)
		return err
	}
	if r.OK {
		return nil
	}
	where := "at its end"
	switch x := r.Diverged; {
	case x.Seq == 0 && x.What == "program":
		where = "in what it runs"
	case x.Seq > 0:
		where = fmt.Sprintf("at entry %d (%s)", x.Seq, x.Fact)
		if x.Node != "" {
			where += " at node " + x.Node
		}
	}
	text := fmt.Sprintf("the replay of %s differs: %s, %s: %s", r.RunID, where, r.Diverged.What, r.Diverged.Message)
	if r.Diverged.Want != "" || r.Diverged.Got != "" {
		text += fmt.Sprintf(" (journal: %s; program: %s)", short([]byte(r.Diverged.Want)), short([]byte(r.Diverged.Got)))
	}
	return &cli.ExitError{Code: protocol.ExitFailed, Err: errors.New(cli.Clean(text))}
}
