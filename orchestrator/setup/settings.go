package setup

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/leader/home"
	"github.com/spritekit/lattice/orchestrator/leader/problem"
	"github.com/spritekit/lattice/orchestrator/settings"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// SettingsPath returns the path of the settings, and whether a variable names it: then the file must exist.
func SettingsPath(getenv func(string) string) (path string, named bool) {
	if path := getenv("LATTICE_CONFIG"); path != "" {
		return path, true
	}
	dir := getenv("XDG_CONFIG_HOME")
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(getenv("HOME"), ".config")
	}
	return filepath.Join(dir, "lattice", "config.toml"), false
}

// LoadSettings reads the settings file into d. Everything that is wrong with it is told at once.
func (env *Env) LoadSettings() error {
	path, named := SettingsPath(env.Getenv)
	text, err := ReadBounded(path)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !named:
		return env.TakeSettings(settings.Settings{})
	case err != nil:
		return fault.BadInput("settings_unreadable", "read settings: %v", err).WithHint("LATTICE_CONFIG names a file that you may read, or is not set")
	}
	s, findings := settings.Parse(text)
	if len(findings) == 0 {
		return env.TakeSettings(s)
	}
	lines, hint := []string{}, ""
	for _, f := range findings {
		line := f.Text()
		if f.Hint != "" && len(findings) > 1 {
			line += " (" + f.Hint + ")"
		}
		lines = append(lines, line)
		hint = cmp.Or(hint, f.Hint)
	}
	if len(findings) > 1 {
		hint = "edit " + path
	}
	p := fault.BadInput("settings_invalid", "the settings in %s are refused:\n  %s", path, strings.Join(lines, "\n  ")).WithHint("%s", hint)
	if details, err := json.Marshal(map[string]any{"file": path, "findings": findings}); err == nil {
		p.Fault.Details = details
	}
	return p
}

// TakeSettings keeps the settings, overridden by the environment.
func (env *Env) TakeSettings(s settings.Settings) (err error) {
	env.Settings = s
	env.SpritesURL, env.spritesToken, err = env.SpritesAPI()
	return err
}

// ReadBounded reads a file that is not larger than settings may be.
func ReadBounded(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no file", path)
	}
	if info.Size() > settings.MaxSize {
		return nil, fmt.Errorf("%s has %d bytes; at most %d are read", path, info.Size(), settings.MaxSize)
	}
	return os.ReadFile(path)
}

// LogLevel is how much to log: the environment's, else the settings', else the default.
func (env *Env) LogLevel(fallback zerolog.Level) zerolog.Level {
	for _, name := range []string{env.Getenv("LATTICE_LOG"), string(env.Settings.LogLevel)} {
		if level, err := zerolog.ParseLevel(name); err == nil && name != "" {
			return level
		}
	}
	return fallback
}

// StoreAddress returns the address of the store: LATTICE_STORE, else that of the settings, else the file of the state directory.
func (env *Env) StoreAddress() string {
	return cmp.Or(env.Getenv("LATTICE_STORE"), env.Settings.Store.URL, home.Home(env.Home).Store())
}

// storeName returns the address of the store without user and parameters, which may hold a password.
func (env *Env) storeName() string {
	address, _, _ := strings.Cut(env.StoreAddress(), "?")
	if scheme, rest, ok := strings.Cut(address, "://"); ok {
		return scheme + "://" + rest[strings.LastIndex(rest, "@")+1:]
	}
	return address
}

// LeaderSettings are the settings that hold for as long as a process leads, as JSON by name. Runs bring the others along.
func (env *Env) LeaderSettings() map[string]string {
	s, all := env.Settings, map[string]string{}
	for name, v := range map[string]any{
		"network": s.Network, "host_ports": s.HostPorts, "limits": s.Limits, "min_isolation": s.MinIsolation, "tools": s.Tools, "spritekit": s.Spritekit, "git": s.Git, "policy": env.policyDigest(), "channels": s.Channels, "secrets": s.Secrets, "schedules": s.Schedules, "notify": s.Notify, "forges": s.Forges, "boards": s.Boards, "flows": s.Flows, "run.keep_turns": s.Run.KeepTurns,
		"serve.fleet": s.Serve.Fleet, "store": env.storeName(), "engine": s.Engine,
	} {
		text, err := json.Marshal(v)
		if err != nil {
			continue // they were read from text
		}
		all[name] = string(text)
	}
	return all
}

