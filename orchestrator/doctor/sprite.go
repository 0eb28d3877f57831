package doctor

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/core"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
	"github.com/spritekit/lattice/orchestrator/host/share"

	"golang.org/x/sync/errgroup"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/equip"
	"github.com/spritekit/lattice/orchestrator/host"
	"github.com/spritekit/lattice/orchestrator/host/sandbox"
	"github.com/spritekit/lattice/orchestrator/leader/home"
	"github.com/spritekit/lattice/orchestrator/settings"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/orchestrator/toolchain"
	"github.com/spritekit/lattice/spritekit/fault"
)

const (
	trialLimit   = 90 * time.Second // all that is tried in sprites
	programLimit = 10 * time.Second // one program that is asked for its version
	trialsAtOnce = 3
)

// toolNames are the toolchains that are looked for.
var toolNames = []string{"go", "node", "npm", "python3", "uv", "cargo", "rustc", "java", "bun", "deno", "ruby", "gcc", "make"}

// versionFlag is how a program is asked for its version; others take --version.
var versionFlag = map[string]string{"go": "version", "java": "-version"}

// lookIntoSprites checks the isolation of sprites and the programs that they can use, by trying both in temporary sprites: of
// the leader, when one leads, else of a host that is gone afterwards.
func lookIntoSprites(ctx context.Context, env *setup.Env, shown []string) []Check {
	if env.RemoteSprites() != nil {
		return []Check{newCheck("isolation", OK, "", "sprites are remote; their agents and toolchains are not checked")}
	}
	t, err := openTrial(ctx, env)
	if err != nil {
		return []Check{problemCheck("isolation", err)}
	}
	defer t.close()
	checks := append([]Check{lookAtNamespaces(env), t.checkIsolation(ctx, env.Settings.MinIsolation, env.Settings.NoRoot)}, t.checkBounds(ctx)...)
	if len(equip.NewMachine(env).Find("go")) > 0 {
		checks = append(checks, lookAtGoCache(env.Console))
	}
	for _, path := range shown {
		checks = append(checks, shownPath(path, shown))
	}
	return append(checks, tryPrograms(ctx, env, t, shown)...)
}

// lookAtNamespaces makes a sandbox and says at which step the system refuses it, if it does.
func lookAtNamespaces(env *setup.Env) Check {
	dir, err := makeScratch(env)
	if err != nil {
		return newCheck("namespaces", Fail, "set LATTICE_HOME to a directory that you can write to", "%v", err)
	}
	defer os.RemoveAll(dir)
	r := sandbox.Probe(env.Exe, dir)
	if !r.Namespaces {
		return newCheck("namespaces", Warn, r.Remedy, "%s: %s", r.Step, r.Cause)
	}
	return newCheck("namespaces", OK, "", "user, mount, process, IPC and host name namespaces work; programs in a sprite have no privileges")
}

// shownPath checks the path of a --tool.
func shownPath(path string, all []string) Check {
	for _, link := range toolchain.Dangling(all) {
		if strings.HasPrefix(link, path+"/") {
			return newCheck("shown", Warn, "add it with another --tool", "%s contains links to files that sprites do not see, such as %s", path, link)
		}
	}
	return newCheck("shown", OK, "", "sprites see %s at the same path, read-only", path)
}

// lookAtGoCache says whether fresh sprites have the standard library compiled.
func lookAtGoCache(console *cli.Console) Check {
	folder, toolchain := share.SharedGo(equip.FindSharedCaches(console))
	if toolchain == "" {
		return newCheck("go cache", Warn, "lattice doctor --warm", "empty: the first Go build in each sprite compiles the standard library")
	}
	return newCheck("go cache", OK, "", "sprites share the standard library of %s, read-only (%s)", toolchain, folder)
}

