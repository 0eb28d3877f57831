// Package worker decides which workers react to the tasks of a board. A worker is a flow that runs on the commit of a task and
// leaves a report; its definition is a TOML file in .lattice/workers (seed workers-design, "Worker Definitions").
//
// Start with [Load] and [Definition.Due]. The package starts nothing: lattice worker does.
package worker

import (
	"cmp"
	"embed"
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
	"github.com/spritekit/lattice/spritekit/fault"
)

// Dir is the folder of a repository that holds its definitions.
const Dir = ".lattice/workers"

// Engines are the agents that a definition can name. The engine script runs a command in the agent's place.
var Engines = []string{"claude", "codex", "gemini", "opencode", "script"}

// Definition is a worker.
type Definition struct {
	Worker    Identity  `toml:"worker"`
	Trigger   Trigger   `toml:"trigger"`
	Execution Execution `toml:"execution"`
	Output    Output    `toml:"output"`
	File      string    `toml:"-"` // "" for a built-in one
}

// Identity is the name under which a worker appears.
type Identity struct {
	Name        string `toml:"name"`
	Description string `toml:"description"`
	Actor       string `toml:"actor"` // of the events that it causes
}

// Trigger is the condition under which lattice worker watch starts a worker.
type Trigger struct {
	OnStatus        string `toml:"on_status"`
	MissingRole     string `toml:"missing_role"` // the task has no artifact of the role
	CooldownMinutes int    `toml:"cooldown_minutes"`
	Retrigger       bool   `toml:"retrigger"`   // start again after a failure
	ManualOnly      bool   `toml:"manual_only"` // only lattice worker run starts it
}

// Execution is the work.
type Execution struct {
	Flow    string `toml:"flow"` // default: code-review
	Engine  string `toml:"engine"`
	Command string `toml:"command"` // of the engine script; others accept their own name, such as "claude -p"
	// PromptFile is a file of the repository. It is read from the base commit, since the reviewed one could have changed it.
	PromptFile string `toml:"prompt_file"`
	// Worktree must be true: a worker sees the commit and not the files that change while it works.
	Worktree       bool `toml:"worktree"`
	TimeoutMinutes int  `toml:"timeout_minutes"`
}

// Output is the report.
type Output struct {
	ArtifactRole string `toml:"artifact_role"`
	ReportPrefix string `toml:"report_prefix"`
	ReportDir    string `toml:"report_dir"`
}

//go:embed builtin/*.toml
var builtin embed.FS

// maxDefinition bounds a definition, in bytes.
const maxDefinition = 64 << 10

