// Package adapter describes coding agents as data: how one is started, which files it reads, and how its output is
// understood. Begin with [Adapter] and [Find]. [Check] judges an adapter that a user wrote; rules.go turns a line of output
// into an [Event], and variables.go expands {variables} in command lines and configuration files. Nothing here starts a
// program.
package adapter

import (
	"bytes"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

// Adapter describes one agent. The built-in adapters are in adapters/. Users put theirs into /skills/agents/NAME.json, next to
// the spritekit binary, or pass one as the input "adapter". Texts may contain {variables}; spritekit check takes the file of
// an adapter and lists the variables if a text names an unknown one.
type Adapter struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`

	Programs []string          `json:"programs,omitempty"` // the first one on PATH is run; none: the input "command" is
	Argv     []Part            `json:"argv,omitempty"`
	Prompt   string            `json:"prompt,omitempty"` // stdin (default), file: its name is {prompt_file}
	Home     string            `json:"home,omitempty"`   // private (default): one per session; inherit: the sprite's
	Env      map[string]string `json:"env,omitempty"`
	EnvAllow []string          `json:"env_allow,omitempty"` // our variables that the agent gets if they are set
	Secrets  []string          `json:"secrets,omitempty"`   // the same, and their values are redacted everywhere
	Files    []ConfigFile      `json:"files,omitempty"`     // written before the agent starts
	Modes    []string          `json:"modes,omitempty"`     // of input permissions.mode that argv or files tell apart
	Asks     string            `json:"asks,omitempty"`      // in mode ask it takes the prompt and asks for permission as Claude Code does (control) or the app server of Codex (app_server)
	MCP      map[string]any    `json:"mcp,omitempty"`       // one server's entry; all are the variable mcp_servers

	Instructions []string        `json:"instructions,omitempty"` // files that the agent reads by itself
	Skills       []string        `json:"skills,omitempty"`       // folders in which it looks for Agent Skills
	Packs        map[string]Pack `json:"packs,omitempty"`

	Output     string            `json:"output,omitempty"`    // events: a line of JSON each (default); document: one JSON value; text; acp
	OwnFiles   bool              `json:"own_files,omitempty"` // acp: it reads and writes files itself instead of asking us
	Events     []Rule            `json:"events,omitempty"`
	Limits     map[string]string `json:"limits,omitempty"`     // by the reason that the agent gives: which of our limits it reached
	Causes     []Cause           `json:"causes,omitempty"`     // meanings of error texts
	Cumulative []string          `json:"cumulative,omitempty"` // usage, cost: reported for the session, not for the invocation
	Structured string            `json:"structured,omitempty"` // native: argv has {output_schema}; text: it is the final text; else asked for in the prompt
	Resumes    bool              `json:"resumes,omitempty"`    // argv knows the modes resume and fork
	Session    *SessionFile      `json:"session,omitempty"`    // without it a run cannot go back to single turns
	Locks      []string          `json:"locks,omitempty"`      // patterns of files in {home} that it leaves when it is killed, and would wait for
	LingerS    float64           `json:"linger_s,omitempty"`   // seconds in which it must exit after its last event; default 10
}

// SessionFile is the file to which an agent that resumes appends the messages of a session, one per line.
type SessionFile struct {
	Path   string `json:"path"`   // in {home}; it may hold {session}, {session_head} (8 letters) and patterns such as *
	Result string `json:"result"` // a text that the file has once for each result of a tool, and nowhere else
	// Named says that each Result is followed by the id of the call, as events name it, in quotes.
	Named bool `json:"named,omitempty"`
	// Call is a regular expression that matches once for each call that gets a result, for agents that neither name their results nor
	// report all of them.
	Call string `json:"call,omitempty"`
	// Moved is a name under which the agent also finds the file, and behind all others that Path matches. The file gets it before
	// the session is resumed, for agents that would begin a file of the same name then.
	Moved string `json:"moved,omitempty"`
}

// OutputACP is the output of an agent that speaks the Agent Client Protocol on stdin and stdout; see package acp. Its rules
// need to find only the events that the protocol does not know. It is given MCP servers by the protocol.
const OutputACP = "acp"

// Protocols by which an agent asks for permission.
const (
	AsksControl   = "control"    // package control
	AsksAppServer = "app_server" // package appserver
)

// TakesServers reports whether the agent can be given MCP servers.
func (a Adapter) TakesServers() bool { return len(a.MCP) > 0 || a.Output == OutputACP }

// Cause maps texts of an error to a meaning: auth, rate_limit, unavailable or no_session.
type Cause struct {
	Contains []string `json:"contains"`
	Is       string   `json:"is"`
}

// Pack is a set of prompts that a package installs.
type Pack struct {
	Package string   `json:"package"` // name of its folder
	Argv    []string `json:"argv"`    // {pack} is where it was found
}

//go:embed adapters/*.json
var builtin embed.FS

const maxAdapter = 256 << 10

// Find returns the adapter of an agent: the inline one unless it is absent, else the built-in one, else NAME.json in dir.
func Find(name string, inline json.RawMessage, dir string) (Adapter, error) {
	if len(inline) > 0 && string(inline) != "null" {
		return parseStrictly(inline, "", inInput)
	}
	if name != path.Base(name) || strings.HasPrefix(name, ".") {
		return Adapter{}, skill.BadInput("/agent", "%.100q is not the name of an agent", name)
	}
	if raw, err := builtin.ReadFile("adapters/" + name + ".json"); err == nil {
		return parseStrictly(raw, name, "the built-in adapter "+name)
	}
	file := filepath.Join(dir, name+".json")
	info, err := os.Lstat(file)
	if err == nil && info.Mode().IsRegular() && info.Size() <= maxAdapter {
		raw, err := os.ReadFile(file)
		if err != nil {
			return Adapter{}, fmt.Errorf("read an adapter: %w", err)
		}
		return parseStrictly(raw, name, file)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) && dir != "" {
		return Adapter{}, fmt.Errorf("read an adapter: %w", err)
	}
	if !filepath.IsAbs(file) {
		file = "/skills/agents/NAME.json"
	}
	known, _ := builtin.ReadDir("adapters")
	var names []string
	for _, e := range known {
		names = append(names, strings.TrimSuffix(e.Name(), ".json"))
	}
	return Adapter{}, fault.Unsupported("unsupported", "there is no agent %q", name).
		WithHint("known are %s; describe another one in %s", strings.Join(names, ", "), file)
}

// inInput is the pointer of an inline adapter in the input.
const inInput = "/adapter"

// parseStrictly reads an adapter; see [Check]. An error calls it where.
func parseStrictly(raw []byte, name, where string) (Adapter, error) {
	a, problems := readAdapter(raw, name)
	if len(problems) > 0 {
		return a, newProblemsError(where, problems)
	}
	return a, nil
}

func newProblemsError(where string, problems []protocol.Problem) error {
	var all []string
	for _, p := range problems {
		all = append(all, strings.TrimSpace(p.Pointer+" "+p.Message))
	}
	e := skill.BadInput("/agent", "%s is wrong: %s", where, strings.Join(all, "; "))
	if where == inInput {
		e = skill.BadInput(inInput, "is wrong: %s", strings.Join(all, "; "))
	}
	e.Code = "bad_adapter"
	return e.WithHint("spritekit check FILE.json names all that is wrong with one; its schema is adapter.schema.json").
		WithDetails(map[string]any{"problems": problems})
}

func decodeStrictly(raw []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return err
	}
	if d.More() {
		return errors.New("it has more than one JSON value")
	}
	return nil
}

// check returns the problems of an adapter whose members have the right types.
func (a Adapter) check() []protocol.Problem {
	var problems []protocol.Problem
	wrong := func(pointer, format string, args ...any) {
		problems = append(problems, protocol.Problem{Pointer: pointer, Message: fmt.Sprintf(format, args...)})
	}
	oneOf := func(pointer, value string, allowed ...string) {
		if value != "" && !slices.Contains(allowed, value) {
			wrong(pointer, "is %q, not one of %s", value, strings.Join(allowed, ", "))
		}
	}
	text := func(pointer, s string) {
		for _, name := range unknownVariables(s) {
			wrong(pointer, "names {%s}, an unknown variable; known are %s and env:NAME", name, strings.Join(variableNames(), ", "))
		}
	}
	if a.Name == "" || strings.ContainsFunc(a.Name, func(r rune) bool {
		return !('a' <= r && r <= 'z' || '0' <= r && r <= '9' || strings.ContainsRune("-_.", r))
	}) {
		wrong("/name", "is not made of lower-case letters, digits, -, _ and .")
	}
	oneOf("/prompt", a.Prompt, "stdin", "file")
	oneOf("/home", a.Home, "private", "inherit")
	oneOf("/output", a.Output, "events", "document", "text", OutputACP)
	if a.Output == OutputACP && a.Prompt != "" {
		wrong("/prompt", "has no effect: with output acp the prompt is a message")
	}
	if a.OwnFiles && a.Output != OutputACP {
		wrong("/own_files", "has no effect without output acp")
	}
	if a.LingerS < 0 {
		wrong("/linger_s", "is negative")
	}
	oneOf("/asks", a.Asks, AsksControl, AsksAppServer)
	if a.Asks != "" && (!slices.Contains(a.Modes, "ask") || a.Prompt == "file" || a.Output != "" && a.Output != "events") {
		wrong("/asks", "needs the mode ask, events as output, and a prompt on stdin")
	}
	oneOf("/structured", a.Structured, "native", "text")
	for i, p := range a.Argv {
		at := fmt.Sprintf("/argv/%d", i)
		for condition := range strings.SplitSeq(p.If, ",") {
			name, _, _ := strings.Cut(condition, "=")
			if name = strings.TrimSuffix(name, "!"); p.If != "" && !isVariableName(name) {
				wrong(at+"/if", "names %q, an unknown variable", name)
			}
		}
		if p.List != "" && !isVariableName(p.List) {
			wrong(at+"/list", "names %q, an unknown variable", p.List)
		}
		for _, word := range p.Args {
			if text(at, word); strings.Contains(word, "{prompt}") {
				wrong(at, "puts the prompt on the command line, where every process can read it and a long one does not fit")
			}
		}
	}
	for name, value := range a.Env {
		if !proc.IsVariable(name) || strings.HasPrefix(name, "LATTICE_") {
			wrong("/env/"+name, "is not a variable that an adapter may set")
		}
		text("/env/"+name, value)
	}
	allowed := func(pointer string, names []string) {
		for i, name := range names {
			if !proc.IsVariable(name) || strings.HasPrefix(name, "LATTICE_") {
				wrong(fmt.Sprintf("%s/%d", pointer, i), "%q cannot be allowed", name)
			}
		}
	}
	allowed("/env_allow", a.EnvAllow)
	allowed("/secrets", a.Secrets)
	for i, f := range a.Files {
		at := fmt.Sprintf("/files/%d", i)
		if !strings.HasPrefix(f.Path, "{home}/") || strings.Contains(f.Path, "..") || a.Home == "inherit" {
			wrong(at+"/path", "%q does not lie in the session's private {home}", f.Path)
		}
		oneOf(at+"/format", f.Format, "json", "toml")
		var content map[string]any
		if json.Unmarshal(f.Content, &content) != nil {
			wrong(at+"/content", "is not an object")
		}
	}
	if f := a.Session; f != nil && (!strings.HasPrefix(f.Path, "{home}/") || strings.Contains(f.Path, "..") || f.Result == "" || strings.Contains(f.Moved, "/") || a.Home == "inherit" || !a.Resumes) {
		wrong("/session", "needs a path in the session's private {home}, the text of a result, and an agent that resumes")
	}
	if f := a.Session; f != nil {
		if _, err := regexp.Compile(f.Call); err != nil {
			wrong("/session/call", "is not a regular expression: %v", err)
		}
	}
	for i, p := range a.Locks {
		if _, err := path.Match(p, ""); err != nil || !strings.HasPrefix(p, "{home}/") || strings.Contains(p, "..") || a.Home == "inherit" {
			wrong(fmt.Sprintf("/locks/%d", i), "%q is not a pattern of files in the session's private {home}", p)
		}
	}
	placed := func(pointer string, paths []string) {
		for i, p := range paths {
			if !strings.HasPrefix(p, "{home}/") && !strings.HasPrefix(p, "{cwd}/") || strings.Contains(p, "..") {
				wrong(fmt.Sprintf("%s/%d", pointer, i), "%q lies neither in {home} nor in {cwd}", p)
			}
		}
	}
	placed("/instructions", a.Instructions)
	placed("/skills", a.Skills)
	for i, r := range a.Events {
		for _, p := range r.check() {
			wrong(fmt.Sprintf("/events/%d", i)+p.Pointer, "%s", p.Message)
		}
	}
	if a.Output != "text" && a.Output != OutputACP && len(a.Programs) > 0 && !slices.ContainsFunc(a.Events, func(r Rule) bool { return r.Is == KindEnd }) {
		wrong("/events", "has no rule for the end, which decides the verdict; with output text the exit code alone decides")
	}
	for i, c := range a.Causes {
		oneOf(fmt.Sprintf("/causes/%d/is", i), c.Is, CauseAuth, CauseRate, CauseUnavailable, CauseNoSession)
	}
	for i, c := range a.Cumulative {
		oneOf(fmt.Sprintf("/cumulative/%d", i), c, "usage", "cost")
	}
	return problems
}

// The meanings of an error; see [Cause].
const (
	CauseAuth        = "auth"
	CauseRate        = "rate_limit"
	CauseUnavailable = "unavailable"
	CauseNoSession   = "no_session"
)

// CauseOf returns the meaning of an error text, "" if it is not known.
func (a Adapter) CauseOf(words string) string {
	for _, c := range a.Causes {
		for _, text := range c.Contains {
			if strings.Contains(words, text) {
				return c.Is
			}
		}
	}
	return ""
}

// Uses reports whether the adapter names a variable.
func (a Adapter) Uses(name string) bool {
	raw, err := json.Marshal(a)
	return err == nil && strings.Contains(string(raw), "{"+name+"}")
}

// HasMain reports whether one of the files takes the input "config".
func (a Adapter) HasMain() bool {
	return slices.ContainsFunc(a.Files, func(f ConfigFile) bool { return f.Main })
}

// Check returns the problems of an adapter that a user wrote. name is the name of its file without .json and must be that of
// the adapter, unless it is empty.
func Check(name string, raw []byte) []protocol.Problem {
	_, problems := readAdapter(raw, name)
	return problems
}

// Type returns the type of adapters, from which their schema is generated.
func Type() reflect.Type { return reflect.TypeFor[Adapter]() }

// readAdapter decodes an adapter and returns it with its problems; unknown members are problems.
func readAdapter(raw []byte, name string) (a Adapter, problems []protocol.Problem) {
	raw = bytes.TrimSpace(raw)
	if !json.Valid(raw) {
		var any json.RawMessage
		return a, []protocol.Problem{{Message: fmt.Sprintf("is not JSON: %v", json.Unmarshal(raw, &any))}}
	}
	if problems = findMisfits(Type(), raw, ""); len(problems) > 0 {
		return a, problems
	}
	if err := json.Unmarshal(raw, &a); err != nil {
		return a, []protocol.Problem{{Message: err.Error()}}
	}
	if name != "" && a.Name != name {
		return a, []protocol.Problem{{Pointer: "/name", Message: fmt.Sprintf("is %q, but the file is named after %q", a.Name, name)}}
	}
	return a, a.check()
}
