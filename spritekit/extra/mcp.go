package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/skills"
	"github.com/spritekit/lattice/skills/git/native"
	"github.com/spritekit/lattice/spritekit/cli"
	"github.com/spritekit/lattice/spritekit/dropin"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/mcp"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

// serveMCP offers the skills to an agent until its client goes away, or a signal comes.
func (a app) serveMCP(args []string) error {
	if len(args) == 1 && args[0] == guardFlag {
		return a.guardMCP()
	}
	options := mcp.Options{Version: protocol.BuildVersion(), Env: a.env, Stderr: a.stderr}
	addr, dir, folder, allow := "", "", "", ""
	args, options.Verbose = cli.TakeFlag(args, "--verbose")
	args, _ = cli.TakeFlag(args, "--json") // of errors
	for len(args) > 0 {
		name, value, ok := strings.Cut(args[0], "=")
		if args = args[1:]; !ok && len(args) > 0 {
			value, args, ok = args[0], args[1:], true
		}
		if !ok || value == "" {
			return cli.Usagef("%s lacks a value", name)
		}
		switch name {
		case "--http":
			addr = value
		case "--skills":
			dir = value
		case "--tools":
			options.Tools = append(options.Tools, strings.Split(value, ",")...)
		case "--workspace":
			folder = value
		case "--allow":
			allow += "," + value
		default:
			return cli.Usagef("there is no flag %s", name)
		}
	}
	var err error
	if options.Env, err = a.setUpEnv(folder); err != nil {
		return err
	}
	set := skills.Set{Git: native.Engine{}, Match: matchSchema}
	list, err := a.offeredSkills(&set, dir)
	if err != nil {
		return err
	}
	if allow != "" {
		if err := knownPermissions(allow[1:], list); err != nil {
			return err
		}
		options.Env.Grants = options.Env.Grants.And(skill.ParseGrants(allow[1:]))
	}
	release, err := guardSet(&set, options.Env)
	if err != nil {
		return err
	}
	defer release()
	server, err := mcp.New(list, options)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	cli.CancelAtSignal(cancel)
	if addr == "" {
		return server.Stdio(ctx, a.stdin, nopCloser{a.stdout})
	}
	return server.HTTP(ctx, addr, func(url string) {
		if err := cli.WriteJSON(a.stdout, map[string]string{"url": url}); err != nil {
			fmt.Fprintf(a.stderr, "spritekit mcp: %v\n", err)
			cancel()
		}
	})
}

// offeredSkills lists the built-in skills and those that lie in dir, by default the folder of this binary.
func (a app) offeredSkills(set *skills.Set, dir string) ([]mcp.Skill, error) {
	if dir == "" {
		self, err := os.Executable()
		if err != nil {
			return nil, fmt.Errorf("find this binary: %w", err)
		}
		dir = filepath.Dir(self)
	}
	var list []mcp.Skill
	for _, s := range set.All() {
		m, ok := manifests.Lookup(s.Name)
		if !ok {
			return nil, fmt.Errorf("this binary has no manifest of %s", s.Name)
		}
		list = append(list, mcp.Skill{Manifest: m, Serve: func(ctx context.Context, env skill.Env, streams skill.IO) int {
			return skill.Serve(ctx, s, m, env, streams)
		}})
	}
	warn := func(err error) { fmt.Fprintf(a.stderr, "spritekit mcp: %v\n", err) }
	for _, s := range dropin.List(dir, warn) {
		list = append(list, mcp.Skill{Manifest: s.Skill, Serve: set.Foreign(s.Skill, s.Command())})
	}
	return list, nil
}