// Load returns the built-in definitions and those of a repository, sorted by name. One of the repository replaces a built-in
// one of the same name.
func Load(repository fs.FS) ([]Definition, error) {
	all := map[string]Definition{}
	for _, from := range []struct {
		files fs.FS
		dir   string
		own   bool
	}{{builtin, "builtin", false}, {repository, Dir, true}} {
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
			d, err := readDefinition(from.files, name)
			if err != nil {
				return nil, err
			}
			key := strings.ToLower(d.Worker.Name)
			if other := seen[key]; other != "" {
				return nil, badDefinition(name, "the worker %s is in %s as well", d.Worker.Name, other)
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

func badDefinition(file, format string, args ...any) error {
	return fault.BadInput("worker_invalid", "read %s: %s", file, fmt.Sprintf(format, args...)).WithHint("lattice worker --help")
}

func readDefinition(files fs.FS, name string) (d Definition, err error) {
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
		return d, badDefinition(name, "it has more than %d bytes", maxDefinition)
	}
	return parseDefinition(name, string(text))
}

// parseDefinition reads a definition and completes it.
func parseDefinition(file, text string) (d Definition, err error) {
	meta, err := toml.Decode(text, &d)
	if err != nil {
		return d, badDefinition(file, "%s", strings.TrimPrefix(err.Error(), "toml: "))
	}
	if unknown := meta.Undecoded(); len(unknown) > 0 {
		return d, badDefinition(file, "it has the unknown member %s", unknown[0])
	}
	x := &d.Execution
	x.Flow = cmp.Or(x.Flow, "code-review")
	d.Output.ReportPrefix, d.Output.ReportDir = cmp.Or(d.Output.ReportPrefix, "REPORT"), cmp.Or(d.Output.ReportDir, "notes")
	d.Worker.Actor = cmp.Or(d.Worker.Actor, "worker:"+d.Worker.Name)
	word, _, _ := strings.Cut(x.Command, " ")
	switch {
	case d.Worker.Name == "" || strings.ContainsAny(d.Worker.Name, " /\\\n"):
		return d, badDefinition(file, "worker.name is %q, not a word", d.Worker.Name)
	case board.CheckActor(d.Worker.Actor) != nil:
		return d, badDefinition(file, "worker.actor: %v", board.CheckActor(d.Worker.Actor))
	case x.Engine != "" && !slices.Contains(Engines, x.Engine):
		return d, badDefinition(file, "execution.engine is %q, not one of %s", x.Engine, strings.Join(Engines, ", "))
	case x.Engine == "script" && x.Command == "":
		return d, badDefinition(file, "execution.engine is script, and execution.command is missing")
	case x.Engine != "script" && x.Command != "" && word != x.Engine:
		return d, badDefinition(file, "execution.command %q does not call the engine %s; a command of another kind needs the engine script", x.Command, x.Engine)
	case x.Flow == "code-review" && x.Engine == "":
		return d, badDefinition(file, "execution.engine is missing")
	case !x.Worktree:
		return d, badDefinition(file, "execution.worktree must be true: a worker runs on a frozen checkout")
	case x.TimeoutMinutes <= 0 || x.TimeoutMinutes > 24*60:
		return d, badDefinition(file, "execution.timeout_minutes is %d, not 1 to 1440", x.TimeoutMinutes)
	case d.Trigger.CooldownMinutes < 0:
		return d, badDefinition(file, "trigger.cooldown_minutes is %d", d.Trigger.CooldownMinutes)
	case d.Trigger.ManualOnly && (d.Trigger.OnStatus != "" || d.Trigger.MissingRole != ""):
		return d, badDefinition(file, "trigger.manual_only excludes on_status and missing_role")
	case !d.Trigger.ManualOnly && d.Trigger.OnStatus == "":
		return d, badDefinition(file, "trigger.on_status is missing; a worker without one needs manual_only = true")
	case !fs.ValidPath(d.Output.ReportDir) || strings.HasPrefix(d.Output.ReportDir, ".git"):
		return d, badDefinition(file, "output.report_dir is %q, not a folder of the repository", d.Output.ReportDir)
	case strings.ContainsAny(d.Output.ReportPrefix, "/\\"):
		return d, badDefinition(file, "output.report_prefix is %q, not the beginning of a file name", d.Output.ReportPrefix)
	case x.PromptFile != "" && !fs.ValidPath(x.PromptFile):
		return d, badDefinition(file, "execution.prompt_file is %q, not a file of the repository", x.PromptFile)
	}
	return d, nil
}

// Due reports whether the worker should start on a task now, and why not. The events are those of the task.
func (d Definition) Due(t *board.Task, events []board.Event, now time.Time) (bool, string) {
	switch {
	case d.Trigger.ManualOnly:
		return false, "it is started by hand"
	case t.Status != d.Trigger.OnStatus:
		return false, "the task is in " + cmp.Or(t.Status, "no status")
	case slices.ContainsFunc(t.Active, func(p board.Process) bool { return p.Type == d.Worker.Name }):
		return false, "it is running"
	case d.Trigger.MissingRole != "" && slices.ContainsFunc(t.Artifacts, func(a board.Artifact) bool { return a.Role == d.Trigger.MissingRole }):
		return false, "the task has an artifact of the role " + d.Trigger.MissingRole
	}
	entered, _ := time.Parse(time.RFC3339, t.StatusChangedAt)
	ended, failed := lastEnd(events, d.Worker.Name)
	switch {
	case ended.IsZero():
		return true, ""
	case !ended.Before(entered) && !failed && d.Trigger.MissingRole == "":
		return false, "it has run since the task came here"
	case !ended.Before(entered) && failed && !d.Trigger.Retrigger:
		return false, "it failed; retrigger is not set"
	case now.Before(ended.Add(time.Duration(d.Trigger.CooldownMinutes) * time.Minute)):
		return false, "it waits for its cooldown"
	}
	return true, ""
}

// DueBy is Due for the worker that a policy has chosen for the task's status: its own status and manual_only do not count.
func (d Definition) DueBy(t *board.Task, events []board.Event, now time.Time) (bool, string) {
	d.Trigger.ManualOnly, d.Trigger.OnStatus = false, t.Status
	d.Trigger.MissingRole = cmp.Or(d.Trigger.MissingRole, d.Output.ArtifactRole)
	return d.Due(t, events, now)
}

// lastEnd returns when a worker last ended on a task, and whether it failed.
func lastEnd(events []board.Event, name string) (at time.Time, failed bool) {
	for _, r := range board.Processes(events) {
		if ended, err := time.Parse(time.RFC3339, r.EndedAt); err == nil && r.Type == name && !ended.Before(at) {
			at, failed = ended, r.Result == "failed"
		}
	}
	return at, failed
}

// Late reports whether a process has run for longer than its timeout.
func Late(r board.ProcessRecord, now time.Time) bool {
	started, err := time.Parse(time.RFC3339, r.StartedAt)
	return err != nil || now.After(started.Add(time.Duration(r.TimeoutMinutes)*time.Minute))
}
