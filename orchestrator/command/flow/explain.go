package flow

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sources"
)

func newExplainCmd(env *setup.Env) *cobra.Command {
	var from sources.Options
	cmd := &cobra.Command{
		Use:   "explain FILE",
		Short: "Explain in sentences what each step of a flow does",
		Long: `Explain for each step what it does, what it reads and writes, which permissions it needs, who has to approve it and what
comes next. With --json: an array of {"id","depth","op","does","reads","writes","needs","approval","next"}.
` + sources.Help + cli.ExitCodes,
		Example: "  lattice flow explain fix-and-propose\n  lattice flow explain plan.json --json",
		Args:    cli.Args(cobra.ExactArgs(1)), ValidArgsFunction: sources.CompleteFlows,
		RunE: func(c *cobra.Command, list []string) error { return runExplain(c.Context(), env, from, list[0]) },
	}
	from.AddFlags(cmd)
	return cmd
}

func runExplain(ctx context.Context, env *setup.Env, from sources.Options, arg string) error {
	flow, err := sources.Compile(ctx, env, arg, from)
	if err != nil {
		return err
	}
	steps := flow.Explain()
	if env.JSON {
		return env.PrintJSON(steps)
	}
	if text := flow.Program.Doc.Description; text != "" {
		if _, err := fmt.Fprintln(env.Out, cli.Clean(text)); err != nil {
			return err
		}
	}
	for _, s := range steps {
		var lines []string
		for line := range strings.Lines(s.Sentences()) {
			text := strings.TrimLeft(line, " ")
			lines = append(lines, line[:len(line)-len(text)]+cli.Clean(text)) // clean would take the indentation, too
		}
		if _, err := io.WriteString(env.Out, strings.Join(lines, "\n")+"\n"); err != nil {
			return err
		}
	}
	return nil
}
