package agent

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
	"slices"
	"strings"

	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

// adapter is all that there is to know about one agent. The built-in ones lie in adapters/, and users put theirs into
// /skills/agents/NAME.json, beside the spritekit binary, or hand one over as the input "adapter". Texts may hold
// {variables}; spritekit check, which takes the file of an adapter, lists them where one is not known.
type adapter struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`

	Programs []string          `json:"programs,omitempty"` // the first one on PATH is run; none: the input "command" is
	Argv     []part            `json:"argv,omitempty"`
	Prompt   string            `json:"prompt,omitempty"` // stdin (default), file: its name is {prompt_file}
	Home     string            `json:"home,omitempty"`   // private (default): one per session; inherit: the sprite's
	Env      map[string]string `json:"env,omitempty"`
	EnvAllow []string          `json:"env_allow,omitempty"` // variables of ours that the agent sees when they are set
	Secrets  []string          `json:"secrets,omitempty"`   // the same, and their values are redacted everywhere
	Files    []configFile      `json:"files,omitempty"`     // written before the agent starts
	Modes    []string          `json:"modes,omitempty"`     // of input permissions.mode that argv or files tell apart
	MCP      map[string]any    `json:"mcp,omitempty"`       // one server's entry; all are the variable mcp_servers

	Instructions []string        `json:"instructions,omitempty"` // files that the agent reads by itself
	Skills       []string        `json:"skills,omitempty"`       // folders in which it looks for Agent Skills
	Packs        map[string]pack `json:"packs,omitempty"`

	Output     string            `json:"output,omitempty"` // events: a line of JSON each (default); document: one JSON value; text
	Events     []rule            `json:"events,omitempty"`
	Limits     map[string]string `json:"limits,omitempty"`     // the agent's word for an end at one of our limits
	Causes     []cause           `json:"causes,omitempty"`     // what texts of errors mean
	Cumulative []string          `json:"cumulative,omitempty"` // usage, cost: reported for the session, not for the invocation
	Structured string            `json:"structured,omitempty"` // native: argv has {output_schema}; text: it is the final text; else asked for in the prompt
	Resumes    bool              `json:"resumes,omitempty"`    // argv knows the modes resume and fork
	LingerS    float64           `json:"linger_s,omitempty"`   // how long it may live on after its last word; default 10
}

// part of a command line: a word; or words that are there when a variable is set or has a value; or all of a list.
type part struct {
	If   string   `json:"if,omitempty"` // NAME or NAME=VALUE
	Args []string `json:"args,omitempty"`
	List string   `json:"list,omitempty"`
}

func (p *part) UnmarshalJSON(raw []byte) error {
	var word string
	if json.Unmarshal(raw, &word) == nil {
		*p = part{Args: []string{word}}
		return nil
	}
	type plain part
	return strictly(raw, (*plain)(p))
}

// configFile is a file in the session's home that is written before the agent starts.
type configFile struct {
	Path    string          `json:"path"`
	Format  string          `json:"format,omitempty"` // json (default), toml
	Content json.RawMessage `json:"content"`
	// Main marks the one that the input "config" is merged into.
	Main bool `json:"main,omitempty"`
}

// cause says what a text in an error means: auth, rate_limit, unavailable or no_session.
type cause struct {
	Contains []string `json:"contains"`
	Is       string   `json:"is"`
}

// pack is a set of prompts that a package installs.
type pack struct {
	Package string   `json:"package"` // its folder's name
	Argv    []string `json:"argv"`    // {pack} is where it was found
}

//go:embed adapters/*.json
var builtin embed.FS

const maxAdapter = 256 << 10

// findAdapter looks an agent up: inline, among ours, in dir.
func findAdapter(in input, dir string) (adapter, error) {
	name := in.Agent
	if name == "" {
		name = agentCommand
	}
	if len(in.Adapter) > 0 && string(in.Adapter) != "null" {
		return parseAdapter(in.Adapter, "", inInput)
	}
	if name != path.Base(name) || strings.HasPrefix(name, ".") {
		return adapter{}, skill.BadInput("/agent", "%.100q is no name of an agent", name)
	}
	if raw, err := builtin.ReadFile("adapters/" + name + ".json"); err == nil {
		return parseAdapter(raw, name, "the built-in adapter "+name)
	}
	file := filepath.Join(dir, name+".json")
	info, err := os.Lstat(file)
	if err == nil && info.Mode().IsRegular() && info.Size() <= maxAdapter {
		raw, err := os.ReadFile(file)
		if err != nil {
			return adapter{}, fmt.Errorf("read an adapter: %w", err)
		}
		return parseAdapter(raw, name, file)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) && dir != "" {
		return adapter{}, fmt.Errorf("read an adapter: %w", err)
	}
	known, _ := builtin.ReadDir("adapters")
	var names []string
	for _, e := range known {
		names = append(names, strings.TrimSuffix(e.Name(), ".json"))
	}
	return adapter{}, fault.Unsupported("unsupported", "there is no agent %q", name).
		WithHint("known are %s; describe another one in %s", strings.Join(names, ", "), cmpOr(file, "/skills/agents/NAME.json"))
}

func cmpOr(a, b string) string {
	if strings.HasPrefix(a, "/") {
		return a
	}
	return b
}

// inInput is where an adapter lies that the input brings.
const inInput = "/adapter"

// parseAdapter reads an adapter strictly. where names it in what is wrong.
func parseAdapter(raw []byte, name, where string) (adapter, error) {
	a, problems := readAdapter(raw, name)
	if len(problems) > 0 {
		return a, badAdapter(where, problems)
	}
	return a, nil
}

func badAdapter(where string, problems []protocol.Problem) error {
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

func strictly(raw []byte, v any) error {
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

// check returns all that is wrong with an adapter.
func (a adapter) check() []protocol.Problem {
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
			wrong(pointer, "names {%s}, which is no variable; there are %s and env:NAME", name, strings.Join(variableNames(), ", "))
		}
	}
	if a.Name == "" || strings.ContainsFunc(a.Name, func(r rune) bool {
		return !('a' <= r && r <= 'z' || '0' <= r && r <= '9' || strings.ContainsRune("-_.", r))
	}) {
		wrong("/name", "is not made of lower-case letters, digits, -, _ and .")
	}
	oneOf("/prompt", a.Prompt, "stdin", "file")
	oneOf("/home", a.Home, "private", "inherit")
	oneOf("/output", a.Output, "events", "document", "text")
	if a.LingerS < 0 {
		wrong("/linger_s", "is negative")
	}
	oneOf("/structured", a.Structured, "native", "text")
	for i, p := range a.Argv {
		at := fmt.Sprintf("/argv/%d", i)
		if name, _, _ := strings.Cut(p.If, "="); p.If != "" && !isVariableName(name) {
			wrong(at+"/if", "names %q, which is no variable", name)
		}
		if p.List != "" && !isVariableName(p.List) {
			wrong(at+"/list", "names %q, which is no variable", p.List)
		}
		for _, word := range p.Args {
			if text(at, word); strings.Contains(word, "{prompt}") {
				wrong(at, "puts the prompt on the command line, where all can read it and long ones do not fit")
			}
		}
	}
	for name, value := range a.Env {
		if !isVariable(name) || strings.HasPrefix(name, "LATTICE_") {
			wrong("/env/"+name, "is no variable that an adapter may set")
		}
		text("/env/"+name, value)
	}
	for i, name := range slices.Concat(a.EnvAllow, a.Secrets) {
		if !isVariable(name) || strings.HasPrefix(name, "LATTICE_") {
			wrong(fmt.Sprintf("/env_allow/%d", i), "%q cannot be allowed", name)
		}
	}
	for i, f := range a.Files {
		at := fmt.Sprintf("/files/%d", i)
		if !strings.HasPrefix(f.Path, "{home}/") || strings.Contains(f.Path, "..") || a.Home == "inherit" {
			wrong(at+"/path", "%q does not lie in the session's private {home}", f.Path)
		}
		oneOf(at+"/format", f.Format, "json", "toml")
		var content map[string]any
		if json.Unmarshal(f.Content, &content) != nil {
			wrong(at+"/content", "is no object")
		}
	}
	for i, p := range slices.Concat(a.Instructions, a.Skills) {
		if !strings.HasPrefix(p, "{home}/") && !strings.HasPrefix(p, "{cwd}/") || strings.Contains(p, "..") {
			wrong(fmt.Sprintf("/instructions/%d", i), "%q lies neither in {home} nor in {cwd}", p)
		}
	}
	for i, r := range a.Events {
		for _, p := range r.check() {
			wrong(fmt.Sprintf("/events/%d", i)+p.Pointer, "%s", p.Message)
		}
	}
	if a.Output != "text" && len(a.Programs) > 0 && !slices.ContainsFunc(a.Events, func(r rule) bool { return r.Is == kindEnd }) {
		wrong("/events", "has no rule for the end, by which the verdict is found; output text judges by the exit code alone")
	}
	for i, c := range a.Causes {
		oneOf(fmt.Sprintf("/causes/%d/is", i), c.Is, causeAuth, causeRate, causeUnavailable, causeNoSession)
	}
	for i, c := range a.Cumulative {
		oneOf(fmt.Sprintf("/cumulative/%d", i), c, "usage", "cost")
	}
	return problems
}

// The meanings of errors.
const (
	causeAuth        = "auth"
	causeRate        = "rate_limit"
	causeUnavailable = "unavailable"
	causeNoSession   = "no_session"
)
