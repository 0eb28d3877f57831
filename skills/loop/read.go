package loop

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/spritekit/lattice/spritekit/loop"
	"github.com/spritekit/lattice/spritekit/skill"
	"github.com/spritekit/lattice/spritekit/text"
)

type readInput struct {
	Answer string          `json:"answer"`
	Tasks  json.RawMessage `json:"tasks"`
	Memory loop.Memory     `json:"memory"`
}

type readData struct {
	State      loop.State  `json:"state"`
	Tasks      []loop.Task `json:"tasks"`
	Message    string      `json:"message"`
	Pull       *loop.Pull  `json:"pr,omitempty"`
	Divergence string      `json:"divergence,omitempty"`
	Passing    int         `json:"passing"` // tasks
	Rests      int         `json:"rests"`   // 1 if the state has the loop wait for a person
}

// readAnswer is loop.read. It changes no file.
func readAnswer(_ context.Context, c *skill.Call, in readInput) (*readData, error) {
	before, err := parseTasks(in.Tasks)
	if err != nil {
		return nil, err
	}
	var out readData
	state, found, err := readFile(c.Root, loop.StateFile, loop.MaxStateBytes)
	if err != nil {
		return nil, err
	}
	tasks, listed, err := readFile(c.Root, loop.TasksFile, loop.MaxTasksBytes)
	if err != nil {
		return nil, err
	}
	if !found {
		answer, ok := decodeLast(in.Answer)
		if !ok {
			return nil, badFile("the agent wrote no %s and did not end with a JSON object that has a status", loop.StateFile)
		}
		state = answer
		var with struct {
			Tasks json.RawMessage `json:"tasks"`
		}
		if json.Unmarshal(answer, &with) == nil && len(with.Tasks) > 0 && string(with.Tasks) != "null" {
			tasks, listed = with.Tasks, true
		}
	}
	if out.State, err = loop.ParseState(state); err != nil {
		return nil, badFile("%v", err)
	}
	if !listed {
		tasks = []byte("[]")
	}
	if out.Tasks, err = loop.ParseTasks(tasks); err != nil {
		return nil, badFile("%v", err)
	}
	finished := in.Memory.Finished
	if in.Memory.Iterations == 0 {
		finished = loop.Passing(before)
	}
	out.Message, out.Passing = commitMessage(finished, out.Tasks, out.State), len(out.Tasks)-loop.Incomplete(out.Tasks)
	if out.State.Status == loop.NeedsInput || out.State.Status == loop.Blocked {
		out.Rests = 1
	}
	return &out, readResults(c, &out)
}

// readResults reads the files that describe the result.
func readResults(c *skill.Call, out *readData) error {
	data, ok, err := readFile(c.Root, loop.PullFile, maxText)
	if err != nil {
		return err
	}
	if ok {
		out.Pull = new(loop.Pull)
		if err := json.Unmarshal(data, out.Pull); err != nil {
			return badFile("%s is not valid: %v", loop.PullFile, err)
		}
	}
	data, _, err = readFile(c.Root, loop.DivergenceFile, maxText)
	out.Divergence = string(data)
	return err
}

// commitMessage names the tasks that the commit finishes, of which the first is its subject, or else the summary. Git refuses NUL bytes,
// which JSON can hold.
func commitMessage(finished []string, after []loop.Task, s loop.State) string {
	var names []string
	for _, name := range loop.Passing(after) {
		if shown := strings.TrimSpace(text.Clean(name)); shown != "" && !slices.Contains(finished, name) {
			names = append(names, shown)
		}
	}
	summary := strings.TrimSpace(text.Clean(s.Summary))
	first, _, _ := strings.Cut(summary, "\n")
	subject := cmp.Or(first, "Work on the tasks")
	if len(names) > 0 {
		subject = names[0]
	}
	var body []string
	if runes := []rune(subject); len(runes) > 72 {
		subject, body = string(runes[:71])+"…", append(body, subject)
	}
	if len(summary) > 4000 {
		summary = strings.ToValidUTF8(summary[:4000], "")
	}
	if summary != "" && summary != subject {
		body = append(body, summary)
	}
	if len(names) > 1 {
		body = append(body, "Finishes as well:\n- "+strings.Join(names[1:], "\n- "))
	}
	return strings.Join(append([]string{subject}, body...), "\n\n")
}

// maxTries bounds the lines at which decodeLast looks for an object: objects in each other that do not end are read at each.
const maxTries = 1000

// decodeLast decodes the last JSON object of a text that has a member status. It may be followed by white space, or by the end
// of a code block.
func decodeLast(text string) (json.RawMessage, bool) {
	tries := 0
	for i := len(text) - 1; i >= 0 && tries < maxTries; i-- {
		if text[i] != '{' || i > 0 && text[i-1] != '\n' {
			continue
		}
		tries++
		var object struct {
			Status *string `json:"status"`
		}
		var raw json.RawMessage
		if json.NewDecoder(strings.NewReader(text[i:])).Decode(&raw) == nil && json.Unmarshal(raw, &object) == nil && object.Status != nil {
			return raw, true
		}
	}
	return nil, false
}
