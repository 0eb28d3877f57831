package main

import (
	"cmp"
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/net/http/httpproxy"

	"github.com/spritekit/lattice/orchestrator/settings"
	"github.com/spritekit/lattice/orchestrator/sprites/local"
	"github.com/spritekit/lattice/orchestrator/sprites/local/egress"
)

// networkOptions are the flags that say what sprites of the embedded host reach.
type networkOptions struct {
	preset    string
	hostPorts []uint
}

func (o *networkOptions) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.preset, "network", "", "what sprites without a policy of their own reach: defaults (registries, forges, models), none or open (default: the setting network, else defaults)")
	cmd.Flags().UintSliceVar(&o.hostPorts, "host-port", nil, "`PORT` of this machine's loopback interface that sprites reach at "+egress.HostName+" (repeatable; adds to the setting host_ports)")
	cmd.Flags().Lookup("host-port").DefValue = "" // else help prints an empty list
	completeNetwork(cmd)
}

func completeNetwork(cmd *cobra.Command) {
	_ = cmd.RegisterFlagCompletionFunc("network", cobra.FixedCompletions(settings.Networks(), cobra.ShellCompDirectiveNoFileComp))
}

// network is what sprites reach, by flags, settings and the proxy that the environment names.
func (d *deps) network(o networkOptions) (local.Network, error) {
	n := local.Network{Preset: egress.Preset(cmp.Or(o.preset, string(d.settings.Network), string(egress.Defaults))), Upstream: egress.Direct()}
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
