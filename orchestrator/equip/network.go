// Package equip decides what a new sprite gets: image, tools of this machine, skills, network and limits. Each has its flags,
// its settings, and rules for combinations that are refused.
package equip

import (
	"cmp"
	"context"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/spf13/cobra"
	"golang.org/x/net/http/httpproxy"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/host/core"
	"github.com/spritekit/lattice/orchestrator/host/egress"
	"github.com/spritekit/lattice/orchestrator/leader/home"
	"github.com/spritekit/lattice/orchestrator/leader/skillset"
	"github.com/spritekit/lattice/orchestrator/settings"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Options are the flags for the network and the skills of a new sprite.
type Options struct {
	Network   NetworkOptions
	Spritekit string
}

func (o *Options) AddFlags(cmd *cobra.Command) {
	AddSpritekitFlag(cmd, &o.Spritekit, "the new sprite")
	o.Network.AddFlags(cmd, "the new sprite reaches")
}

func AddSpritekitFlag(cmd *cobra.Command, path *string, whose string) {
	cmd.Flags().StringVar(path, "spritekit", "", "`PATH` of the spritekit that "+whose+" gets (default: next to lattice, else on PATH)")
}

// Check refuses flags that cannot take effect: on an existing sprite, and for sprites of a remote service, which are
// given a spritekit all the same.
func (o *Options) Check(env *setup.Env, sprite string) error {
	if _, err := BuildNetwork(env, o.Network); err != nil {
		return err
	}
	asks := o.Network.Preset != "" || len(o.Network.hostPorts) > 0
	switch {
	case asks && env.RemoteSprites() != nil:
		return fault.Unsupported("network_is_local", "--network and --host-port work with the embedded host only; the network of remote sprites is up to their service").WithHint("leave them out, and see lattice sprite policy allow --help")
	case asks && sprite != "":
		return fault.BadInput("network_of_sprite", "--network and --host-port take effect when a sprite is created, and %s already exists", sprite).WithHint("leave out --sprite, or change the sprite's policy: lattice sprite policy allow %s …", sprite)
	case o.Spritekit != "" && sprite != "":
		return fault.BadInput("spritekit_of_sprite", "--spritekit takes effect when a sprite is created, and %s already exists", sprite).WithHint("leave out --sprite, or create another sprite: lattice sprite create NAME --spritekit %s", o.Spritekit)
	case o.Spritekit != "":
		_, err := skillset.FindSpritekit(o.Spritekit, env.Exe, "")
		return err
	}
	return nil
}

// Path is the spritekit that was named, absolute; "" for none.
func (o *Options) Path() string {
	if o.Spritekit == "" {
		return ""
	}
	path, err := filepath.Abs(o.Spritekit)
	if err != nil {
		return o.Spritekit
	}
	return path
}

// SelectShownSpritekit is the spritekit that the embedded host shows a new sprite; a remote one is sent it.
func SelectShownSpritekit(env *setup.Env, o Options) string {
	if env.RemoteSprites() != nil {
		return ""
	}
	return o.Path()
}

// HostPorts are those that a sprite keeps which is made by hand; nil, unless a flag names one, so that it follows the
// settings.
func (o *Options) HostPorts(ctx context.Context, env *setup.Env) []uint16 {
	if len(o.Network.hostPorts) == 0 {
		return nil
	}
	_, ports := ChooseReach(ctx, env, nil, o.Network)
	return ports
}

// ChooseReach returns the network that a new sprite keeps: from flags, from those of lattice serve, or from the settings. A
// "" and a nil leave it to the host. A nil leader is asked over a connection of its own.
func ChooseReach(ctx context.Context, env *setup.Env, leader *api.Client, o NetworkOptions) (preset string, ports []uint16) {
	if env.RemoteSprites() != nil {
		return "", nil
	}
	if leader == nil {
		leader = api.NewClient(home.Home(env.Home).Socket())
		defer leader.Close()
	}
	told, err := leader.Hello(ctx)
	if err != nil {
		told = api.Hello{} // the next request fails for the same reason, and reports it
	}
	ports = append([]uint16{}, told.HostPorts...)
	for _, p := range env.Settings.HostPorts {
		ports = append(ports, uint16(p)) // checked by settings
	}
	ports = append(ports, o.Ports()...)
	slices.Sort(ports)
	return cmp.Or(o.Preset, told.Network, string(env.Settings.Network), string(egress.Defaults)), slices.Compact(ports)
}

// NetworkOptions are the flags for the network of sprites of the embedded host.
type NetworkOptions struct {
	Preset    string
	hostPorts []uint
}

// AddFlags adds the flags; who completes their sentences, such as "the new sprite reaches".
func (o *NetworkOptions) AddFlags(cmd *cobra.Command, who string) {
	cmd.Flags().StringVar(&o.Preset, "network", "", "what "+who+": defaults (registries, forges, models), none or open (default: the setting network, else defaults)")
	cmd.Flags().UintSliceVar(&o.hostPorts, "host-port", nil, "`PORT` of this machine's loopback interface that it reaches at "+egress.HostName+" (repeatable; adds to the setting host_ports)")
	cmd.Flags().Lookup("host-port").DefValue = "" // else help prints an empty list
	completeNetwork(cmd)
}

// Ports are the host ports; network has checked them.
func (o *NetworkOptions) Ports() (list []uint16) {
	for _, p := range o.hostPorts {
		list = append(list, uint16(p))
	}
	return list
}

func completeNetwork(cmd *cobra.Command) {
	_ = cmd.RegisterFlagCompletionFunc("network", cobra.FixedCompletions(settings.Networks(), cobra.ShellCompDirectiveNoFileComp))
}

// BuildNetwork returns the network of sprites, from flags, settings and the proxy that the environment names.
func BuildNetwork(env *setup.Env, o NetworkOptions) (core.Network, error) {
	n := core.Network{Preset: egress.Preset(cmp.Or(o.Preset, string(env.Settings.Network), string(egress.Defaults))), Upstream: egress.Direct()}
	if !n.Preset.Valid() {
		return n, cli.UsageErrorf("--network must be defaults, none or open, not %q", o.Preset)
	}
	for _, p := range env.Settings.HostPorts {
		n.HostPorts = append(n.HostPorts, uint16(p)) // checked by settings
	}
	for _, p := range o.hostPorts {
		if p == 0 || p > 65535 {
			return n, cli.UsageErrorf("--host-port must be a number from 1 to 65535, not %d", p)
		}
		n.HostPorts = append(n.HostPorts, uint16(p))
	}
	if proxy := env.ProxyVar("HTTPS_PROXY"); proxy != "" {
		choose := (&httpproxy.Config{HTTPSProxy: proxy, NoProxy: env.ProxyVar("NO_PROXY")}).ProxyFunc()
		n.Upstream.Proxy = func(host string, port uint16) *url.URL {
			u, err := choose(&url.URL{Scheme: "https", Host: net.JoinHostPort(host, strconv.Itoa(int(port)))})
			if err != nil {
				return nil // a variable that names no proxy: as if it were not set
			}
			return u
		}
	}
	return n, nil
}
