// Package worker decides which workers react to the tasks of a board. A worker is a flow that runs on the commit of a task and
// leaves a report; its definition is a TOML file in .lattice/workers (seed workers-design, "Worker Definitions").
//
// Start with [Load] and [Definition.Due]. The package starts nothing: lattice worker does. trigger.go decides when a worker starts,
// queue.go keeps the requests for workers, and report.go writes the report of one that has ended.
package worker

import (
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/spritekit/lattice/orchestrator/board"
	"github.com/spritekit/lattice/orchestrator/tomlkey"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Dir is the folder of a repository that holds its definitions.
const Dir = ".lattice/workers"

// Engines are the agents that a definition can name. The engine script runs a command in the agent's place.
var Engines = []string{"claude", "codex", "gemini", "opencode", "script"}

// Definition is a worker.
type Definition struct {
	Schema    string    `toml:"$schema" json:"$schema,omitempty"` // for editors
	Worker    Identity  `toml:"worker" json:"worker"`
	Trigger   Trigger   `toml:"trigger" json:"trigger,omitzero"`
	Execution Execution `toml:"execution" json:"execution"`
	Output    Output    `toml:"output" json:"output,omitzero"`
	File      string    `toml:"-" json:"-"` // "" for a built-in one
}

// Places are the values of execution.place.
const (
	PlaceSprite   = "sprite"
	PlaceWorktree = "worktree"
)

// agentState holds the files below the home folder that an engine changes.
var agentState = map[string][]string{
	"claude": {"~/.claude", "~/.claude.json"}, "codex": {"~/.codex"}, "gemini": {"~/.gemini"},
	"opencode": {"~/.cache/opencode", "~/.config/opencode", "~/.local/share/opencode", "~/.local/state/opencode"},
}

// WritablePaths returns the paths that the command of the worker can change in a worktree.
func (d Definition) WritablePaths(worktree, home string) (paths []string) {
	for _, name := range d.listWritable() {
		switch below, inHome := strings.CutPrefix(name, "~/"); {
		case name == ".":
			paths = append(paths, worktree)
		case !inHome:
			paths = append(paths, name)
		case home != "":
			paths = append(paths, path.Join(home, below))
		}
	}
	return paths
}

// listWritable returns the paths that the command can change, as a definition names them.
func (d Definition) listWritable() []string {
	return slices.Concat(agentState[d.Execution.Engine], d.Execution.Writable)
}

// IsLocal reports whether the command of the worker runs on this machine, without a sprite.
func (d Definition) IsLocal() bool { return d.Execution.Place == PlaceWorktree }

// TrustDigest returns the digest by which a person trusts the command of a worker that runs on this machine, "" for other workers. It
// covers all that the command can change, also the state of its engine.
func (d Definition) TrustDigest() string {
	if !d.IsLocal() {
		return ""
	}
	words := append([]string{"worker", d.Worker.Name, d.Execution.Command, d.Execution.PromptFile}, d.listWritable()...)
	sum := sha256.Sum256([]byte(strings.Join(words, "\x00")))
	return hex.EncodeToString(sum[:])
}

// Identity is the name under which a worker appears.
type Identity struct {
	Name        string `toml:"name" json:"name"`
	Description string `toml:"description" json:"description,omitempty"`
	Actor       string `toml:"actor" json:"actor,omitempty"` // of the events that it causes
}

// Execution is the work.
type Execution struct {
	Flow    string `toml:"flow" json:"flow,omitempty"` // default: code-review
	Engine  string `toml:"engine" json:"engine,omitempty"`
	Command string `toml:"command" json:"command,omitempty"` // of the engine script; others accept their own name, such as "claude -p"
	// PromptFile is a file of the repository. It is read from the base commit, since the reviewed one could have changed it.
	PromptFile string `toml:"prompt_file" json:"prompt_file,omitempty"`
	// Place is where the work runs: sprite (default), or worktree for a git worktree of this machine.
	Place string `toml:"place" json:"place,omitempty"`
	// Writable names paths that the command in a worktree can change, besides the state of its engine: . for the worktree, ~/PATH, /PATH.
	Writable []string `toml:"writable" json:"writable,omitempty"`
	// Worktree must be true: a worker sees the commit and not the files that change while it works.
	Worktree       bool `toml:"worktree" json:"worktree"`
	TimeoutMinutes int  `toml:"timeout_minutes" json:"timeout_minutes"`
	// Merge says that the worker sees the merge of the commit into the branch lattice/merge-queue, and that the branch advances to the
	// merge if the run succeeds. Such a worker runs on one task at a time.
	Merge bool `toml:"merge" json:"merge,omitempty"`
}

// Output is the report.
type Output struct {
	ArtifactRole string `toml:"artifact_role" json:"artifact_role,omitempty"`
	ReportPrefix string `toml:"report_prefix" json:"report_prefix,omitempty"`
	ReportDir    string `toml:"report_dir" json:"report_dir,omitempty"`
	// Apply says that the outputs comment, priority, type and labels of the flow change the task. Without artifact_role there is then no
	// report.
	Apply bool `toml:"apply" json:"apply,omitempty"`
}

// HasReport reports whether the worker leaves a report.
func (o Output) HasReport() bool { return o.ArtifactRole != "" || !o.Apply }

//go:embed builtin/*.toml
var builtin embed.FS

// maxDefinition bounds a definition, in bytes.
const maxDefinition = 64 << 10

// Load returns the built-in definitions and those of a repository, sorted by name. One of the repository replaces a built-in
// one of the same name. A definition or a setting of the board that could never start a worker is an error.
func Load(repository fs.FS, c board.Config) ([]Definition, error) {
	all := map[string]Definition{}
	for _, from := range []struct {
		files    fs.FS
		dir      string
		own      bool
		statuses []string
	}{{builtin, "builtin", false, nil}, {repository, Dir, true, c.Workflow.Statuses}} {
		entries, err := fs.ReadDir(from.files, from.dir)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("list the workers: %w", err)
		}
		seen := map[string]string{}
		for _, e := range entries {
			name := path.Join(from.dir, e.Name())
			if !strings.HasSuffix(name, ".toml") {
				continue
			}
			d, err := readDefinition(from.files, name, from.statuses)
			if err != nil {
				return nil, err
			}
			key := strings.ToLower(d.Worker.Name)
			if other := seen[key]; other != "" {
				return nil, badDefinition(name, 0, "the worker %s is in %s as well", d.Worker.Name, other)
			}
			seen[key] = name
			if from.own {
				d.File = name
			}
			all[key] = d
		}
	}
	list := make([]Definition, 0, len(all))
	for _, d := range all {
		list = append(list, d)
	}
	slices.SortFunc(list, func(a, b Definition) int { return cmp.Compare(a.Worker.Name, b.Worker.Name) })
	named := slices.Clone(c.Workers)
	for _, p := range c.WorkerPolicies {
		named = append(named, p.Default, cmp.Or(p.EscalateTo, p.Default))
	}
	for _, name := range slices.Sorted(slices.Values(named)) {
		if _, err := Find(list, name); err != nil {
			return nil, fault.BadInput("worker_invalid", "config.json of the board names the worker %s, which does not exist", name).WithHint("%s", fault.As(err).Fault.Hint)
		}
	}
	return list, nil
}

