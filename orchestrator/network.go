package main

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/net/http/httpproxy"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/host"
	"github.com/spritekit/lattice/orchestrator/host/egress"
	"github.com/spritekit/lattice/orchestrator/leader"
	"github.com/spritekit/lattice/orchestrator/settings"
	"github.com/spritekit/lattice/spritekit/fault"
)

// spriteOptions are the flags that say what a new sprite reaches, and which skills it has.
type spriteOptions struct {
	network   networkOptions
	spritekit string
}

func (o *spriteOptions) addFlags(cmd *cobra.Command) {
	addSpritekitFlag(cmd, &o.spritekit, "the new sprite")
	o.network.addFlags(cmd, "the new sprite reaches")
}

func addSpritekitFlag(cmd *cobra.Command, path *string, whose string) {
	cmd.Flags().StringVar(path, "spritekit", "", "`PATH` of the spritekit that "+whose+" gets (default: beside lattice, else on PATH)")
}

// check refuses what cannot take effect: on a sprite that is there already, and for sprites of a remote service, which are
// given a spritekit all the same.
func (o *spriteOptions) check(d *deps, sprite string) error {
	if _, err := d.network(o.network); err != nil {
		return err
	}
	asks := o.network.preset != "" || len(o.network.hostPorts) > 0
	switch {
	case asks && d.remoteSprites() != nil:
		return fault.Unsupported("network_is_local", "--network and --host-port are the embedded host's; what remote sprites reach is for their service to say").WithHint("leave them out, and see lattice sprite policy allow --help")
	case asks && sprite != "":
		return fault.BadInput("network_of_sprite", "what a sprite reaches is chosen when it is made, and %s is there already", sprite).WithHint("leave --sprite out, or change what it reaches: lattice sprite policy allow %s …", sprite)
	case o.spritekit != "" && sprite != "":
		return fault.BadInput("spritekit_of_sprite", "which skills a sprite has is chosen when it is made, and %s is there already", sprite).WithHint("leave --sprite out, or make one: lattice sprite create NAME --spritekit %s", o.spritekit)
	case o.spritekit != "":
		_, err := leader.FindSpritekit(o.spritekit, d.exe, "")
		return err
	}
	return nil
}

// path is the spritekit that was named, absolute; "" for none.
func (o *spriteOptions) path() string {
	if o.spritekit == "" {
		return ""
	}
	path, err := filepath.Abs(o.spritekit)
	if err != nil {
		return o.spritekit
	}
	return path
}

// shownSpritekit is the spritekit that the embedded host shows a new sprite; a remote one is sent it.
func (d *deps) shownSpritekit(o spriteOptions) string {
	if d.remoteSprites() != nil {
		return ""
	}
	return o.path()
}

// hostPorts are those that a sprite keeps which is made by hand; nil, unless a flag names one, so that it follows the
// settings.
func (o *spriteOptions) hostPorts(ctx context.Context, d *deps) []uint16 {
	if len(o.network.hostPorts) == 0 {
		return nil
	}
	_, ports := d.reach(ctx, o.network)
	return ports
}

// reach is what a new sprite reaches that keeps it: by flags, by what lattice serve was told, by the settings. A
// "" and a nil leave it to the host.
func (d *deps) reach(ctx context.Context, o networkOptions) (preset string, ports []uint16) {
	if d.remoteSprites() != nil {
		return "", nil
	}
	client := api.NewClient(leader.Home(d.home).Socket())
	defer client.Close()
	told, err := client.Hello(ctx)
	if err != nil {
		told = api.Hello{} // what follows fails for the same reason, and says so
	}
	ports = append([]uint16{}, told.HostPorts...)
	for _, p := range d.settings.HostPorts {
		ports = append(ports, uint16(p)) // checked by settings
	}
	ports = append(ports, o.ports()...)
	slices.Sort(ports)
	return cmp.Or(o.preset, told.Network, string(d.settings.Network), string(egress.Defaults)), slices.Compact(ports)
}

// networkOptions are the flags that say what sprites of the embedded host reach.
type networkOptions struct {
	preset    string
	hostPorts []uint
}

// addFlags adds the flags; who says what it is that reaches.
func (o *networkOptions) addFlags(cmd *cobra.Command, who string) {
	cmd.Flags().StringVar(&o.preset, "network", "", "what "+who+": defaults (registries, forges, models), none or open (default: the setting network, else defaults)")
	cmd.Flags().UintSliceVar(&o.hostPorts, "host-port", nil, "`PORT` of this machine's loopback interface that it reaches at "+egress.HostName+" (repeatable; adds to the setting host_ports)")
	cmd.Flags().Lookup("host-port").DefValue = "" // else help prints an empty list
	completeNetwork(cmd)
}

// ports are the host ports; network has checked them.
func (o *networkOptions) ports() (list []uint16) {
	for _, p := range o.hostPorts {
		list = append(list, uint16(p))
	}
	return list
}

func completeNetwork(cmd *cobra.Command) {
	_ = cmd.RegisterFlagCompletionFunc("network", cobra.FixedCompletions(settings.Networks(), cobra.ShellCompDirectiveNoFileComp))
}

// network is what sprites reach, by flags, settings and the proxy that the environment names.
func (d *deps) network(o networkOptions) (host.Network, error) {
	n := host.Network{Preset: egress.Preset(cmp.Or(o.preset, string(d.settings.Network), string(egress.Defaults))), Upstream: egress.Direct()}
	if !n.Preset.Valid() {
		return n, usageError{fmt.Errorf("--network is defaults, none or open, not %q", o.preset)}
	}
	for _, p := range d.settings.HostPorts {
		n.HostPorts = append(n.HostPorts, uint16(p)) // checked by settings
	}
	for _, p := range o.hostPorts {
		if p == 0 || p > 65535 {
			return n, usageError{fmt.Errorf("--host-port is a number from 1 to 65535, not %d", p)}
		}
		n.HostPorts = append(n.HostPorts, uint16(p))
	}
	env := func(name string) string { return cmp.Or(d.getenv(name), d.getenv(strings.ToLower(name))) }
	if proxy := env("HTTPS_PROXY"); proxy != "" {
		choose := (&httpproxy.Config{HTTPSProxy: proxy, NoProxy: env("NO_PROXY")}).ProxyFunc()
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
