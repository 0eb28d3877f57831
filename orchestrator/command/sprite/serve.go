package sprite

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/catalog"
	"github.com/spritekit/lattice/orchestrator/host/core"
	"github.com/spritekit/lattice/orchestrator/host/records"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"

	"github.com/rs/zerolog"
	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/equip"
	"github.com/spritekit/lattice/orchestrator/host"
	"github.com/spritekit/lattice/orchestrator/leader/home"
	"github.com/spritekit/lattice/orchestrator/leader/skillset"
	"github.com/spritekit/lattice/orchestrator/patient"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
)

// serveOptions are the flags of `lattice sprite serve`.
type serveOptions struct {
	Listen string
	Token  string
	Dir    string
	Skills string
	// Spritekit is installed as /skills when Skills is not given.
	Spritekit string
	// Tools are further paths of this machine that sprites without an image see; AskedTools are seen by all.
	Tools, AskedTools []string
	// AllowHosts are names by which a reverse proxy hands requests on.
	AllowHosts []string
	// TokenFile and TokenEnv say where Token is read from.
	TokenFile, TokenEnv string
	// URLs is where the URLs of sprites are served, "" for none.
	URLs string
	// Shared is where caches lie that sprites read only.
	Shared string
	// Network is the network of sprites.
	Network core.Network
	// Limits bound each sprite, and name the weakest isolation.
	Limits equip.LimitOptions
	// Image is the image of sprites that name none, "" for this machine's own system.
	Image string
	// Quotas are like those of remote services.
	Quotas core.Limits
	// NoRoot has sprites without a root of their own.
	NoRoot bool
	// OneUser has sprites of an ordinary user without sub-ids.
	OneUser bool
	// Control offers control channels.
	Control bool
	// WarmAfter and ColdAfter are when idle sprites fall asleep.
	WarmAfter, ColdAfter time.Duration
}

func newServeCmd(env *setup.Env) *cobra.Command {
	opts, network := serveOptions{}, equip.NetworkOptions{}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the embedded sprite host alone",
		Long: `Serve the Sprites API from this machine, without the rest of Lattice. Any client of the API can use it.

When the host is ready, it prints one JSON line with "url", "token" and "isolation", but without a token from a file or a
variable. Other users of this machine can see the arguments of a command, so put a token of your own into a file.

Only this machine can connect to the host. A reverse proxy with TLS on this machine may forward requests under the names
given with --allow-host; the URLs of sprites are then NAME.HOST, forwarded to the address of --urls. The host runs until
SIGINT or SIGTERM, and then ends the processes of all sprites. Files and checkpoints remain in the directory.

Exit codes: 0 ended by a signal, 1 the host could not start or stop cleanly, 2 bad flags, 3 no such image, 6 the directory
or the port is in use, 7 weaker isolation than requested.`,
		Example: `  lattice sprite serve --listen 127.0.0.1:8787 --dir ./sprites
  lattice sprite serve --image ./rootfs.tar.zst
  lattice sprite serve --token-file ~/.config/lattice/token --allow-host sprites.example.com
  lattice sprite serve --memory 2G --cpus 2 --pids 500 --min-isolation ns-user
  SPRITES_API_URL=http://127.0.0.1:8787 SPRITES_TOKEN=… lattice sprite ls`,
		Args: cli.Args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := errors.Join(opts.Limits.Check(), checkLoopback("--listen", opts.Listen), checkLoopback("--urls", cmp.Or(opts.URLs, anyPort))); err != nil {
				return err
			}
			opts.Limits.WithSettings(env.Settings)
			var err error
			if opts.AskedTools, err = equip.CheckTools(env, opts.AskedTools); err != nil {
				return err
			}
			if opts.AllowHosts, err = hostNames(opts.AllowHosts); err != nil {
				return err
			}
			if err := readServeToken(env.Console, &opts); err != nil {
				return err
			}
			opts.Shared = equip.FindSharedCaches(env.Console)
			opts.Tools = equip.ListHostTools(env, env.Settings.Tools)
			if opts.Network, err = equip.BuildNetwork(env, network); err != nil {
				return err
			}
			if opts.Image, err = findServedImage(env, opts.Image); err != nil {
				return err
			}
			log := zerolog.New(cmd.ErrOrStderr()).With().Timestamp().Logger()
			return runServe(cmd.Context(), log, env.Getenv("PATH"), opts, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&opts.Listen, "listen", anyPort, "loopback address to listen on; port 0 chooses a free one")
	cmd.Flags().StringVar(&opts.Token, "token", "", "bearer token that clients must send (default: a random one)")
	cmd.Flags().StringVar(&opts.TokenFile, "token-file", "", "read the token from the first line of `FILE`, - for stdin")
	cmd.Flags().StringVar(&opts.TokenEnv, "token-env", "", "read the token from the environment variable `NAME`")
	cmd.Flags().StringArrayVar(&opts.AllowHosts, "allow-host", nil, "accept requests that a reverse proxy forwards for the name `HOST`, and for NAME.HOST as the URL of sprite NAME; repeatable")
	cmd.Flags().StringVar(&opts.Dir, "dir", "", "directory for the sprites (default: a temporary one)")
	cmd.Flags().StringVar(&opts.Skills, "skills", "", "directory with installed skills, the /skills of every sprite (default: those of --spritekit); none gives each sprite an empty /skills of its own, like remote services")
	cmd.Flags().StringVar(&opts.URLs, "urls", anyPort, "loopback address for the URLs of sprites; port 0 takes the previous port or a free one, \"\" turns URLs off")
	cmd.Flags().StringVar(&opts.Image, "image", "", "`IMAGE` for sprites that are created without one: an image in --dir, a path, which is imported first, or none (default: the setting image, else this machine's own system)")
	cmd.Flags().BoolVar(&opts.OneUser, "one-user", false, "create sprites with a single user each, although /etc/subuid gives more")
	cmd.Flags().BoolVar(&opts.NoRoot, "no-root", false, "create sprites without root: sudo is refused in them")
	cmd.Flags().BoolVar(&opts.Control, "control", false, "offer control channels, over which some clients run many commands")
	cmd.Flags().IntVar(&opts.Quotas.Running, "max-running", 0, "run at most `N` sprites at a time, like remote services (0: no limit)")
	cmd.Flags().IntVar(&opts.Quotas.Creations, "max-creations", 0, "create at most `N` sprites a minute, like remote services (0: no limit)")
	cmd.Flags().DurationVar(&opts.WarmAfter, "warm-after", 30*time.Second, "freeze the processes of a sprite after it has been idle this long; never if negative")
	cmd.Flags().DurationVar(&opts.ColdAfter, "cold-after", 10*time.Minute, "end the sandbox of a sprite after it has been frozen this long; never if negative")
	equip.AddToolFlag(cmd, &opts.AskedTools)
	opts.Limits.AddFlags(cmd, "each sprite's")
	network.AddFlags(cmd, "sprites without a policy of their own reach")
	cmd.Flags().StringVar(&opts.Spritekit, "spritekit", "", "`PATH` of the spritekit that sprites get (default: next to lattice, else on PATH)")
	return cmd
}