// Find returns the definition with a name, in any case of letters.
func Find(all []Definition, name string) (Definition, error) {
	var names []string
	for _, d := range all {
		if strings.EqualFold(d.Worker.Name, name) {
			return d, nil
		}
		names = append(names, d.Worker.Name)
	}
	return Definition{}, fault.NotFound("worker_not_found", "there is no worker %s", name).WithHint("one of %s", strings.Join(names, ", "))
}

// badDefinition returns the error of a definition; line is 0 if it is about the whole file.
func badDefinition(file string, line int, format string, args ...any) error {
	text := fmt.Sprintf(format, args...)
	if line > 0 {
		text = fmt.Sprintf("line %d: %s", line, text)
	}
	return fault.BadInput("worker_invalid", "read %s: %s", file, text).WithHint("lattice worker --help")
}

// readDefinition reads the definition in a file. Its trigger names one of the statuses; nil allows each.
func readDefinition(files fs.FS, name string, statuses []string) (d Definition, err error) {
	f, err := files.Open(name)
	if err != nil {
		return d, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxDefinition+1))
	if err != nil {
		return d, err
	}
	if len(text) > maxDefinition {
		return d, badDefinition(name, 0, "it has more than %d bytes", maxDefinition)
	}
	return parseDefinition(name, string(text), statuses)
}