// WarmCache makes the shared Go cache, in a host of its own: a leader's sprites find it when they start.
func WarmCache(ctx context.Context, env *setup.Env) error {
	if env.RemoteSprites() != nil {
		return fault.Unsupported("caches_are_local", "remote sprites cannot read this machine's caches").WithHint("leave --warm out")
	}
	t, err := openOwnTrial(env)
	if err != nil {
		return err
	}
	defer t.close()
	fmt.Fprintln(env.Err, "compiling Go's standard library in a sandbox; this happens once for each version of Go")
	_, err = t.host.WarmGo(ctx, env.Err, "std")
	return warmProblem(err)
}

// warmProblem returns the error for the part that the machine lacks for a shared cache.
func warmProblem(err error) error {
	switch {
	case errors.Is(err, share.ErrNoGo):
		return fault.NotFound("no_go", "%v", err).WithHint("install Go in /usr/local/go, or put it on PATH")
	case errors.Is(err, share.ErrPlain):
		return fault.Unsupported("no_namespaces", "%v", err).WithHint("lattice doctor tells the reason")
	case errors.Is(err, share.ErrNoShared):
		return fault.BadInput("no_cache_directory", "%v", err).WithHint("set HOME or XDG_CACHE_HOME")
	case errors.Is(err, share.ErrWarming):
		return fault.Busy("warming", "%v", err).WithHint("wait for it")
	}
	return err
}

// trial is a host for temporary sprites.
type trial struct {
	client *sprites.Client
	host   *host.Host // nil when it is the leader's
	hello  api.Hello  // isolation, sandbox and warning only
	close  func()
}

func (t trial) checkIsolation(ctx context.Context, wanted settings.Isolation, noRoot bool) Check {
	root := "no sudo: programs are this machine's processes"
	switch {
	case noRoot:
		root = "no sudo: the settings turn it off (no_root)"
	case spec.Level(t.hello.Isolation) == spec.LevelRoot:
		root = "sudo is the sprite's own root"
	case spec.Level(t.hello.Isolation) == spec.LevelUser:
		root = t.rootOfUser(ctx)
	}
	c := newCheck("isolation", OK, "", "%s (%s; %s)", t.hello.Isolation, t.hello.Sandbox, root)
	if t.hello.Warning != "" {
		c.Status, c.Detail = Warn, t.hello.Warning
		c.Remedy = "run only programs that you would run here without a sprite, or use remote sprites (SPRITES_API_URL)"
	}
	if least := spec.Level(wanted.Least()); !spec.Level(t.hello.Isolation).AtLeast(least) {
		c.Status, c.Detail = Fail, fmt.Sprintf("the settings require %s (min_isolation), but sprites have %s: %s", least, t.hello.Isolation, c.Detail)
		c.Remedy = "follow the remedy for namespaces, run lattice as root for ns-root, or use remote sprites"
	}
	return c
}

// rootOfUser describes the effect of sudo in a sprite of an ordinary user.
func (t trial) rootOfUser(ctx context.Context) string {
	var out limitedText
	err := t.withSprite(ctx, nil, func(name string) error {
		ctx, cancel := context.WithTimeout(ctx, programLimit)
		defer cancel()
		_, err := t.client.Exec(ctx, name, sprites.Exec{Cmd: []string{"sudo", "-u", "#1", "id", "-u"}, Stdout: &out, Stderr: &out})
		return err
	})
	said := cli.Clean(strings.TrimSpace(out.String()))
	switch {
	case err != nil:
		return "sudo could not be tried: " + err.Error()
	case said == "1":
		return "sudo is the sprite's own root, and there are all users: sub-ids of /etc/subuid"
	}
	if why, alone := strings.CutPrefix(said, "sudo: this sprite has no users besides root and sprite: "); alone {
		return "sudo is root, but there are no other users: " + why
	}
	return "no sudo: " + strings.TrimPrefix(said, "sudo: ")
}