// maxTokenFile is more than any token takes.
const maxTokenFile = 4 << 10

// readServeToken takes the token from where the flags say.
func readServeToken(console *cli.Console, o *serveOptions) error {
	switch {
	case o.Token != "" && o.TokenEnv+o.TokenFile != "", o.TokenEnv != "" && o.TokenFile != "":
		return cli.UsageErrorf("give the token only once: with --token, --token-file or --token-env")
	case o.TokenEnv != "":
		if o.Token = console.Getenv(o.TokenEnv); o.Token == "" {
			return cli.UsageErrorf("--token-env: the variable %s is not set or empty", o.TokenEnv)
		}
		return nil
	case o.TokenFile == "":
		return nil
	}
	in := console.In
	if o.TokenFile != "-" {
		f, err := os.Open(o.TokenFile)
		if err != nil {
			return cli.UsageErrorf("--token-file: %w", err)
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, maxTokenFile))
	if err != nil {
		return fmt.Errorf("--token-file: %w", err)
	}
	line, _, _ := strings.Cut(string(data), "\n")
	if o.Token = strings.TrimSpace(line); o.Token == "" {
		return cli.UsageErrorf("--token-file: the first line of %s is empty", o.TokenFile)
	}
	return nil
}

// hostNames checks the names of --allow-host.
func hostNames(names []string) (checked []string, err error) {
	for _, name := range names {
		plain := strings.ToLower(strings.TrimSuffix(name, "."))
		if !hostName().MatchString(plain) || net.ParseIP(plain) != nil {
			return nil, cli.UsageErrorf("--allow-host must be a name such as sprites.example.com, without scheme and port, not %q", name)
		}
		checked = append(checked, plain)
	}
	return checked, nil
}

var hostName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
})

// noSkills is the value of --skills by which sprites get none from the host.
const noSkills = "none"

// serveIdle is how long a connection may stay open between requests.
const serveIdle = 2 * time.Minute

// serveGrace is how long requests may take to end after a signal.
const serveGrace = 5 * time.Second

