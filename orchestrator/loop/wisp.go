package loop

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/spritekit/lattice/spritekit/loop"
)

// Imported is a loop to start with.
type Imported struct {
	Spec  string
	Tasks []loop.Task
	Template
}

// Template is a folder of prompts.
type Template struct {
	Instructions string // comes in front of the spec
	Context      string // is added to the system prompt of the agent
}

// maxPrompt bounds each file of a template, and a spec.
const maxPrompt = 256 << 10

// Import reads a session folder of wisp, .wisp/sessions/BRANCH: its list of tasks and, if it is there, its spec. The session of a loop that
// has stopped is continued from its tasks; its limits, history and state do not count, because they are about another agent's
// iterations.
func Import(session fs.FS) (Imported, error) {
	var in Imported
	tasks, err := readText(session, loop.TasksFile)
	if err != nil {
		return in, err
	}
	if in.Tasks, err = loop.ParseTasks([]byte(tasks)); err != nil {
		return in, err
	}
	if state, err := readText(session, loop.StateFile); err == nil {
		if _, err := loop.ParseState([]byte(state)); err != nil {
			return in, err
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return in, err
	}
	if text, err := readText(session, loop.SessionFile); err == nil && !json.Valid([]byte(text)) {
		return in, fmt.Errorf("%s is not valid JSON", loop.SessionFile)
	}
	in.Spec, err = readText(session, loop.SpecFile)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return in, err
}

// ReadTemplate reads the folder of a template. One of its files may be missing.
func ReadTemplate(folder fs.FS) (Template, error) {
	var t Template
	for name, text := range map[string]*string{"iterate.md": &t.Instructions, "context.md": &t.Context} {
		var err error
		if *text, err = readText(folder, name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return t, err
		}
	}
	if t == (Template{}) {
		return t, errors.New("has neither iterate.md nor context.md")
	}
	return t, nil
}

// readText reads a text file of bounded size.
func readText(folder fs.FS, name string) (string, error) {
	f, err := folder.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxPrompt+1))
	if err != nil {
		return "", err
	}
	if len(data) > maxPrompt {
		return "", fmt.Errorf("%s has more than %d bytes", name, maxPrompt)
	}
	return strings.TrimSpace(string(data)), nil
}
