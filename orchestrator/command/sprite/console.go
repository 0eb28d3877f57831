package sprite

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

func newConsoleCmd(env *setup.Env) *cobra.Command {
	var o execOptions
	cmd := &cobra.Command{
		Use:   "console NAME",
		Short: "Open a shell in a sprite",
		Long: `Open an interactive shell in a sprite. Everything that you type goes to the shell, including Ctrl-C; the size of its terminal
follows that of yours. At the beginning of a line, ~. detaches and leaves the shell running, and ~? prints help.

Exit codes: that of the shell; 2 this is not a terminal, 3 no such sprite, 4 not allowed, 5 the connection was lost.`,
		Example: "  lattice sprite console box\n  lattice sprite console box --dir /workspace/repo",
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			if !cli.IsTerminal(env.In) {
				return cli.UsageErrorf("console needs a terminal as its input; to run commands without one: lattice sprite exec %s -- CMD", list[0])
			}
			if o.escape != "none" {
				fmt.Fprintf(env.Err, "shell in sprite %s; %s. at the beginning of a line detaches\n", list[0], o.escape)
			}
			o.tty, o.exec.Cmd = "true", []string{"sh", "-c", sprites.Shell}
			return runExec(c.Context(), env, list[0], o)
		},
	}
	o.addFlags(cmd)
	return cmd
}
