package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
)

func newFlowExplainCmd(d *deps) *cobra.Command {
	var from flowSources
	cmd := &cobra.Command{
		Use:   "explain FILE",
		Short: "Say in sentences what each step of a flow does",
		Long: `Say of each step what it does, what it reads and writes, which permissions it needs, who has to approve it and what
comes next. With --json an array of {"id","depth","op","does","reads","writes","needs","approval","next"}.
` + sourcesHelp + exitCodes,
		Example: "  lattice flow explain fix-and-propose\n  lattice flow explain plan.json --json",
		Args:    args(cobra.ExactArgs(1)), ValidArgsFunction: completeFlows,
		RunE: func(c *cobra.Command, list []string) error { return runFlowExplain(c.Context(), d, from, list[0]) },
	}
	from.addFlags(cmd)
	return cmd
}

func runFlowExplain(ctx context.Context, d *deps, from flowSources, arg string) error {
	flow, err := d.compileFlow(ctx, arg, from)
	if err != nil {
		return err
	}
	steps := flow.Explain()
	if d.json {
		return d.printJSON(steps)
	}
	if text := flow.Program.Doc.Description; text != "" {
		if _, err := fmt.Fprintln(d.out, clean(text)); err != nil {
			return err
		}
	}
	for _, s := range steps {
		var lines []string
		for line := range strings.Lines(s.Sentences()) {
			text := strings.TrimLeft(line, " ")
			lines = append(lines, line[:len(line)-len(text)]+clean(text)) // clean would take the indentation, too
		}
		if _, err := io.WriteString(d.out, strings.Join(lines, "\n")+"\n"); err != nil {
			return err
		}
	}
	return nil
}
