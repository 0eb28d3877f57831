package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
)

func newSpriteSessionsCmd(d *deps) *cobra.Command {
	return d.spriteCmd("sessions NAME", "List the commands that run in a sprite", "  lattice sprite sessions box", 1, func(ctx context.Context, c *sprites.Client, list []string) error {
		all, err := c.Sessions(ctx, list[0])
		if err != nil {
			return err
		}
		if d.json {
			return d.printJSON(append([]sprites.Session{}, all...))
		}
		w := tabwriter.NewWriter(d.out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "SESSION\tCOMMAND\tTTY\tAGE\tSILENT FOR")
		for _, s := range all {
			fmt.Fprintf(w, "%s\t%s\t%t\t%s\t%s\n", clean(s.ID), clean(s.Command), s.TTY, age(s.Created), age(s.LastActivity))
		}
		return w.Flush()
	})
}

func newSpriteAttachCmd(d *deps) *cobra.Command {
	o := spriteExecOptions{tty: "false"} // the session's own is taken
	cmd := &cobra.Command{
		Use: "attach NAME [SESSION]", Short: "Join a command that runs in a sprite; its exit code is this one's",
		Long: `Join a command that runs in a sprite, the only one when none is named: what it said recently is shown, then what it says,
and what is typed here goes to it. Others may have joined it, too. It is what lattice sprite exec NAME --attach SESSION does.

Exit codes: the command's own; 2 bad usage, or several commands run; 3 no such sprite or session, 4 not allowed, 5 the
connection was lost and the command's end is not known, 130 given up.`,
		Example: "  lattice sprite attach box\n  lattice sprite attach box 17", Args: args(cobra.RangeArgs(1, 2)),
		RunE: func(c *cobra.Command, list []string) error {
			if len(list) == 2 {
				o.attach = list[1]
			} else if err := d.withSprites(c.Context(), func(ctx context.Context, client *sprites.Client) (err error) {
				o.attach, err = onlySession(ctx, client, list[0])
				return spriteProblem(err)
			}); err != nil {
				return err
			}
			return runSpriteExec(c.Context(), d, list[0], o)
		},
		ValidArgsFunction: completeSessions(d, 1),
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
		return "", usageError{fmt.Errorf("%d commands run in %s: name one of those that lattice sprite sessions %s lists", len(all), name, name)}
	}
	return all[0].ID, nil
}

func newSpriteKillCmd(d *deps) *cobra.Command {
	var signal string
	var timeout time.Duration
	var all bool
	cmd := &cobra.Command{
		Use: "kill NAME SESSION… | kill NAME --all", Short: "End commands that run in a sprite",
		Long: `End commands that run in a sprite, with all their processes: by a signal, and for good when the time is over. With --timeout 0
they are only signalled. One that has ended already is no error.
` + exitCodes,
		Example: "  lattice sprite kill box 17\n  lattice sprite kill box --all --signal INT --timeout 30s",
		Args: args(func(c *cobra.Command, list []string) error {
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
			return d.withSprites(c.Context(), func(ctx context.Context, client *sprites.Client) error {
				return spriteProblem(d.killSessions(ctx, client, list[0], list[1:], sprites.Kill{Signal: strings.ToUpper(signal), Timeout: timeout}))
			})
		},
		ValidArgsFunction: completeSessions(d, 1<<10),
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
func (d *deps) killSessions(ctx context.Context, c *sprites.Client, name string, ids []string, k sprites.Kill) error {
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
				return fault.NotFound("session_not_found", "no command runs in sprite %s as session %s", name, clean(id)).WithHint("lattice sprite sessions %s", name)
			}
		}
		if err != nil {
			return err
		}
		results = append(results, endedSession{id, code})
	}
	if d.json {
		return d.printJSON(results)
	}
	for _, r := range results {
		text := "signalled"
		if r.ExitCode != nil {
			text = fmt.Sprintf("ended with exit code %d", *r.ExitCode)
		}
		if _, err := fmt.Fprintf(d.out, "%s  %s\n", clean(r.Session), text); err != nil {
			return err
		}
	}
	return nil
}

// completeSessions offers sprites, then up to so many sessions of one.
func completeSessions(d *deps, most int) cobra.CompletionFunc {
	names := completeSprites(d)
	return func(c *cobra.Command, list []string, word string) ([]string, cobra.ShellCompDirective) {
		switch {
		case len(list) == 0:
			return names(c, list, word)
		case len(list) > most:
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(c.Context(), completeWait)
		defer cancel()
		client, done := d.peekSprites()
		defer done()
		all, err := client.Sessions(ctx, list[0])
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		var ids []string
		for _, s := range all {
			ids = append(ids, described(s.ID, s.Command))
		}
		return ids, cobra.ShellCompDirectiveNoFileComp
	}
}