// setUpEnv decides in which folder the skills work: the one that was named, by flag or by LATTICE_WORKSPACE; that of the
// sprite, where the server was started in it; else the folder in which it was started. The state that the runtime keeps about
// a folder of a person's lies outside of it.
func (a app) setUpEnv(folder string) (skill.Env, error) {
	env := a.env
	if folder == "" {
		if _, named := os.LookupEnv("LATTICE_WORKSPACE"); named {
			return env, nil
		}
		here, err := os.Getwd()
		if err != nil {
			return env, fault.NotFound("not_found", "spritekit mcp was started in a folder that is gone: %v", err).WithHint("say --workspace DIR")
		}
		if here == skill.DefaultWorkspace || strings.HasPrefix(here, skill.DefaultWorkspace+"/") {
			return env, nil
		}
		if home, err := os.UserHomeDir(); here == "/" || err == nil && here == filepath.Clean(home) {
			return env, skill.BadInput("", "spritekit mcp was started in %s, and its tools would work on all of that", here).
				WithHint("start it in the folder of a project, or say --workspace DIR")
		}
		folder = here
	}
	dir, err := filepath.Abs(folder)
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if info, serr := os.Stat(dir); err != nil || serr != nil || !info.IsDir() {
		return env, fault.NotFound("not_found", "%s is not a folder", folder).WithHint("say --workspace DIR")
	}
	env.Workspace = dir
	if env.State == "" {
		if env.State, err = stateOf(dir); err != nil {
			return env, fault.Failed("no_state", "%v", err).WithHint("set XDG_STATE_HOME or LATTICE_STATE")
		}
	}
	names := []string{"LATTICE_WORKSPACE=" + env.Workspace, "LATTICE_STATE=" + env.State}
	env.Child = append(slices.DeleteFunc(slices.Clone(env.Child), func(kv string) bool {
		return strings.HasPrefix(kv, "LATTICE_WORKSPACE=") || strings.HasPrefix(kv, "LATTICE_STATE=")
	}), names...)
	return env, nil
}

// stateOf returns the folder for the runtime's state of the folder dir: below the state directory of the user.
func stateOf(dir string) (string, error) {
	base := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(base) {
		home, err := os.UserHomeDir()
		if err != nil {
			return "", err
		}
		base = filepath.Join(home, ".local", "state")
	}
	sum := sha256.Sum256([]byte(dir))
	return filepath.Join(base, "spritekit", filepath.Base(dir)+"-"+hex.EncodeToString(sum[:6])), nil
}

// knownPermissions refuses a permission that no skill needs: it would grant nothing, without a word.
func knownPermissions(text string, list []mcp.Skill) error {
	known := append(manifests.Permissions(), "*")
	for _, k := range list {
		known = append(known, k.Manifest.AllPermissions()...)
	}
	for name := range strings.SplitSeq(text, ",") {
		if !slices.Contains(known, strings.TrimSpace(name)) {
			return skill.BadInput("", "--allow: there is no permission %q", name).WithHint("known: %s", strings.Join(manifests.Permissions(), ", "))
		}
	}
	return nil
}

// guardFlag makes "spritekit mcp" the guard of a server; see guard.
const guardFlag = "--guard"

// guardSet starts a process that ends the programs of this server's skills when the server itself is killed. It learns of
// that by the end of its stdin, and waits in a session of its own, so that it outlives a killed process group. A server
// that an agent in a sprite started needs none: the call of agent.run owns all processes.
func guardSet(set *skills.Set, env skill.Env) (release func(), err error) {
	if runtime.GOOS != "linux" || env.AgentCallID != "" {
		return func() {}, nil
	}
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("find this binary: %w", err)
	}
	mark := rand.Text()
	cmd := exec.Command(self, "mcp", guardFlag)
	cmd.Env = []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err == nil {
		_, err = io.WriteString(in, mark+"\n")
	}
	if err != nil {
		return nil, fmt.Errorf("start the guard of the server: %w", err)
	}
	set.Mark(mark)
	return func() {
		in.Close()
		_ = cmd.Wait() // it has nothing to tell
	}, nil
}

// guardMCP is the guard.
func (a app) guardMCP() error {
	in := bufio.NewReader(a.stdin)
	mark, err := in.ReadString('\n')
	if mark = strings.TrimSpace(mark); err != nil || mark == "" {
		return cli.Usagef("%s is for spritekit mcp itself", guardFlag)
	}
	_, _ = io.Copy(io.Discard, in) // until the server is gone
	skills.KillMarked(mark)
	return nil
}

// nopCloser leaves stdout open: it is the process's.
type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }
