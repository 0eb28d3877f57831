package sprite

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/complete"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/host/egress"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

func newPolicyCmd(env *setup.Env) *cobra.Command {
	cmd := cli.Group(&cobra.Command{Use: "policy", Short: "Show and change a sprite's network policy",
		Long: `Show and change what a sprite may reach over the network.

A rule is about a name (example.com), all names below it (*.example.com), all names (*), an address or a network
(203.0.113.0/24). An exact name takes precedence over *.name, and *.name over *. Anything that no rule allows is denied.
Private addresses and this machine can never be reached, except for the ports given with --host-port. Changes take effect at
once: connections that are no longer allowed are cut.

Behind a proxy (HTTPS_PROXY), the host still resolves each name, checks its addresses and asks the proxy to connect to one of
them. Therefore the host's DNS must know the name, and the proxy must accept CONNECT to an address.
` + cli.ExitCodes,
		Example: "  lattice sprite policy show box\n  lattice sprite policy allow box example.com '*.example.com'\n  lattice sprite policy denials box"})
	cmd.AddCommand(
		connect.NewSpriteCmd(env, "show NAME", "Show a sprite's network policy", "  lattice sprite policy show box --json", cobra.ExactArgs(1), func(ctx context.Context, c *sprites.Client, list []string) error {
			return showPolicy(ctx, env.Console, c, list[0])
		}),
		connect.NewSpriteCmd(env, "set NAME FILE", "Replace a sprite's network policy with a file, {\"rules\":[…]}", "  lattice sprite policy set box policy.json", cobra.ExactArgs(2), func(ctx context.Context, c *sprites.Client, list []string) error {
			return setPolicy(ctx, env.Console, c, list[0], list[1])
		}),
		newPolicyRuleCmd(env, "allow", "Allow a sprite to reach names"),
		newPolicyRuleCmd(env, "deny", "Deny a sprite access to names"),
		connect.NewSpriteCmd(env, "reset NAME", "Remove a sprite's own policy; the host's preset applies again", "  lattice sprite policy reset box", cobra.ExactArgs(1), func(ctx context.Context, c *sprites.Client, list []string) error {
			if err := c.Policies().ResetNetwork(ctx, list[0]); err != nil {
				return err
			}
			return showPolicy(ctx, env.Console, c, list[0])
		}),
		connect.MarkLasting(connect.NewSpriteCmd(env, "denials NAME", "List a sprite's denied network requests, newest first", "  lattice sprite policy denials box --json", cobra.ExactArgs(1), func(ctx context.Context, c *sprites.Client, list []string) error {
			return printDenials(ctx, env.Console, c, list[0])
		})),
	)
	complete.SpriteCommands(env, cmd)
	return cmd
}

// setPolicy replaces a policy by that of a file.
func setPolicy(ctx context.Context, console *cli.Console, c *sprites.Client, name, file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return cli.UsageErrorf("read the policy: %w", err)
	}
	rules, err := egress.Parse(data)
	if err != nil {
		return cli.UsageErrorf(`%s does not contain a policy such as {"rules":[{"domain":"example.com","action":"allow"}]}: %w`, file, err)
	}
	var p sprites.NetworkPolicy
	for _, r := range rules {
		p.Rules = append(p.Rules, sprites.NetworkRule{Domain: r.Domain, Action: string(r.Action), Include: r.Include})
	}
	if err := c.Policies().SetNetwork(ctx, name, p); err != nil {
		return err
	}
	return showPolicy(ctx, console, c, name)
}

// printDenials lists the denied attempts of a sprite.
func printDenials(ctx context.Context, console *cli.Console, c *sprites.Client, name string) error {
	all, err := c.Policies().Denials(ctx, name)
	if err != nil {
		return err
	}
	if console.JSON {
		return console.PrintJSON(all)
	}
	w := tabwriter.NewWriter(console.Out, 0, 0, 2, ' ', 0)
	for _, one := range all {
		target := cmp.Or(one.Name, one.Address)
		if one.Port != 0 {
			target = net.JoinHostPort(target, strconv.Itoa(one.Port))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d×\t%s\n", cli.Age(one.Time), one.Kind, cli.Clean(target), one.Code, one.Count, cli.Clean(one.Reason))
	}
	return w.Flush()
}

func newPolicyRuleCmd(env *setup.Env, action, short string) *cobra.Command {
	cmd := connect.NewSpriteCmd(env, action+" NAME DOMAIN…", short, "  lattice sprite policy "+action+" box example.com '*.example.com'", cobra.MinimumNArgs(2),
		func(ctx context.Context, c *sprites.Client, list []string) error {
			return addRules(ctx, env.Console, c, list[0], action, list[1:])
		})
	cmd.Long = short + ", in addition to its existing rules.\n" + cli.ExitCodes
	return cmd
}

// addRules puts rules about domains in place of those that there were about them.
func addRules(ctx context.Context, console *cli.Console, c *sprites.Client, name, action string, domains []string) error {
	p, err := c.Policies().Network(ctx, name)
	if err != nil {
		return err
	}
	if len(p.Rules) == 0 && action == "allow" {
		_, err := fmt.Fprintln(console.Err, "the sprite has no rules: everything public is allowed already")
		return err
	}
	if len(p.Rules) == 0 { // one rule more must not deny all the rest
		p.Rules = []sprites.NetworkRule{{Domain: "*", Action: "allow"}}
	}
	p.Rules = slices.DeleteFunc(p.Rules, func(r sprites.NetworkRule) bool { return slices.Contains(domains, r.Domain) })
	for _, domain := range domains {
		p.Rules = append(p.Rules, sprites.NetworkRule{Domain: domain, Action: action})
	}
	if err := c.Policies().SetNetwork(ctx, name, p); err != nil {
		return err
	}
	return showPolicy(ctx, console, c, name)
}

func showPolicy(ctx context.Context, console *cli.Console, c *sprites.Client, name string) error {
	s, err := c.Get(ctx, name)
	if err != nil {
		return err
	}
	p, err := c.Policies().Network(ctx, name)
	if err != nil {
		return err
	}
	if console.JSON {
		return console.PrintJSON(struct {
			sprites.NetworkPolicy
			Network *sprites.Network `json:"network,omitempty"`
		}{p, s.Network})
	}
	w := tabwriter.NewWriter(console.Out, 0, 0, 2, ' ', 0)
	if n := s.Network; n != nil {
		fmt.Fprintf(w, "policy\t%s\t%s\n", n.Preset, n.Enforcement)
		if n.Why != "" {
			fmt.Fprintf(w, "\t%s\n", cli.Clean(n.Why))
		}
	}
	if len(p.Rules) == 0 {
		fmt.Fprintln(w, "allow\teverything public")
	}
	for _, r := range p.Rules {
		if r.Include != "" {
			fmt.Fprintf(w, "include\t%s\n", cli.Clean(r.Include))
			continue
		}
		fmt.Fprintf(w, "%s\t%s\n", cli.Clean(r.Action), cli.Clean(r.Domain))
	}
	return w.Flush()
}
