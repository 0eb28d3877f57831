// Package fleet holds lattice fleet: the commands that compare sprites with a fleet file and make them as it declares. Begin with
// New. The leader compares and changes; the commands show, and ask before anything is removed.
package fleet

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/fleet"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// New returns lattice fleet.
func New(env *setup.Env) *cobra.Command {
	cmd := cli.Group(&cobra.Command{
		Use:   "fleet",
		Short: "Keep sprites as a file declares them",
		Long: `Keep sprites as a file declares them: fleet.toml next to the settings, or FILE.

  name = "site"                         # marks the fleet's sprites with a label

  [sprites.web]
  labels = ["purpose=repo-work"]        # in addition to others
  network = { include = ["defaults"], allow = ["db.example.com"] }
  url = "public"                        # or "sprite": with a token
  warm = true                           # wake it if it is cold
  image = "debian"                      # image, ram_mb, cpus and pids are those of a new sprite
  ram_mb = 2048

  [sprites.web.services.app]            # all of its services
  cmd = "npm"
  args = ["start"]
  http_port = 3000

  [sprites.old]
  exists = false

A member that is left out is not compared. A declared sprite that exists already joins the fleet. A sprite of the fleet that the
file no longer declares is removed, and so is a service. Sprites of runs, of other fleets and without a fleet are left alone; the last two
are reported as unmanaged.

lattice fleet apply can be repeated: if nothing differs, it changes nothing. Each change is an entry of the audit log (lattice audit
ls). With fleet = "5m" in [serve] of the settings, lattice serve applies fleet.toml every five minutes, except for
removals, which a person makes.`,
		Example: "  lattice fleet plan\n  lattice fleet apply site.toml\n  lattice fleet status --json",
	})
	cmd.AddCommand(newPlanCmd(env), newApplyCmd(env), newStatusCmd(env))
	return cmd
}

// newFleetCmd returns a command with an optional FILE.
func newFleetCmd(env *setup.Env, use, short, example string, do func(ctx context.Context, c *connect.Conn, file string, d fleet.Document) error) *cobra.Command {
	cmd := connect.NewQueryCmd(env, use+" [FILE]", short, example, cobra.MaximumNArgs(1), nil)
	cmd.RunE = func(c *cobra.Command, list []string) error {
		d, err := env.Fleet(cli.Optional(list)) // before a leader starts
		if err != nil {
			return err
		}
		conn, err := connect.Dial(c.Context(), env, connect.Options{})
		if err != nil {
			return err
		}
		defer conn.Close()
		return do(c.Context(), conn, cli.Optional(list), d)
	}
	cmd.ValidArgsFunction = cobra.FixedCompletions([]string{"toml"}, cobra.ShellCompDirectiveFilterFileExt)
	return cmd
}

func newPlanCmd(env *setup.Env) *cobra.Command {
	return newFleetCmd(env, "plan", "Show the changes that lattice fleet apply would make", "  lattice fleet plan\n  lattice fleet plan site.toml --json",
		func(ctx context.Context, c *connect.Conn, _ string, d fleet.Document) error {
			v, err := c.InspectFleet(ctx, d)
			if err != nil {
				return err
			}
			return printChanges(env.Console, v)
		})
}

func newStatusCmd(env *setup.Env) *cobra.Command {
	return newFleetCmd(env, "status", "List the sprites of the fleet, and those that no fleet has", "  lattice fleet status\n  lattice fleet status --json",
		func(ctx context.Context, c *connect.Conn, _ string, d fleet.Document) error {
			v, err := c.InspectFleet(ctx, d)
			if err != nil {
				return err
			}
			return cli.PrintTable(env.Console, v.Sprites, "NAME\tSTATUS\tFLEET\tAGE\tSEEN\tSTATE", func(s api.FleetSprite) []any {
				age, seen := "-", "never"
				if s.CreatedAt != nil {
					age = cli.Age(*s.CreatedAt)
				}
				if s.LastSeenAt != nil {
					seen = cli.Age(*s.LastSeenAt)
				}
				return []any{s.Name, s.Status, cmp.Or(s.Fleet, "-"), age, seen, describeState(v, s.Name)}
			})
		})
}

