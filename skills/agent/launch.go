package agent

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/skills/agent/acp"
	"github.com/spritekit/lattice/skills/agent/adapter"
	"github.com/spritekit/lattice/skills/agent/answer"
	"github.com/spritekit/lattice/skills/agent/record"
	"github.com/spritekit/lattice/skills/agent/tally"
	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/skills/relay"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/redact"
	"github.com/spritekit/lattice/spritekit/skill"
)

const stopGrace = 5 * time.Second

// ownServer is the name of our own MCP server.
const ownServer = "spritekit"

// launch is one start of an agent: its input, and the process that prepare makes of it.
type launch struct {
	call      *skill.Call
	reaper    *proc.Reaper
	in        input
	adapter   adapter.Adapter
	schema    answer.Schema
	self      binary
	session   session
	mode      string // of the session
	prompt    string
	task      string             // the prompt of the input
	asked     string             // its digest
	restart   string             // the prompt of a new session if this one cannot be resumed, "" if that is an error
	former    string             // record of the conversation before this invocation
	said      *record.Record     // and with it
	answers   []permissionAnswer // to requests for permission
	prior     tally.SoFar        // of earlier invocations of the same call
	inherited tally.SoFar        // the part of prior that another call took up to the turn from which this one goes on
	changed   []string           // files, by those
	began     time.Time
	pauses    int  // of the call at a usage limit, since the model last answered
	crashes   int  // of the agent, in this process
	crashed   bool // the agent, which goes on
	turns     *turns

	spec    proc.Spec
	secrets *redact.Secrets
	vars    adapter.Variables
	files   files
	offered bool         // the agent was given our MCP server
	servers []acp.Server // that an agent is given by the protocol
}

// findSelf returns the path of the spritekit binary, or "". Drop-in adapters and packs are in its folder, and agents start it
// as an MCP server.
func findSelf(c *skill.Call) binary {
	path := proc.Getenv(c.Env, "PATH", proc.DefaultPath) + string(filepath.ListSeparator) + "/skills"
	self, err := proc.LookPath("spritekit", path)
	if err != nil {
		return ""
	}
	if real, err := filepath.EvalSymlinks(self); err == nil {
		return binary(real)
	}
	return binary(self)
}

// binary is the path of the spritekit binary, "" if it was not found.
type binary string

// sibling returns the path of a file in the folder of the binary.
func (b binary) sibling(name string) string {
	if b == "" {
		return "/skills/" + name
	}
	return filepath.Join(filepath.Dir(string(b)), name)
}

// prepare fills in spec and writes the files that the agent reads. The caller must call files.undoAll, even after an error.
func (l *launch) prepare(ctx context.Context) (err error) {
	c, a := l.call, l.adapter
	l.spec, l.servers = proc.Spec{Tree: true, Grace: stopGrace}, nil
	if l.spec.Dir, err = proc.WorkDir(c, l.in.Cwd); err != nil {
		return err
	}
	home := proc.Getenv(c.Env, "HOME", "")
	if a.Home != "inherit" {
		l.session.Home = cmp.Or(l.session.Home, c.ID)
		l.files.home = homesDir + "/" + l.session.Home
		if err := l.files.writeHome(usedFile, []byte(c.ID+"\n")); err != nil {
			return err
		}
		home = c.Root.Own(l.files.home)
	}
	if l.spec.Env, err = l.buildEnv(home); err != nil {
		return err
	}
	program, err := l.findProgram()
	if err != nil {
		return err
	}
	l.vars = adapter.Variables{
		"agent": a.Name, "home": home, "cwd": l.spec.Dir, "workspace": c.Root.Dir(), "session": l.session.ID, "session_mode": l.mode,
		"new_session": newUUID(), "model": l.in.Model, "system_append": l.in.SystemAppend, "mode": l.in.Permissions.Mode,
		"allow": l.in.Permissions.Allow, "deny": l.in.Permissions.Deny, "extra_args": l.in.ExtraArgs,
	}
	left := l.in.Limits.After(l.prior)
	if n := left.MaxTurns; n > 0 {
		l.vars["max_turns"] = float64(n)
	}
	if usd := left.MaxCostUSD; usd > 0 {
		l.vars["max_cost_usd"] = usd
	}
	for _, name := range slices.Concat(a.EnvAllow, a.Secrets) {
		l.vars["env:"+name] = proc.Getenv(c.Env, name, "")
	}
	for _, step := range []func() error{l.offerServers, l.placeTexts, func() error { return l.newInstaller().installPacks(ctx, l.adapter, l.in.Packs) }, l.wordPrompt, l.writeConfig, l.moveSession, l.removeLocks, func() error { return confineAgent(l.call, l.in.ReadOnly, &l.spec) }} {
		if err := step(); err != nil {
			return err
		}
	}
	for name, value := range a.Env {
		if value := l.vars.Expand(value); value != "" {
			l.spec.Env = append(l.spec.Env, name+"="+value)
		}
	}
	if len(a.Programs) > 0 {
		l.spec.Argv = append(program, l.vars.Argv(a.Argv)...)
	} else {
		l.spec.Argv = program
	}
	return nil
}

