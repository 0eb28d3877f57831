package test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"reflect"

	"github.com/spritekit/lattice/spritekit/fault"
)

// projectFile is the file in which a project declares how it is tested.
const projectFile = ".spritekit/test.json"

const maxCandidates = 20

// Candidate is one way to test that detection found.
type Candidate struct {
	Framework string `json:"framework"`
	Cwd       string `json:"cwd"`      // relative to the workspace
	Evidence  string `json:"evidence"` // the file that shows it, relative to cwd, and its relevant member
}

// findCandidates returns the candidates in a folder and those above it, the nearest first. The first one is run.
func findCandidates(start *folder) []Candidate {
	found := []Candidate{}
	for _, f := range start.listParents() {
		for _, r := range allRunners() {
			if evidence := r.detect(f); evidence != "" && len(found) < maxCandidates {
				found = append(found, Candidate{Framework: r.name, Cwd: relativeTo(f), Evidence: evidence})
			}
		}
	}
	return found
}

func relativeTo(f *folder) string {
	rel, err := f.root.Rel(f.dir)
	if err != nil {
		return f.dir
	}
	return rel
}

// settings are the members of the project file; they have the meaning of the inputs with the same names.
type settings struct {
	Framework    string            `json:"framework,omitempty"`
	Command      json.RawMessage   `json:"command,omitempty"`
	Args         []string          `json:"args,omitempty"`
	ReportFormat string            `json:"report_format,omitempty"`
	ReportFiles  []string          `json:"report_files,omitempty"`
	Env          map[string]string `json:"env,omitempty"`
	TimeoutS     float64           `json:"timeout_s,omitempty"`
}

// SettingsType returns the type of the project file, for its schema.
func SettingsType() reflect.Type { return reflect.TypeFor[settings]() }

// readSettings reads the nearest project file; where is nil when there is none.
func readSettings(start *folder) (s settings, where *folder, err error) {
	for _, f := range start.listParents() {
		data, err := f.root.ReadFile(f.pathOf(projectFile), maxManifest)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		name := path.Join(relativeTo(f), projectFile)
		if err != nil {
			return s, nil, fmt.Errorf("read %s: %w", name, err)
		}
		d := json.NewDecoder(bytes.NewReader(data))
		d.DisallowUnknownFields()
		if err := d.Decode(&s); err != nil {
			return s, nil, fault.Unsupported("bad_project_file", "%s: %v", name, err).
				WithHint("its members are framework, command, args, report_format, report_files, env and timeout_s, as in the inputs of test.run")
		}
		if s.Framework == "" && !isGiven(s.Command) {
			return s, nil, fault.Unsupported("bad_project_file", "%s names neither framework nor command", name).WithHint("add one of them, or remove the file")
		}
		return s, f, nil
	}
	return s, nil, nil
}

func isGiven(command json.RawMessage) bool { return len(command) > 0 && string(command) != "null" }

// chooseRunner decides which runner tests which folder. Without a name the first candidate does; with one, the nearest folder
// that looks like it, else the one that the caller named.
func chooseRunner(start *folder, name string, candidates []Candidate) (runner, *folder, error) {
	for _, c := range candidates {
		if name == "" || c.Framework == name {
			r, _ := runnerNamed(c.Framework)
			return r, &folder{start.root, filepath.Join(start.root.Dir(), filepath.FromSlash(c.Cwd))}, nil
		}
	}
	if name == "" {
		return runner{}, nil, fault.Unsupported("unknown_framework", "nothing in %s or above it tells how it is tested", relativeTo(start)).
			WithHint(`set "command", such as ["make","test"], or "cwd" to the folder of the package, or write %s`, projectFile)
	}
	r, ok := runnerNamed(name)
	if !ok {
		names := ""
		for _, r := range allRunners() {
			names += r.name + ", "
		}
		return runner{}, nil, fault.Unsupported("unknown_framework", "there is no framework %q", name).WithHint("known are %sand command together with a command", names)
	}
	return r, start, nil
}