// describeState says how a sprite differs from its desired state.
func describeState(v api.FleetView, name string) string {
	n := 0
	for _, c := range v.Changes {
		switch {
		case c.Sprite != name:
		case c.Step == fleet.Unmanaged, c.Step == fleet.Remove:
			return string(c.Step)
		default:
			n++
		}
	}
	if n == 0 {
		return "as declared"
	}
	return cli.Count(n, "difference", "differences")
}

func newApplyCmd(env *setup.Env) *cobra.Command {
	var yes bool
	cmd := newFleetCmd(env, "apply", "Make sprites as a fleet file declares them", "  lattice fleet apply\n  lattice fleet apply site.toml --yes --json",
		func(ctx context.Context, c *connect.Conn, file string, d fleet.Document) error {
			return applyFile(ctx, env, c, file, d, yes)
		})
	cmd.Long = `Make sprites as a fleet file declares them. Changes that remove a sprite or a service are shown first, and made only if you
confirm them on a terminal, or with --yes. Otherwise the command makes the other changes and ends with 75. If a change fails,
the command makes the rest and ends with 1.
` + cli.ExitCodes
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "also make the changes that remove something, without asking")
	return cmd
}

// applyFile makes the changes of d, which was read from file; "" is the default.
func applyFile(ctx context.Context, env *setup.Env, c *connect.Conn, file string, d fleet.Document, yes bool) error {
	r := api.FleetRequest{Document: d, Remove: yes}
	before, err := c.InspectFleet(ctx, d)
	if err != nil {
		return err
	}
	if removes := slices.ContainsFunc(before.Changes, func(c api.FleetChange) bool { return c.Removes() }); removes && !yes && env.CanAsk() {
		if err := printChanges(env.Console, before); err != nil {
			return err
		}
		if r.Remove, err = cli.Confirm(ctx, env.Console, "Remove as well? [y/N] "); err != nil {
			return err
		}
		r.Digest = before.Digest
	}
	v, err := c.ApplyFleet(ctx, r)
	if err != nil {
		return err
	}
	if err := printChanges(env.Console, v); err != nil {
		return err
	}
	count := func(outcome string) (n int) {
		for _, c := range v.Changes {
			if c.Outcome == outcome {
				n++
			}
		}
		return n
	}
	if failed := count("failed"); failed > 0 {
		return &cli.ExitError{Code: protocol.ExitFailed}
	}
	if n := count("kept"); n > 0 {
		next := strings.TrimSpace("lattice fleet apply --yes " + file)
		fmt.Fprintf(env.Err, "%s left for you to confirm\n  next: %s\n", cli.Count(n, "removal is", "removals are"), next)
		return &cli.ExitError{Code: protocol.ExitWaiting}
	}
	if runs := slices.ContainsFunc(v.Sprites, func(s api.FleetSprite) bool { return s.Desired != nil && len(s.Desired.Services) > 0 }); runs && c.Leading != nil && env.RemoteSprites() == nil {
		connect.WarnOfEnding(env.Console)
	}
	return nil
}

// printChanges prints the changes, with their outcomes if they were made.
func printChanges(console *cli.Console, v api.FleetView) error {
	if console.JSON {
		return console.PrintJSON(v)
	}
	if len(v.Changes) > 0 {
		err := cli.PrintTable(console, v.Changes, "SPRITE\tSTEP\tSERVICE\tOUTCOME\tREASON", func(c api.FleetChange) []any {
			return []any{c.Sprite, c.Step, cmp.Or(c.Service, "-"), cmp.Or(c.Outcome, "-"), cmp.Or(c.Error, c.Reason)}
		})
		if err != nil {
			return err
		}
	}
	if !slices.ContainsFunc(v.Changes, func(c api.FleetChange) bool { return c.Acts() }) {
		fmt.Fprintln(console.Err, "nothing to change: the sprites are as declared")
	}
	return nil
}