// checkBounds checks the network and the limits of a new sprite.
func (t trial) checkBounds(ctx context.Context) (checks []Check) {
	err := t.withSprite(ctx, nil, func(name string) error {
		s, err := t.client.Get(ctx, name)
		if err != nil {
			return err
		}
		if s.Network != nil {
			c := newCheck("network", OK, "", "%s", equip.DescribeNetwork(s))
			if s.Network.Enforcement != "enforced" {
				c.Status, c.Remedy = Warn, "sprites may reach what the policy denies: use a Linux with network namespaces and nf_tables, or remote sprites"
			}
			checks = append(checks, c)
		}
		limits := newCheck("limits", OK, "", "%s", equip.DescribeLimits(s.Limits))
		for _, l := range s.Limits {
			if l.By == "" && !strings.Contains(limits.Remedy, l.Why) {
				limits.Status, limits.Remedy = Warn, strings.TrimPrefix(limits.Remedy+"; "+l.Why, "; ")
			}
		}
		checks = append(checks, limits)
		return nil
	})
	if err != nil {
		checks = append(checks, problemCheck("limits", err))
	}
	return checks
}

func openTrial(ctx context.Context, env *setup.Env) (trial, error) {
	home := home.Home(env.Home)
	c := api.NewClient(home.Socket())
	defer c.Close()
	hello, err := func() (api.Hello, error) {
		ctx, cancel := context.WithTimeout(ctx, helloWait)
		defer cancel()
		return c.Hello(ctx)
	}()
	if err == nil && hello.API == api.Version {
		hc := api.HTTPClient(home.Socket())
		return trial{client: sprites.New(api.Base, "", hc), hello: hello, close: hc.CloseIdleConnections}, nil
	}
	return openOwnTrial(env)
}

// makeScratch makes a folder in the state directory, where sprites lie, or, when that is broken, where temporary files do.
func makeScratch(env *setup.Env) (string, error) {
	dir, err := os.MkdirTemp(env.Home, ".doctor-")
	if err != nil {
		dir, err = os.MkdirTemp("", "lattice-doctor-")
	}
	return dir, err
}

// openOwnTrial serves a host in a folder that is removed afterwards.
func openOwnTrial(env *setup.Env) (t trial, err error) {
	dir, err := makeScratch(env)
	if err != nil {
		return t, fmt.Errorf("create a folder for a temporary sprite: %w", err)
	}
	remove := func() error { return os.RemoveAll(dir) }
	network, err := equip.BuildNetwork(env, equip.NetworkOptions{})
	if err != nil {
		return t, errors.Join(err, remove())
	}
	var bounds equip.LimitOptions
	bounds.WithSettings(env.Settings)
	token := rand.Text()
	h, err := host.Open(core.Config{Dir: dir, Self: env.Exe, Token: token, Network: network, OneUser: env.Settings.OneUser, Box: bounds.Limits(), Tools: equip.ListHostTools(env, env.Settings.Tools), CheckTool: func(path string) (string, error) { return equip.CheckTool(env, path) }, Shared: equip.FindSharedCaches(env.Console), Log: env.Log})
	if err != nil {
		return t, errors.Join(fmt.Errorf("create a temporary sprite: %w", err), remove())
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return t, errors.Join(fmt.Errorf("create a temporary sprite: %w", err), h.Close(), remove())
	}
	server := &http.Server{Handler: h.Handler(), ReadHeaderTimeout: 5 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }() // awaited in close
	hc := &http.Client{Transport: &http.Transport{}}
	return trial{
		host:   h,
		client: sprites.New("http://"+listener.Addr().String(), token, hc),
		hello:  api.Hello{Isolation: h.Isolation(), Sandbox: h.Mode(), Warning: h.Warning()},
		close: func() {
			err := errors.Join(h.Close(), server.Close())
			if end := <-served; !errors.Is(end, http.ErrServerClosed) {
				err = errors.Join(err, end)
			}
			err = errors.Join(err, remove())
			hc.CloseIdleConnections()
			if err != nil {
				fmt.Fprintf(env.Err, "lattice: warning: remove the temporary sprite: %v\n", err)
			}
		},
	}, nil
}

