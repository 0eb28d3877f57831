package sprite

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
)

func newURLCmd(env *setup.Env) *cobra.Command {
	var open string
	var login, address bool
	cmd := connect.MarkLasting(connect.NewSpriteCmd(env, "url NAME", "Print the URL of a sprite", "  curl \"$(lattice sprite url box --open public)\"\n  xdg-open \"$(lattice sprite url box --login)\"\n  wget -qO- \"$(lattice sprite url box --address --open public)\"", cobra.ExactArgs(1), func(ctx context.Context, c *sprites.Client, list []string) error {
		switch open {
		case "", "sprite", "public":
		default:
			return cli.UsageErrorf("--open must be public or sprite, not %q", open)
		}
		return showURL(ctx, env.Console, c, list[0], open, login, address)
	}))
	cmd.Long = `Print the URL of a sprite, which leads to its service with an HTTP port, or else to its port 8080. A request wakes the sprite
and starts its services.

On the embedded host, the URL is http://NAME.localhost:PORT/, which browsers and curl resolve without a name server. Programs
that resolve names with the C library need nss-myhostname (lattice doctor checks this); --address prints a URL that works
with all programs, such as http://127.93.4.17:PORT/, and stays the same for the sprite. Both work while a leader is running,
such as lattice serve. Requests need a token, as Authorization: Bearer, unless --open public has opened the URL to everyone on
this machine. --login prints a URL that signs a browser in, once, within five minutes. --json prints all of them.
` + cli.ExitCodes
	cmd.Flags().StringVar(&open, "open", "", "`WHO` may open it from now on: public, or sprite for everyone with a token")
	cmd.Flags().BoolVar(&login, "login", false, "print a URL that signs a browser in")
	cmd.Flags().BoolVar(&address, "address", false, "print the URL with an address of the sprite's own, for programs that do not know NAME.localhost")
	_ = cmd.RegisterFlagCompletionFunc("open", cobra.FixedCompletions([]string{"public", "sprite"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

func showURL(ctx context.Context, console *cli.Console, c *sprites.Client, name, open string, login, address bool) error {
	if open != "" {
		if _, err := c.URLs().SetAuth(ctx, name, open); err != nil {
			return err
		}
	}
	s, err := c.Get(ctx, name)
	if err != nil {
		return err
	}
	if s.URL == "" {
		return fault.Unsupported("no_url", "this host serves no URLs of sprites").WithHint("lattice sprite proxy %s 8080", name)
	}
	access := sprites.URLAccess{URL: s.URL, Auth: "sprite"}
	if s.URLSettings != nil && s.URLSettings.Auth != "" {
		access.Auth = s.URLSettings.Auth
	}
	if address || !c.Remote() && (login || console.JSON) {
		if access, err = c.URLs().Invite(ctx, name, address); err != nil {
			var refused *sprites.APIError
			known := errors.As(err, &refused)
			switch {
			case known && address && (refused.Status == 404 || refused.Status == 405):
				return fault.Unsupported("no_address", "this host gives sprites no addresses of their own").WithHint("lattice sprite url %s", name)
			case known && !address && (refused.Status == 404 || refused.Status == 501):
				return fault.Unsupported("no_login", "this host signs nobody in").WithHint("send its token as Authorization: Bearer")
			}
			return err
		}
	}
	switch {
	case console.JSON:
		return console.PrintJSON(access)
	case login && access.Login == "":
		return fault.Unsupported("no_login", "remote sprites take the token of the API").WithHint(`curl -H "Authorization: Bearer $SPRITES_TOKEN" %s`, s.URL)
	case login:
		_, err = fmt.Fprintln(console.Out, access.Login)
	default:
		_, err = fmt.Fprintln(console.Out, access.URL)
	}
	return err
}
