package sprite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/complete"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
)

func newSpriteSessionsCmd(env *setup.Env) *cobra.Command {
	return connect.NewSpriteCmd(env, "sessions NAME", "List the commands that run in a sprite", "  lattice sprite sessions box", 1, func(ctx context.Context, c *sprites.Client, list []string) error {
		all, err := c.Sessions(ctx, list[0])
		if err != nil {
			return err
		}
		if env.JSON {
			return env.PrintJSON(append([]sprites.Session{}, all...))
		}
		w := tabwriter.NewWriter(env.Out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "SESSION\tCOMMAND\tTTY\tAGE\tSILENT FOR")
		for _, s := range all {
			fmt.Fprintf(w, "%s\t%s\t%t\t%s\t%s\n", cli.Clean(s.ID), cli.Clean(s.Command), s.TTY, cli.Age(s.Created), cli.Age(s.LastActivity))
		}
		return w.Flush()
	})
}

func newSpriteAttachCmd(env *setup.Env) *cobra.Command {
	o := spriteExecOptions{tty: "false"} // the session's own is taken
	cmd := &cobra.Command{
		Use: "attach NAME [SESSION]", Short: "Join a command that runs in a sprite; its exit code is this one's",
		Long: `Join a command that runs in a sprite, the only one when none is named: what it said recently is shown, then what it says,
and what is typed here goes to it. Others may have joined it, too. It is what lattice sprite exec NAME --attach SESSION does.

Exit codes: the command's own; 2 bad usage, or several commands run; 3 no such sprite or session, 4 not allowed, 5 the
connection was lost and the command's end is not known, 130 given up.`,
		Example: "  lattice sprite attach box\n  lattice sprite attach box 17", Args: cli.Args(cobra.RangeArgs(1, 2)),
		RunE: func(c *cobra.Command, list []string) error {
			if len(list) == 2 {
				o.attach = list[1]
			} else if err := connect.WithSprites(c.Context(), env, func(ctx context.Context, client *sprites.Client) (err error) {
				o.attach, err = onlySession(ctx, client, list[0])
				return setup.ExplainSprite(err)
			}); err != nil {
				return err
			}
			return runSpriteExec(c.Context(), env, list[0], o)
		},
		ValidArgsFunction: completeSessions(env, 1),
	}
	o.addFlags(cmd)
	for _, flag := range []string{"dir", "env"} { // of new commands
		_ = cmd.Flags().MarkHidden(flag)
	}
	return cmd
}

// onlySession is the session of a sprite that has one.
func onlySession(ctx context.Context, c *sprites.Client, name string) (string, error) {
	all, err := c.Sessions(ctx, name)
	switch {
	case err != nil:
		return "", err
	case len(all) == 0:
		return "", fault.NotFound("session_not_found", "no command runs in sprite %s", name).WithHint("lattice sprite exec %s -- CMD", name)
	case len(all) > 1:
		return "", cli.UsageErrorf("%d commands run in %s: name one of those that lattice sprite sessions %s lists", len(all), name, name)
	}
	return all[0].ID, nil
}

func newSpriteKillCmd(env *setup.Env) *cobra.Command {
	var signal string
	var timeout time.Duration
	var all bool
	cmd := &cobra.Command{
		Use: "kill NAME SESSION… | kill NAME --all", Short: "End commands that run in a sprite",
		Long: `End commands that run in a sprite, with all their processes: by a signal, and for good when the time is over. With --timeout 0
they are only signalled. One that has ended already is no error.
` + cli.ExitCodes,
		Example: "  lattice sprite kill box 17\n  lattice sprite kill box --all --signal INT --timeout 30s",
		Args: cli.Args(func(c *cobra.Command, list []string) error {
			switch {
			case len(list) == 0 || all && len(list) > 1:
				return errors.New("kill takes the name of a sprite, and sessions or --all")
			case !all && len(list) == 1:
				return fmt.Errorf("name the sessions to end, or give --all; lattice sprite sessions %s lists them", list[0])
			case timeout < 0:
				return errors.New("--timeout is a duration from 0 on")
			}
			return nil
		}),
		RunE: func(c *cobra.Command, list []string) error {
			return connect.WithSprites(c.Context(), env, func(ctx context.Context, client *sprites.Client) error {
				return setup.ExplainSprite(killSessions(ctx, env.Console, client, list[0], list[1:], sprites.Kill{Signal: strings.ToUpper(signal), Timeout: timeout}))
			})
		},
		ValidArgsFunction: completeSessions(env, 1<<10),
	}
	f := cmd.Flags()
	f.StringVarP(&signal, "signal", "s", "TERM", "the `SIGNAL`: INT, TERM, HUP, KILL, QUIT, USR1, USR2 …")
	f.DurationVar(&timeout, "timeout", 10*time.Second, "how long they may take to end")
	f.BoolVar(&all, "all", false, "end all commands that run in the sprite")
	return cmd
}

// endedSession is what became of one session.
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

// completeSessions offers sprites, then up to so many sessions of one.
func completeSessions(env *setup.Env, most int) cobra.CompletionFunc {
	names := complete.Sprites(env)
	return func(c *cobra.Command, list []string, word string) ([]string, cobra.ShellCompDirective) {
		switch {
		case len(list) == 0:
			return names(c, list, word)
		case len(list) > most:
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(c.Context(), complete.Timeout)
		defer cancel()
		client, done := complete.PeekSprites(env)
		defer done()
		all, err := client.Sessions(ctx, list[0])
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var ids []string
		for _, s := range all {
			ids = append(ids, complete.Describe(s.ID, s.Command))
		}
		return ids, cobra.ShellCompDirectiveNoFileComp
	}
}