// withSprite makes a temporary sprite that is shown paths, has do use it, and removes it.
func (t trial) withSprite(ctx context.Context, paths []string, do func(sprite string) error) (err error) {
	name := "doctor-" + strings.ToLower(rand.Text()[:10])
	if _, err := t.client.Create(ctx, sprites.Create{Name: name, Labels: []string{"lattice-doctor"}, Tools: paths, Image: sprites.NoImage}); err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), programLimit)
		defer cancel()
		err = errors.Join(err, t.client.Delete(ctx, name))
	}()
	return do(name)
}

// tryPrograms runs every program that this machine has in a sprite, and those that sprites do not find once more in a
// sprite that is shown them.
func tryPrograms(ctx context.Context, env *setup.Env, t trial, shown []string) []Check {
	found := equip.NewMachine(env).Find(slices.Concat(setup.AgentNames, toolNames)...)
	programs := make([]Program, len(found))
	err := t.withSprite(ctx, shown, func(sprite string) error {
		var group errgroup.Group
		group.SetLimit(trialsAtOnce)
		for i, f := range found {
			group.Go(func() error {
				programs[i] = tryProgram(ctx, t, sprite, shown, f)
				return nil
			})
		}
		return group.Wait()
	})
	if err != nil {
		return []Check{problemCheck("programs", fmt.Errorf("try programs in a temporary sprite: %w", err))}
	}
	var checks []Check
	noAgent := true
	for _, p := range programs {
		noAgent = noAgent && p.Kind != "agent"
		checks = append(checks, p.Judge())
	}
	if noAgent {
		none := newCheck("agents", Warn, "install one, or pass a script to flows as agent_command", "none of %s is on PATH", strings.Join(setup.AgentNames, ", "))
		checks = append([]Check{none}, checks...)
	}
	return checks
}

func tryProgram(ctx context.Context, t trial, sprite string, shown []string, f toolchain.Program) Program {
	p := Program{Kind: "tool", Name: f.Name, Path: f.File, Note: f.Note, Show: f.Show}
	if slices.Contains(setup.AgentNames, f.Name) {
		p.Kind = "agent"
	}
	p.Inside, p.Said, p.Exit, p.Trial = t.askVersion(ctx, sprite, f.Name)
	if p.Trial != nil || p.Inside != "" || len(p.Show) == 0 {
		return p
	}
	p.Trial = t.withSprite(ctx, slices.Concat(shown, p.Show), func(other string) (err error) {
		_, _, p.Tried, err = t.askVersion(ctx, other, f.Name)
		return err
	})
	return p
}

// ask prints where a program is found and the first line of its version, and ends as the program does.
const ask = `p=$(command -v "$1") || exit 127; echo "$p"; out=$("$@" 2>&1 </dev/null); code=$?; printf '%s\n' "$out" | head -n 1; exit $code`

// askVersion asks a program in a sprite for its version. Where is "" when the sprite does not find it.
func (t trial) askVersion(ctx context.Context, sprite, name string) (where, said string, exit int, err error) {
	flag, ok := versionFlag[name]
	if !ok {
		flag = "--version"
	}
	ctx, cancel := context.WithTimeout(ctx, programLimit)
	defer cancel()
	var out limitedText
	exit, err = t.client.Exec(ctx, sprite, sprites.Exec{Cmd: []string{"sh", "-c", ask, "sh", name, flag}, Dir: "/workspace", Stdout: &out, Stderr: &out})
	if ctx.Err() != nil {
		return "", "", 0, fmt.Errorf("%s %s does not answer within %s", name, flag, programLimit)
	}
	if err != nil {
		return "", "", 0, err
	}
	where, said, _ = strings.Cut(strings.TrimSpace(out.String()), "\n")
	if !strings.HasPrefix(where, "/") {
		return "", "", exit, nil
	}
	return where, cli.Clean(said), exit, nil
}

// limitedText keeps the beginning of the output of a program.
type limitedText struct{ strings.Builder }

func (l *limitedText) Write(p []byte) (int, error) {
	if room := 400 - l.Len(); room > 0 {
		l.Builder.Write(p[:min(room, len(p))])
	}
	return len(p), nil
}
