package sprite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
)

func newKillCmd(env *setup.Env) *cobra.Command {
	var signal string
	var timeout time.Duration
	var all bool
	cmd := &cobra.Command{
		Use: "kill NAME SESSION… | kill NAME --all", Short: "End commands that run in a sprite",
		Long: `End commands that run in a sprite, with all of their processes: send a signal, and kill them after the timeout. With
--timeout 0, only the signal is sent. A command that has ended already is not an error.
` + cli.ExitCodes,
		Example: "  lattice sprite kill box 17\n  lattice sprite kill box --all --signal INT --timeout 30s",
		Args: cli.Args(func(c *cobra.Command, list []string) error {
			switch {
			case len(list) == 0 || all && len(list) > 1:
				return errors.New("name a sprite, and sessions or --all")
			case !all && len(list) == 1:
				return fmt.Errorf("name the sessions to end, or use --all; lattice sprite sessions %s lists them", list[0])
			case timeout < 0:
				return errors.New("--timeout must not be negative")
			}
			return nil
		}),
		RunE: func(c *cobra.Command, list []string) error {
			return connect.WithSprites(c.Context(), env, func(ctx context.Context, client *sprites.Client) error {
				return killSessions(ctx, env.Console, client, list[0], list[1:], sprites.Kill{Signal: strings.ToUpper(signal), Timeout: timeout})
			})
		},
		ValidArgsFunction: completeSessions(env, 1<<10),
	}
	f := cmd.Flags()
	f.StringVarP(&signal, "signal", "s", "TERM", "the `SIGNAL`: INT, TERM, HUP, KILL, QUIT, USR1, USR2 …")
	f.DurationVar(&timeout, "timeout", 10*time.Second, "how long the commands may take to end")
	f.BoolVar(&all, "all", false, "end all commands that run in the sprite")
	return cmd
}

// endedSession is the result for one session.
type endedSession struct {
	Session  string `json:"session"`
	ExitCode *int   `json:"exit_code"` // null when it was signalled only, or had ended before
}

// killSessions ends the sessions that are named, or all.
func killSessions(ctx context.Context, console *cli.Console, c *sprites.Client, name string, ids []string, k sprites.Kill) error {
	if len(ids) == 0 {
		all, err := c.Sessions(ctx, name)
		if err != nil {
			return err
		}
		for _, s := range all {
			ids = append(ids, s.ID)
		}
	}
	results := []endedSession{}
	for _, id := range ids {
		code, err := c.KillSession(ctx, name, id, k)
		if errors.Is(err, sprites.ErrNotFound) {
			if _, gone := c.Get(ctx, name); gone == nil {
				return fault.NotFound("session_not_found", "no command runs in sprite %s as session %s", name, cli.Clean(id)).WithHint("lattice sprite sessions %s", name)
			}
		}
		if err != nil {
			return err
		}
		results = append(results, endedSession{id, code})
	}
	if console.JSON {
		return console.PrintJSON(results)
	}
	for _, r := range results {
		text := "signalled"
		if r.ExitCode != nil {
			text = fmt.Sprintf("ended with exit code %d", *r.ExitCode)
		}
		if _, err := fmt.Fprintf(console.Out, "%s  %s\n", cli.Clean(r.Session), text); err != nil {
			return err
		}
	}
	return nil
}