// parseDefinition reads a definition and completes it.
func parseDefinition(file, text string, statuses []string) (d Definition, err error) {
	meta, err := toml.Decode(text, &d)
	if err != nil {
		return d, badDefinition(file, 0, "%s", strings.TrimPrefix(err.Error(), "toml: ")) // it names the line
	}
	lines := tomlkey.Parse(text)
	if unknown := meta.Undecoded(); len(unknown) > 0 {
		return d, badDefinition(file, lines.Of(unknown[0].String()), "it has the unknown member %s", unknown[0])
	}
	if d.Execution.Place = cmp.Or(d.Execution.Place, PlaceSprite); d.Execution.Place == PlaceSprite {
		d.Execution.Flow = cmp.Or(d.Execution.Flow, "code-review")
	}
	d.Output.ReportPrefix, d.Output.ReportDir = cmp.Or(d.Output.ReportPrefix, "REPORT"), cmp.Or(d.Output.ReportDir, "notes")
	d.Worker.Actor = cmp.Or(d.Worker.Actor, "worker:"+d.Worker.Name)
	for _, problem := range []string{d.findProblem(), d.Trigger.findProblem(statuses)} {
		if problem != "" { // it begins with the key
			key, _, _ := strings.Cut(problem, " ")
			return d, badDefinition(file, lines.Of(strings.TrimSuffix(key, ":")), "%s", problem)
		}
	}
	return d, nil
}

// findProblem says why the definition is not valid, beginning with a key; "" if it is. It leaves out the trigger.
func (d Definition) findProblem() string {
	x := d.Execution
	word, _, _ := strings.Cut(x.Command, " ")
	switch {
	case d.Worker.Name == "" || strings.ContainsAny(d.Worker.Name, " /\\\n\x00"):
		return fmt.Sprintf("worker.name is %q, not a word", d.Worker.Name)
	case board.CheckActor(d.Worker.Actor) != nil:
		return fmt.Sprintf("worker.actor: %v", board.CheckActor(d.Worker.Actor))
	case strings.Contains(x.Command+x.PromptFile+strings.Join(x.Writable, ""), "\x00"): // NUL separates them in the trusted digest
		return "execution has a null character in command, prompt_file or writable"
	case x.Engine != "" && !slices.Contains(Engines, x.Engine):
		return fmt.Sprintf("execution.engine is %q, not one of %s", x.Engine, strings.Join(Engines, ", "))
	case x.Place != PlaceSprite && !d.IsLocal():
		return fmt.Sprintf("execution.place is %q, not %s or %s", x.Place, PlaceSprite, PlaceWorktree)
	case d.IsLocal() && (x.Flow != "" || x.Merge || d.Output.Apply):
		return "execution.place is worktree, which excludes flow, merge and apply: they need a run"
	case !d.IsLocal() && len(x.Writable) > 0:
		return "execution.writable has no effect in a sprite: it needs place = \"worktree\""
	case slices.ContainsFunc(x.Writable, func(p string) bool { return p != "." && !strings.HasPrefix(p, "~/") && !path.IsAbs(p) }):
		return fmt.Sprintf("execution.writable is %q; a path is ., ~/PATH or /PATH", x.Writable)
	case d.IsLocal() && x.Command == "":
		return "execution.place is worktree, and execution.command is missing"
	case x.Engine == "script" && x.Command == "":
		return "execution.engine is script, and execution.command is missing"
	case x.Engine != "script" && x.Command != "" && word != x.Engine:
		return fmt.Sprintf("execution.command %q does not call the engine %s; a command of another kind needs the engine script", x.Command, x.Engine)
	case x.Flow == "code-review" && x.Engine == "":
		return "execution.engine is missing"
	case !x.Worktree:
		return "execution.worktree must be true: a worker runs on a frozen checkout"
	case x.TimeoutMinutes <= 0 || x.TimeoutMinutes > maxTimeout:
		return fmt.Sprintf("execution.timeout_minutes is %d, not 1 to 1440", x.TimeoutMinutes)
	case !fs.ValidPath(d.Output.ReportDir) || strings.HasPrefix(d.Output.ReportDir, ".git"):
		return fmt.Sprintf("output.report_dir is %q, not a folder of the repository", d.Output.ReportDir)
	case strings.ContainsAny(d.Output.ReportPrefix, "/\\"):
		return fmt.Sprintf("output.report_prefix is %q, not the beginning of a file name", d.Output.ReportPrefix)
	case x.PromptFile != "" && !fs.ValidPath(x.PromptFile):
		return fmt.Sprintf("execution.prompt_file is %q, not a file of the repository", x.PromptFile)
	}
	return ""
}

const maxTimeout = 24 * 60 // minutes

// TimeoutMinutes returns the timeout of a process. A process of another program need not have one: it then has the longest timeout
// of a definition.
func TimeoutMinutes(r board.ProcessRecord) int {
	if r.TimeoutMinutes <= 0 || r.TimeoutMinutes > maxTimeout {
		return maxTimeout
	}
	return r.TimeoutMinutes
}

// Late reports whether a process has run for longer than its timeout.
func Late(r board.ProcessRecord, now time.Time) bool {
	started, err := time.Parse(time.RFC3339, r.StartedAt)
	return err != nil || now.After(started.Add(time.Duration(TimeoutMinutes(r))*time.Minute))
}