// findProgram returns the input command for the agent "command", else the path of the agent's program.
func (l *launch) findProgram() ([]string, error) {
	if len(l.adapter.Programs) == 0 {
		_, argv, err := proc.Argv(l.in.Command, l.spec.Env)
		return argv, err
	}
	for _, name := range l.adapter.Programs {
		if found, err := proc.LookPath(name, proc.Getenv(l.spec.Env, "PATH", proc.DefaultPath)); err == nil {
			return []string{found}, nil
		}
	}
	return nil, fault.Unsupported("agent_missing", "%s is not on PATH", strings.Join(l.adapter.Programs, " or ")).
		WithHint("install it in the image, or put the folder that holds it on the sprite's PATH")
}

// buildEnv returns the environment of the agent except for the variables of its adapter: PATH, the identity of the call, and
// the variables that the adapter and the caller allow. It adds values that are keys to the secrets.
func (l *launch) buildEnv(home string) ([]string, error) {
	c := l.call
	env := []string{"PATH=" + proc.Getenv(c.Env, "PATH", proc.DefaultPath), "IS_SANDBOX=1"}
	if home != "" {
		env = append(env, "HOME="+home)
	}
	if l.files.home != "" { // the author of commits stays the same
		if outer := proc.Getenv(c.Env, "HOME", ""); outer != "" {
			env = append(env, "GIT_CONFIG_GLOBAL="+proc.Getenv(c.Env, "GIT_CONFIG_GLOBAL", filepath.Join(outer, ".gitconfig")))
		}
	}
	var keys []string
	pass := func(name string, secret bool) {
		if value := proc.Getenv(c.Env, name, ""); value != "" {
			env = append(env, name+"="+value)
			if secret {
				keys = append(keys, value)
			}
		}
	}
	for _, name := range append([]string{"LANG", "TERM"}, l.adapter.EnvAllow...) {
		pass(name, false)
	}
	for _, name := range l.adapter.Secrets {
		pass(name, true)
	}
	for i, name := range l.in.EnvAllow {
		if !proc.IsVariable(name) || strings.HasPrefix(name, "LATTICE_") {
			return nil, skill.BadInput(fmt.Sprintf("/env_allow/%d", i), "%q cannot be allowed", name)
		}
		pass(name, !slices.Contains(l.adapter.EnvAllow, name))
	}
	l.secrets = redact.New(keys...)
	for _, v := range l.identityVars() {
		env = append(env, v[0]+"="+v[1])
	}
	return env, nil
}

// identityVars returns the variables that make calls of the agent's skills nested calls of this one.
func (l *launch) identityVars() [][2]string { return relay.Identity(l.call, l.call.ID) }

// offerServers sets the variable mcp_servers to the entries of all MCP servers.
func (l *launch) offerServers() error {
	if !l.adapter.TakesServers() {
		return nil
	}
	entries := map[string]any{}
	add := func(name string, s mcpServer) {
		vars := adapter.Variables{
			"command": s.Command, "args": append([]string{}, s.Args...), "command_line": append([]string{s.Command}, s.Args...),
			"env": map[string]any{},
		}
		for key, value := range s.Env {
			vars["env"].(map[string]any)[key] = value
		}
		entries[name], _ = vars.Value(l.adapter.MCP)
		l.servers = append(l.servers, s.forProtocol(name))
	}
	for _, name := range slices.Sorted(maps.Keys(l.in.MCP.Servers)) {
		add(name, l.in.MCP.Servers[name])
	}
	asked := l.in.MCP.Spritekit
	tools, err := l.selectTools()
	switch {
	case err != nil:
		return err
	case asked != nil && !*asked || len(tools) == 0:
	case l.self != "":
		own := mcpServer{Command: string(l.self), Args: []string{"mcp", "--tools", strings.Join(tools, ",")}, Env: map[string]string{"PATH": proc.Getenv(l.spec.Env, "PATH", proc.DefaultPath)}}
		for _, v := range l.identityVars() {
			own.Env[v[0]] = v[1]
		}
		add(ownServer, own)
		l.offered = true
	case asked != nil:
		return fault.Unsupported("mcp_unavailable", "there is no spritekit on PATH or in /skills that the agent could start").
			WithHint("install it (spritekit install /skills), or set mcp.spritekit to false")
	default:
		l.call.Warn("mcp_unavailable", "the agent gets no skills as tools: there is no spritekit on PATH or in /skills")
	}
	l.vars["mcp_servers"] = entries
	return nil
}

