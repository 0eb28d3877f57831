// Package network connects sandboxes to the network. [Policy] decides which addresses a sprite reaches, and a [Connection] holds its
// running sandbox to that. It never opens a way around the gateway of package egress.
package network

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"

	"github.com/spritekit/lattice/orchestrator/host/confine"
	"github.com/spritekit/lattice/orchestrator/host/core"
	"github.com/spritekit/lattice/orchestrator/host/egress"
	"github.com/spritekit/lattice/orchestrator/host/records"
	"github.com/spritekit/lattice/orchestrator/host/sandbox"
	"github.com/spritekit/lattice/orchestrator/host/wire"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// How far a policy is enforced, as the sprite's object says.
const (
	enforced = "enforced" // nothing gets around it
	advisory = "advisory" // it binds programs that use the proxy which their environment names
	unbound  = "none"     // no policy applies
)

// Policy says which addresses each sprite may reach.
type Policy struct {
	*core.Core
	confiner *confine.Confiner
	outward  *egress.Room // for the connections of sprites to the world
}

// describeEnforcement returns how far the policy of this host's sprites is enforced, and why not further.
func (n *Policy) describeEnforcement() (label, why string) {
	c := n.confiner.Confined()
	switch {
	case n.Config.Network.Preset == "":
		return unbound, "this host was started without a network policy"
	case c.Redirects:
		return enforced, ""
	case c.Plain:
		return advisory, "sprites here are plain processes on this machine's network"
	default:
		return advisory, c.NoRedirect
	}
}

func (n *Policy) Describe(rec records.Sprite) *sprites.Network {
	label, why := n.describeEnforcement()
	return &sprites.Network{Enforcement: label, Preset: n.presetName(rec), Why: why, HostPorts: n.hostPorts(rec)}
}

// customPolicy stands for the name of a preset where a sprite has a policy of its own.
const customPolicy = "custom"

func (n *Policy) presetName(rec records.Sprite) string {
	if rec.Policy != nil {
		return customPolicy
	}
	return string(n.presetOf(rec))
}

func (n *Policy) presetOf(rec records.Sprite) egress.Preset {
	if rec.Network != "" {
		return rec.Network
	}
	return n.Config.Network.Preset
}

// hostPorts are the ports of this machine that a sprite reaches.
func (n *Policy) hostPorts(rec records.Sprite) []uint16 {
	if rec.HostPorts != nil {
		return rec.HostPorts
	}
	return n.Config.Network.HostPorts
}

// maxHostPorts bounds the ports that one sprite reaches.
const maxHostPorts = 64

// CheckHostPorts judges the ports that a request wants a new sprite to reach.
func (n *Policy) CheckHostPorts(ports []uint16) error {
	switch {
	case len(ports) == 0:
		return nil
	case !n.Config.LetHostPorts:
		return wire.Refuse(http.StatusForbidden, "host_ports_refused", "this host opens no ports of its machine that a request names; start it with --host-port PORT")
	case len(ports) > maxHostPorts:
		return wire.BadRequest(fmt.Sprintf("host_ports: more than %d", maxHostPorts))
	case slices.Contains(ports, 0):
		return wire.BadRequest("host_ports: 0 is not a port")
	}
	return nil
}

// Rules are those that bind a sprite.
func (n *Policy) Rules(rec records.Sprite) []egress.Rule {
	switch {
	case rec.Policy != nil:
		return *rec.Policy
	case n.presetOf(rec) == "":
		return egress.Open.Rules()
	}
	return n.presetOf(rec).Rules()
}

// Connection connects a running box to the network.
type Connection struct {
	gateway *egress.Gateway
	cancel  context.CancelFunc
	serving sync.WaitGroup
	env     []string // of every command: the proxy, where programs have to know of one
}

func (n *Policy) findUpstream() egress.Upstream {
	if n.Config.Network.Upstream.Dial == nil {
		return egress.Direct()
	}
	return n.Config.Network.Upstream
}

// descriptorLimit returns how many this process may have.
func descriptorLimit() uint64 {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return 0 // the least, then
	}
	return uint64(limit.Cur)
}