// runServe serves until ctx ends.
func runServe(ctx context.Context, log zerolog.Logger, path string, opts serveOptions, out io.Writer) (err error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", opts.Listen)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fault.Busy("port_taken", "another program listens on %s", opts.Listen).WithHint("choose another port, or 0 for a free one")
	}
	if err != nil {
		return fmt.Errorf("serve sprites: %w", err)
	}
	defer listener.Close()
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("serve sprites: find this executable: %w", err)
	}
	if opts.Dir == "" {
		if opts.Dir, err = os.MkdirTemp("", "lattice-sprites-"); err != nil {
			return fmt.Errorf("serve sprites: %w", err)
		}
		defer func() { err = errors.Join(err, os.RemoveAll(opts.Dir)) }()
	}
	if opts.Skills == noSkills {
		opts.Skills = ""
	} else if opts.Skills != "" {
		if opts.Skills, err = filepath.Abs(opts.Skills); err != nil {
			return fmt.Errorf("serve sprites: %w", err)
		}
	} else if opts.Skills, err = installOwnSkills(opts, self, path); err != nil {
		return fmt.Errorf("serve sprites: %w", err)
	} else if opts.Skills == "" {
		log.Warn().Msg("no spritekit next to lattice or on PATH: sprites have no /skills")
	}
	if opts.Token == "" {
		opts.Token = rand.Text()
	}
	h, err := host.Open(core.Config{
		Dir: opts.Dir, Self: self, Skills: opts.Skills, Token: opts.Token, Tools: opts.Tools, AskedTools: opts.AskedTools, AllowHosts: opts.AllowHosts, Shared: opts.Shared, URLs: opts.URLs, Network: opts.Network, Image: opts.Image, Log: log,
		MinIsolation: spec.Level(opts.Limits.Least), NoRoot: opts.NoRoot, OneUser: opts.OneUser, Box: opts.Limits.Limits(),
		Limits: opts.Quotas, Control: opts.Control, WarmAfter: opts.WarmAfter, ColdAfter: opts.ColdAfter,
	})
	if errors.Is(err, records.ErrServed) {
		return fault.Busy("dir_served", "%v", err).WithHint("name another directory with --dir")
	}
	if err != nil {
		return fmt.Errorf("serve sprites: %w", err)
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	if opts.Image != "" && opts.Image != sprites.NoImage {
		digest, err := h.ImportImage(ctx, opts.Image, "", func(text string) { log.Info().Str("image", opts.Image).Msg(text) })
		if errors.Is(err, catalog.ErrNoImage) {
			return fault.NotFound("image_not_found", "serve sprites: %v", err).WithHint("give a path to import, or a name that is in --dir")
		}
		if err != nil {
			return fmt.Errorf("serve sprites: %w", err)
		}
		log.Info().Str("image", digest).Msg("sprites start from it")
	}
	if warning := h.Warning(); warning != "" {
		log.Warn().Msg(warning)
	}
	if err := h.CheckIsolation(); err != nil {
		return fault.Unsafe("isolation_unavailable", "%v", err).WithHint("lattice doctor")
	}
	log.Info().Str("isolation", h.Isolation()).Str("mode", h.Mode()).Msg("sprite host ready")

	server := &http.Server{Handler: h.Handler(), ReadHeaderTimeout: serveGrace, IdleTimeout: serveIdle}
	served := make(chan error, 1)
	go func() { served <- server.Serve(patient.Listener(listener)) }() // awaited below
	ready := struct {
		URL       string `json:"url"`
		Token     string `json:"token,omitempty"`
		Isolation string `json:"isolation"`
	}{"http://" + listener.Addr().String(), opts.Token, h.Isolation()}
	if opts.TokenFile != "" || opts.TokenEnv != "" {
		ready.Token = "" // its author has it
	}
	if err := json.NewEncoder(out).Encode(ready); err != nil {
		return errors.Join(fmt.Errorf("serve sprites: say that the host is ready: %w", err), server.Close(), ignoreClosed(<-served))
	}
	select {
	case err := <-served:
		return fmt.Errorf("serve sprites: %w", err)
	case <-ctx.Done():
	}
	// Sockets and streams end with the host; then the server has nothing left to wait for.
	err = h.Close()
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), serveGrace)
	defer cancel()
	if server.Shutdown(grace) != nil {
		err = errors.Join(err, server.Close())
	}
	return errors.Join(err, ignoreClosed(<-served))
}

func ignoreClosed(err error) error {
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// findServedImage returns the image of --image or of the settings: a path is made absolute, and must exist.
func findServedImage(env *setup.Env, said string) (string, error) {
	ref := cmp.Or(said, env.Expand(env.Settings.Image))
	_, missing := os.Stat(said)
	if !equip.LooksLikePath(ref) && missing != nil {
		return ref, nil // the host knows
	}
	return equip.ImagePath(ref)
}

// anyPort is a free port of this machine alone.
const anyPort = "127.0.0.1:0"

// checkLoopback refuses addresses that other machines can reach: a sprite host runs what it is told to.
func checkLoopback(flag, addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return cli.UsageErrorf("%s must be HOST:PORT such as 127.0.0.1:8787: %w", flag, err)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return cli.UsageErrorf("%s %s: only loopback addresses are served; use 127.0.0.1, and a tunnel for other machines", flag, addr)
	}
	return nil
}

// installOwnSkills installs the skills of the spritekit found here, and returns "" when there is none.
func installOwnSkills(opts serveOptions, self, path string) (string, error) {
	spritekit, err := skillset.FindSpritekit(opts.Spritekit, self, path)
	if err != nil && opts.Spritekit == "" {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	dir, err := filepath.Abs(opts.Dir)
	if err != nil {
		return "", err
	}
	return skillset.InstallSkills(home.Home(dir), spritekit)
}
