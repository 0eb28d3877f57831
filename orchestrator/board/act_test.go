package board

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/spritekit/fault"
)

func codeOf(err error) string {
	if e, ok := errors.AsType[*fault.Error](err); ok {
		return e.Code
	}
	return ""
}

// A move is refused until the rules of the board allow it; the refusal writes nothing.
func TestMove(t *testing.T) {
	b := newBoard(t)
	made, _, err := b.Create(t.Context(), "human:a", "", CreatedData{Title: "x", Status: "review"})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ name, to, code string }{
		{made.ShortID, "done", "move_needs_artifact"},
		{made.ID, "nowhere", "status_unknown"},
		{"LAT-99", "done", "task_not_found"},
		{"task_99", "done", "task_not_found"},
		{made.ID, "review", ""},
		{made.ShortID, NeedsHuman, ""},
		{made.ID, "backlog", ""},
	} {
		before, err := b.History(made.ID)
		if err != nil {
			t.Fatal(err)
		}
		_, events, err := b.Move(t.Context(), c.name, "human:a", c.to, "why")
		if codeOf(err) != c.code {
			t.Errorf("Move(%s, %s) = %v, want %q", c.name, c.to, err, c.code)
		}
		if after, err := b.History(made.ID); err != nil || len(after) != len(before)+len(events) || c.code != "" && len(events) > 0 {
			t.Errorf("Move(%s, %s) wrote %d events, %v", c.name, c.to, len(after)-len(before), err)
		}
	}
	if moved, err := b.Task(made.ID); err != nil || moved.Status != "backlog" {
		t.Errorf("the task is %+v, %v", moved, err)
	}
}

func TestCreateRefuses(t *testing.T) {
	b := newBoard(t)
	for want, d := range map[string]CreatedData{
		"needs a title":        {Title: " "},
		"one line":             {Title: "a\nb"},
		`priority is "urgent"`: {Title: "x", Priority: "urgent"},
		`type is "wish"`:       {Title: "x", Type: "wish"},
		`label "a,b"`:          {Title: "x", Labels: []string{"a,b"}},
		"not an actor":         {Title: "x", AssignedTo: "me"},
		`status is "nowhere"`:  {Title: "x", Status: "nowhere"},
		"artifact of the role": {Title: "x", Status: "done"},
		"must be assigned":     {Title: "x", Status: "in_progress"},
		"not task_ and a ULID": {Title: "x", Description: "id"},
	} {
		id := ""
		if d.Description == "id" {
			id = "task_1"
		}
		b.Config.Workflow.CompletionPolicies["in_progress"] = CompletionPolicy{RequireAssigned: true}
		if _, _, err := b.Create(t.Context(), "human:a", id, d); codeOf(err) != "task_invalid" || !strings.Contains(err.Error(), want) {
			t.Errorf("Create(%+v) = %v, want %q", d, err, want)
		}
	}
	made, _, err := b.Create(t.Context(), "human:a", "", CreatedData{Title: " x "})
	if err != nil || made.Title != "x" || made.Status != "backlog" || made.Type != "task" || made.Priority != "medium" {
		t.Errorf("Create = %+v, %v", made, err)
	}
}

// A proposal replaces defaults, adds labels and a comment, and leaves the choices of people.
func TestProposal(t *testing.T) {
	b := newBoard(t)
	full := Proposal{Comment: " seen \n", Priority: "high", Type: "bug", Labels: []string{"net", "ui"}}
	for _, c := range []struct {
		data CreatedData
		p    Proposal
		want string // type priority labels comments
	}{
		{CreatedData{}, full, "bug high net,ui seen"},
		{CreatedData{Type: "epic", Priority: "low", Labels: []string{"ui"}}, full, "epic low ui,net seen"},
		{CreatedData{}, Proposal{}, "task medium  "},
	} {
		c.data.Title = "x"
		made, _, err := b.Create(t.Context(), "human:a", "", c.data)
		if err != nil {
			t.Fatal(err)
		}
		changed, _, err := b.Update(t.Context(), made.ID, "agent:t", func(t *Task) ([]Change, error) { return b.Config.ChangesFor(t, c.p) })
		if err != nil {
			t.Fatal(err)
		}
		folded, err := b.Task(made.ID)
		if err != nil || !cmp.Equal(folded, changed, cmp.AllowUnexported(Task{})) {
			t.Errorf("the fold is %+v, %v, want %+v", folded, err, changed)
		}
		var comments []string
		for _, c := range changed.Comments {
			comments = append(comments, c.Body)
		}
		if got := strings.Join([]string{changed.Type, changed.Priority, strings.Join(changed.Labels, ","), strings.Join(comments, "|")}, " "); got != c.want {
			t.Errorf("after %+v the task is %q, want %q", c.p, got, c.want)
		}
		again, err := b.Config.ChangesFor(changed, Proposal{Priority: c.p.Priority, Type: c.p.Type, Labels: c.p.Labels})
		if err != nil || len(again) > 0 {
			t.Errorf("the second time, %+v changes %+v, %v", c.p, again, err)
		}
	}
	for _, p := range []Proposal{{Priority: "urgent"}, {Type: "wish"}, {Labels: []string{"a b"}}} {
		if _, err := b.Config.ChangesFor(NewTask("task_1"), p); codeOf(err) != "task_invalid" {
			t.Errorf("ChangesFor(%+v) = %v", p, err)
		}
	}
}

func TestRefusedLabelsLeaveTheTask(t *testing.T) {
	t.Parallel()
	for to, want := range map[string]string{"b,c": "b c", "": "", "a b": "a", "a,,b": "a", "b\\nc": "a"} {
		task := NewTask("task_01")
		task.Labels = []string{"a"}
		err := task.Apply(Event{Type: FieldUpdated, TaskID: task.ID, Data: []byte(`{"field":"labels","to":"` + to + `"}`)})
		if got := strings.Join(task.Labels, " "); got != want || (err == nil) != (want != "a") {
			t.Errorf("labels %q: %q, %v, want %q", to, got, err, want)
		}
	}
}