// StaleSettings names the settings that the leader does not have as they are here.
func (env *Env) StaleSettings(leader api.Hello) (names []string) {
	if leader.Settings == nil {
		return nil // an older lattice, which does not say
	}
	for name, value := range env.LeaderSettings() {
		if leader.Settings[name] != value {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Spritekit is the in-sprite binary that a person named: by flag, else in the settings; "" is to be looked for.
func (env *Env) Spritekit(flag string) string {
	if flag != "" || env.Settings.Spritekit == "" {
		return flag
	}
	return env.Expand(env.Settings.Spritekit)
}

// Expand makes ~/ the home directory.
func (env *Env) Expand(path string) string {
	if rest, ok := strings.CutPrefix(path, "~/"); ok {
		return filepath.Join(env.Getenv("HOME"), rest)
	}
	return path
}

func (env *Env) Paths(list []string) []string {
	out := make([]string, len(list))
	for i, path := range list {
		out[i] = env.Expand(path)
	}
	return out
}

// SpritesAPI is the remote Sprites API that is to be used, "" for the embedded host. A token of the settings goes to the
// URL next to it and nowhere else.
func (env *Env) SpritesAPI() (base, token string, err error) {
	if named := env.Getenv("SPRITES_API_URL"); named != "" {
		if u, err := url.Parse(named); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
			return "", "", fault.BadInput("sprites_url", "SPRITES_API_URL is no http or https URL without credentials").WithHint("export SPRITES_API_URL=https://HOST, and the token as SPRITES_TOKEN")
		}
		return named, env.Getenv("SPRITES_TOKEN"), nil
	}
	s := env.Settings.Sprites
	switch {
	case s.URL == "" || env.Getenv("SPRITES_TOKEN") != "":
		return s.URL, env.Getenv("SPRITES_TOKEN"), nil
	case s.TokenEnv != "":
		if token = env.Getenv(s.TokenEnv); token == "" {
			return "", "", fault.BadInput("sprites_token", "the settings take the token of %s from %s, which is not set here", s.URL, s.TokenEnv).WithHint("export %s=…", s.TokenEnv)
		}
	case s.TokenFile != "":
		if token, err = readToken(env.Expand(s.TokenFile)); err != nil {
			return "", "", err
		}
	}
	return s.URL, token, nil
}

// readToken reads a file that contains one token and that no other user can read.
func readToken(path string) (string, error) {
	text, err := readPrivate(path)
	if err != nil {
		return "", err
	}
	token := strings.TrimSpace(string(text))
	if token == "" || strings.ContainsAny(token, " \t\r\n\x00") {
		return "", explainUnreadable(path, protocol.ExitBadInput, "%s does not hold one token", path)
	}
	return token, nil
}

// explainUnreadable returns the error of a file with a secret that cannot be used.
func explainUnreadable(path string, exit int, format string, a ...any) error {
	return fault.New(exit, "sprites_token", "%s", fmt.Sprintf("read the token file: "+format, a...)).WithHint("put the token into %s and chmod 600 it", path)
}

// readPrivate reads a file with a secret that only this user may read.
func readPrivate(path string) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, explainUnreadable(path, protocol.ExitBadInput, "%v", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, explainUnreadable(path, protocol.ExitBadInput, "%v", err)
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	switch {
	case !info.Mode().IsRegular():
		return nil, explainUnreadable(path, protocol.ExitBadInput, "%s is no file", path)
	case info.Mode().Perm()&0o077 != 0:
		return nil, explainUnreadable(path, protocol.ExitUnsafe, "%s is open to others (mode %04o)", path, info.Mode().Perm())
	case ok && int(st.Uid) != os.Getuid():
		return nil, explainUnreadable(path, protocol.ExitUnsafe, "%s belongs to somebody else", path)
	}
	const most = 16 << 10
	text := make([]byte, most)
	n, _ := f.Read(text)
	if n == most {
		return nil, explainUnreadable(path, protocol.ExitBadInput, "%s does not hold one token", path)
	}
	return text[:n], nil
}

// RemoteSprites is the client of the remote Sprites API, or nil when none is set.
func (env *Env) RemoteSprites() *sprites.Client {
	if env.SpritesURL != "" {
		return sprites.NewWith(env.SpritesURL, env.spritesToken, nil, sprites.Options{Remote: true, Jitter: rand.Float64, BeforeCheckpoint: env.scrubRemote})
	}
	return nil
}

// scrubRemote has the leader, if there is one, take the keys that it handed over out of a remote sprite, which is about to keep
// its files.
func (env *Env) scrubRemote(ctx context.Context, sprite string) error {
	c := api.NewClient(home.Home(env.Home).Socket())
	defer c.Close()
	var refused *fault.Error
	if err := c.Scrub(ctx, sprite); errors.As(err, &refused) { // without a leader no run has handed anything over
		if refused.Exit == protocol.ExitBusy || refused.Exit == protocol.ExitNetwork { // the leader ends, say
			fmt.Fprintf(env.Err, "lattice: warning: a key may be in the agent's files of this checkpoint: %v\n", err)
			return nil
		}
		return &sprites.APIError{Status: http.StatusConflict, Code: sprites.CodeKeysKept, Message: err.Error()}
	}
	return nil
}

// ExplainSprite gives errors of the Sprites API their exit codes and remedies.
func ExplainSprite(err error) error {
	return problem.SpriteProblem(err)
}
