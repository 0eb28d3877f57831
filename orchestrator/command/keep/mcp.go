package keep

import (
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/mcp"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/spritekit/fault"
)

// mcpTools lists the tools of lattice mcp; the last one needs --decide.
var mcpTools = []string{
	"sprite_list", "sprite_create", "sprite_fork", "sprite_checkpoint", "sprite_checkpoints", "sprite_restore", "sprite_remove", "sprite_exec",
	"file_list", "file_read", "file_write", "board_tasks", "board_move", "board_comment",
	"flow_list", "flow_run", "run_list", "run_show", "run_log", "run_cancel", "waiting_list", "run_decide",
}

func newMCPCmd(env *setup.Env) *cobra.Command {
	var o mcp.Options
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Offer sprites, flows and runs to an agent, as tools of the Model Context Protocol",
		Long: `Serve the Model Context Protocol on standard input and output, for an agent on this machine. Agents start this command
themselves; see the examples. It offers

  sprites   sprite_create, sprite_fork, sprite_checkpoint, sprite_checkpoints, sprite_restore, sprite_remove, sprite_exec, sprite_list
  files     file_read, file_write, file_list
  board     board_tasks, board_move, board_comment: the board of the folder, with the actor agent:mcp or $LATTICE_ACTOR
  runs      flow_list, flow_run, run_list, run_show, run_log, run_cancel, waiting_list

The tools follow the same settings and policy as the commands, and the audit log names the agent (lattice audit ls). A leader
in the background drives the runs, which outlive the agent; for a client with the extension Tasks, a run is a task.

An agent decides nothing by default: a run waits until you approve or answer it, and the agent only sees that it waits. With
--decide there is also run_decide, and a client that can ask its user does so. lattice cannot tell then whether the answer is
yours or the agent's. lattice serve --http offers the same tools at /mcp to callers with tokens, without the board and without
decisions. --tools offers fewer tools. An agent that has a shell of yours can run lattice approve without any tool.
` + cli.ExitCodes,
		Example: `  claude mcp add lattice -- lattice mcp
  codex mcp add lattice -- lattice mcp --tools 'sprite_*' --tools 'file_*'`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if in, ok := env.In.(*os.File); ok && cli.IsTerminal(in) {
				return cli.UsageErrorf("standard input is a terminal, and an agent is to start this command")
			}
			in, ok := env.In.(io.ReadCloser)
			if !ok {
				return fault.Internal("internal", "standard input cannot be closed")
			}
			server, err := mcp.New(env, o)
			if err != nil {
				return err
			}
			return server.Serve(cmd.Context(), in, nopCloser{env.Out})
		},
	}
	cmd.Flags().StringSliceVar(&o.Tools, "tools", nil, "offer only the tools that match the `PATTERN`, such as 'sprite_*'; repeatable")
	cmd.Flags().BoolVar(&o.Decide, "decide", false, "let the client approve, answer and reject in your name")
	_ = cmd.RegisterFlagCompletionFunc("tools", cobra.FixedCompletions(append([]string{"sprite_*", "file_*", "run_*"}, mcpTools...), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// nopCloser leaves standard output open: it is the process's.
type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