// forProtocol returns the server as the Agent Client Protocol describes it.
func (s mcpServer) forProtocol(name string) acp.Server {
	server := acp.Server{Name: name, Command: s.Command, Args: append([]string{}, s.Args...), Env: []acp.Variable{}}
	for _, key := range slices.Sorted(maps.Keys(s.Env)) {
		server.Env = append(server.Env, acp.Variable{Name: key, Value: s.Env[key]})
	}
	return server
}

// defaultTools are the skills that an agent gets as tools unless the input names others. It has its own tools for files, git
// and programs.
var defaultTools = []string{"ask.user", "notify.user", "test.run"}

// selectTools returns the names and patterns of the skills that the agent gets as tools. A pattern without a match is refused:
// the server would fail to start, and the agent would work without it.
func (l *launch) selectTools() ([]string, error) {
	if l.in.Tools == nil {
		return defaultTools, nil
	}
	if asked := l.in.MCP.Spritekit; asked != nil && !*asked && len(l.in.Tools) > 0 {
		return nil, skill.BadInput("/tools", "names skills, and mcp.spritekit is false")
	}
	for i, pattern := range l.in.Tools {
		found := slices.ContainsFunc(manifests.Skills(), func(m manifests.Skill) bool {
			match, err := path.Match(pattern, m.Name)
			return err == nil && match
		})
		if beside, err := filepath.Glob(l.self.sibling(pattern)); err == nil && len(beside) > 0 && !strings.Contains(pattern, "/") {
			found = true
		}
		if !found || strings.Contains(pattern, ",") {
			return nil, skill.BadInput(fmt.Sprintf("/tools/%d", i), "%q names no skill", pattern).WithHint("such as fs.read or git.*; spritekit skills lists them")
		}
	}
	return l.in.Tools, nil
}

// wordPrompt completes the prompt with the parts of the input that the agent can get in no other way, and passes it on.
func (l *launch) wordPrompt() error {
	if l.in.SystemAppend != "" && !l.adapter.Uses("system_append") {
		l.prompt = l.in.SystemAppend + "\n\n" + l.prompt
	}
	if schema := l.in.OutputSchema; l.schema.Wanted() {
		file, err := l.files.writeScratch(".schema.json", schema)
		if err != nil {
			return err
		}
		l.vars["output_schema"], l.vars["output_schema_file"] = string(schema), file
		if l.adapter.Structured == "" {
			l.prompt += answer.AskForJSON(schema)
		}
	}
	switch {
	case l.adapter.Output == adapter.OutputACP:
		if l.mode == modeResume && l.in.Session.Mode == modeNew {
			l.restart = l.task + "\n\n" + l.prompt
			if l.former != "" {
				l.restart = record.Prompt(l.task, l.former, l.prompt)
			}

		}
		return nil
	case l.controlled():
		return nil
	case l.adapter.Prompt != "file":
		l.spec.Stdin = l.prompt
		return nil
	}
	file, err := l.files.writeScratch(".prompt", []byte(l.prompt))
	l.vars["prompt_file"] = file
	return err
}

// writeConfig writes the agent's configuration files.
func (l *launch) writeConfig() error {
	for _, f := range l.adapter.Files {
		var more map[string]any
		if f.Main {
			more = l.in.Config
		}
		data, err := l.vars.Render(f, more)
		if err != nil {
			return err
		}
		if err := l.files.writeHome(strings.TrimPrefix(f.Path, "{home}/"), data); err != nil {
			return err
		}
	}
	return nil
}

// pruneHomes bounds the number of homes; see [pruneOldHomes].
func (l *launch) pruneHomes() {
	if l.files.home == "" {
		return
	}
	if err := pruneOldHomes(l.call.Root, time.Now()); err != nil {
		l.call.Warn("not_cleaned_up", err.Error())
	}
}

// newUUID returns a random UUID (version 4).
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // it never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// moveSession gives the file of a session that is resumed the name that the adapter wants; see [adapter.SessionFile].
func (l *launch) moveSession() error {
	f := l.adapter.Session
	if f == nil || f.Moved == "" || l.mode != modeResume || l.files.home == "" {
		return nil
	}
	pattern, ok := expandSession(f.Path, l.session.ID)
	if !ok {
		return nil
	}
	found, err := filepath.Glob(l.call.Root.Own(l.files.home + pattern))
	if err != nil || len(found) == 0 {
		return nil // the agent says that there is no such session
	}
	newest := found[len(found)-1]
	name, _ := expandSession(f.Moved, l.session.ID)
	if to := filepath.Join(filepath.Dir(newest), name); to != newest {
		return l.call.Root.Rename(newest, to)
	}
	return nil
}