// proxyEnv names a proxy to programs, in the spellings that they know.
func proxyEnv(user, address string) (env []string) {
	for _, names := range [][3]string{{"HTTP_PROXY", "HTTPS_PROXY", "http"}, {"http_proxy", "https_proxy", "http"}, {"ALL_PROXY", "all_proxy", "socks5h"}} {
		url := names[2] + "://" + user + address
		env = append(env, names[0]+"="+url, names[1]+"="+url)
	}
	const own = "localhost,127.0.0.1,::1"
	return append(env, "NO_PROXY="+own, "no_proxy="+own)
}

// Mirror shows the sprite its own policy, in /.sprite/policy/network.json.
func (n *Policy) Mirror(rec records.Sprite) error {
	data, err := Document(n.Rules(rec))
	if err != nil {
		return err
	}
	dir := filepath.Join(n.RunDir(rec.ID), "policy")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	file, next := filepath.Join(dir, "network.json"), filepath.Join(dir, ".network.json")
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.WriteFile(next, append(data, '\n'), 0o444); err != nil {
		return err
	}
	return os.Rename(next, file) // a mirror need not survive a crash: it is written with each start
}

func Document(rules []egress.Rule) ([]byte, error) {
	return json.Marshal(struct {
		Rules []egress.Rule `json:"rules"`
	}{rules})
}

// Connect gives a box that was just started the network that the sprite's policy allows; nil without a policy. The connection
// ends with ctx, with the box, or when it is closed.
func (n *Policy) Connect(ctx context.Context, box *sandbox.Box, rec records.Sprite, denials *egress.Denials) (_ *Connection, err error) {
	if n.Config.Network.Preset == "" {
		return nil, nil
	}
	inside := box.Network()
	defer func() {
		if err != nil {
			inside.Close()
		}
	}()
	policy, err := egress.Compile(n.Rules(rec))
	if err != nil {
		return nil, fmt.Errorf("network policy: %w", err)
	}
	if err := n.Mirror(rec); err != nil {
		return nil, fmt.Errorf("mirror the network policy: %w", err)
	}
	var models http.Handler
	if n.Config.Network.Models != nil {
		models = n.Config.Network.Models(rec.Name)
	}
	c := &Connection{gateway: egress.New(egress.Config{
		Upstream: n.findUpstream(), HostPorts: n.hostPorts(rec), Models: models, Denials: denials, Room: n.outward, Now: n.Now,
	}, policy)}
	ctx, cancel := context.WithCancel(ctx)
	c.cancel = cancel
	switch {
	case inside == nil:
		// The box is on this machine's network, where others could use the proxy, too.
		listener, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			cancel()
			return nil, fmt.Errorf("offer a proxy: %w", err)
		}
		secret := rand.Text()
		c.env = proxyEnv("sprite:"+secret+"@", listener.Addr().String())
		c.serving.Go(func() { c.gateway.ServeProxy(ctx, listener, secret) })
	case inside.Redirected:
		c.serving.Go(func() { c.gateway.Serve(ctx, inside.TCP, inside.DNS) })
	default:
		c.env = proxyEnv("", fmt.Sprintf("127.0.0.1:%d", spec.ProxyPort))
		c.serving.Go(func() { c.gateway.ServeProxy(ctx, inside.TCP, "") })
	}
	c.serving.Go(func() { // a box that ends by itself needs no network
		defer cancel()
		select {
		case <-box.Done():
		case <-ctx.Done():
		}
	})
	return c, nil
}

// Close ends all connections, and waits for them. A nil connection has none.
func (c *Connection) Close() {
	if c == nil {
		return
	}
	c.cancel()
	c.serving.Wait()
}

// Environ is the environment that names the proxy to every command, where programs have to know of one.
func (c *Connection) Environ() []string {
	if c == nil {
		return nil
	}
	return c.env
}

// SetPolicy applies another policy, and returns how many connections that cut.
func (c *Connection) SetPolicy(p *egress.Policy) (cut int) { return c.gateway.SetPolicy(p) }

// Stats counts the allowed connections and names.
func (c *Connection) Stats() egress.Stats {
	if c == nil {
		return egress.Stats{}
	}
	return c.gateway.Stats()
}

func NewPolicy(c *core.Core, confiner *confine.Confiner) *Policy {
	return &Policy{Core: c, confiner: confiner, outward: egress.NewRoom(descriptorLimit())}
}
