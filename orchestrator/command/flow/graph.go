package flow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/compile"
	"github.com/spritekit/lattice/orchestrator/diagram"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sources"
	"github.com/spritekit/lattice/spritekit/fault"
)

type graphOptions struct {
	format, file string
	from         sources.Options
}

// graphFormats are the forms of a drawing, by the ending of a file's name.
var graphFormats = map[string]string{".txt": "text", ".mmd": "mermaid", ".mermaid": "mermaid", ".svg": "svg"}

func newGraphCmd(env *setup.Env) *cobra.Command {
	var o graphOptions
	cmd := &cobra.Command{
		Use:   "graph FILE",
		Short: "Draw a flow",
		Long: `Draw a flow as text, SVG or Mermaid. Edges show their conditions; "else" is the edge if no condition holds, and ↻ leads back.
With --json: {"format":…,"graph":…}. If the flow does not compile, the command ends with 2.
` + sources.Help + cli.ExitCodes,
		Example: "  lattice flow graph fix-and-propose\n  lattice flow graph flow.json -o flow.svg\n  lattice flow graph flow.json --format mermaid",
		Args:    cli.Args(cobra.ExactArgs(1)), ValidArgsFunction: sources.CompleteFlows,
		RunE: func(c *cobra.Command, list []string) error { return runGraph(c.Context(), env, o, list[0]) },
	}
	cmd.Flags().StringVar(&o.format, "format", "", "text (or ascii), mermaid or svg (default: from the extension of -o, else text)")
	cmd.Flags().StringVarP(&o.file, "output", "o", "", "write the drawing to `FILE`")
	o.from.AddFlags(cmd)
	_ = cmd.RegisterFlagCompletionFunc("format", cobra.FixedCompletions([]string{"text", "mermaid", "svg"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func runGraph(ctx context.Context, env *setup.Env, o graphOptions, arg string) error {
	format := o.format
	switch {
	case format == "ascii":
		format = "text"
	case format == "" && o.file != "":
		format = graphFormats[filepath.Ext(o.file)]
	}
	format = cmp.Or(format, "text")
	flow, err := sources.Compile(ctx, env, arg, o.from)
	if err != nil {
		return err
	}
	drawing, err := draw(flow, format)
	switch {
	case errors.Is(err, diagram.ErrTooLarge):
		return fault.Limit("graph_too_large", "%v", err).WithHint("lattice flow graph %s --format mermaid", arg)
	case err != nil:
		return err
	case o.file != "" && o.file != "-":
		if err := os.WriteFile(o.file, []byte(drawing), 0o644); err != nil {
			return fmt.Errorf("write drawing: %w", err)
		}
		return nil
	case env.JSON:
		return env.PrintJSON(map[string]string{"format": format, "graph": drawing})
	}
	if _, err := fmt.Fprint(env.Out, drawing); err != nil {
		return err
	}
	if env.Terminal && format == "text" && widest(drawing) > cli.TerminalWidth(env.Out) {
		fmt.Fprintf(env.Err, "The drawing has %d columns, more than this terminal.\n  try: lattice flow graph %s -o flow.svg\n", widest(drawing), arg)
	}
	return nil
}

// widest is the length of the longest line.
func widest(text string) int {
	most := 0
	for line := range strings.Lines(text) {
		most = max(most, utf8.RuneCountInString(strings.TrimRight(line, "\n")))
	}
	return most
}

func draw(flow *compile.Flow, format string) (string, error) {
	g := diagram.Of(flow.Program.Doc, flow.Labels())
	switch format {
	case "text":
		return g.Text()
	case "svg":
		return g.SVG()
	case "mermaid":
		return g.Mermaid(), nil
	}
	return "", fault.BadInput("format_unknown", "there is no format %q", cli.Clean(format)).WithHint("--format text, mermaid or svg")
}
