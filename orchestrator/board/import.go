package board

import (
	"context"
	"crypto/sha256"
	"strings"

	"github.com/oklog/ulid/v2"
)

// Draft is a task that a document asks for.
type Draft struct {
	Key         string `json:"key"` // names the task within its document, also when the title changes
	Epic        string `json:"epic,omitempty"`
	Title       string `json:"title"`
	Description string `json:"description,omitempty"`
	Type        string `json:"type,omitempty"`
	Priority    string `json:"priority,omitempty"`
}

// Drafts are the tasks of a document.
type Drafts struct {
	Document string  `json:"document"`
	Tasks    []Draft `json:"tasks"`
}

// Outcomes of a draft.
const (
	DraftCreated   = "created"
	DraftUpdated   = "updated"
	DraftUnchanged = "unchanged"
)

// Imported is a task with the outcome of its draft.
type Imported struct {
	Outcome string `json:"outcome"`
	Task    *Task  `json:"task"`
}

// maxDrafts bounds the tasks of a document.
const maxDrafts = 200

// Import creates the tasks of a document, and brings title and description of those that exist up to date; a task that has ended, and
// everything else of a task, belongs to people. A task is found again by document and key, so that Import can be repeated.
// It refuses all drafts if the board does not take one. With dry nothing is written.
func (b *Board) Import(ctx context.Context, actor string, all Drafts, dry bool) (list []Imported, events []Event, err error) {
	if err := b.Config.checkDrafts(all); err != nil {
		return nil, nil, err
	}
	tasks, err := b.Tasks()
	if err != nil {
		return nil, nil, err
	}
	known := map[string]*Task{}
	for _, t := range tasks {
		known[t.ID] = t
	}
	for _, d := range all.Tasks {
		id := d.idIn(all.Document)
		done, new := Imported{DraftUnchanged, known[id]}, []Event(nil)
		changes := d.changesFor(done.Task)
		switch {
		case done.Task == nil && dry:
			done = Imported{DraftCreated, &Task{ID: id, Title: d.Title, Labels: d.created().Labels, Active: []Process{}}}
		case done.Task == nil:
			done.Outcome = DraftCreated
			done.Task, new, err = b.Create(ctx, actor, id, d.created())
		case len(changes) > 0 && dry:
			done.Outcome = DraftUpdated
		case len(changes) > 0:
			done.Outcome = DraftUpdated
			done.Task, new, err = b.Update(ctx, id, actor, func(t *Task) ([]Change, error) { return d.changesFor(t), nil })
		}
		if err != nil {
			return list, events, err
		}
		list, events = append(list, done), append(events, new...)
	}
	return list, events, nil
}

// checkDrafts refuses drafts that the board does not take.
func (c Config) checkDrafts(all Drafts) error {
	switch {
	case all.Document == "":
		return badTask("the drafts name no document")
	case len(all.Tasks) == 0 || len(all.Tasks) > maxDrafts:
		return badTask("there are %d drafts, not 1 to %d", len(all.Tasks), maxDrafts)
	}
	seen := map[string]bool{}
	for i, d := range all.Tasks {
		if d.Key == "" || seen[d.Key] {
			return badTask("draft %d has the key %q, which is empty or that of another one", i+1, d.Key)
		}
		seen[d.Key] = true
		created := d.created()
		if err := c.completeNew(&created, d.idIn(all.Document)); err != nil {
			return badTask("draft %s: %v", d.Key, err)
		}
	}
	return nil
}

// idIn returns the id of the task of a draft.
func (d Draft) idIn(document string) string {
	return DeriveID(document, d.Key)
}

// DeriveID returns the id of the task that mirrors another thing, which a key names.
func DeriveID(key ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(key, "\x00")))
	return "task_" + ulid.ULID(sum[:16]).String()
}

// created returns the data of a new task.
func (d Draft) created() CreatedData {
	data := CreatedData{Title: d.Title, Description: d.Description, Type: d.Type, Priority: d.Priority}
	if d.Epic != "" {
		data.Labels = []string{"epic:" + d.Epic}
	}
	return data
}

// changesFor returns the changes of a task that exists.
func (d Draft) changesFor(t *Task) (changes []Change) {
	if t == nil || t.Status == "done" || t.Status == Cancelled {
		return nil
	}
	for _, f := range []struct{ name, from, to string }{{"title", t.Title, strings.TrimSpace(d.Title)}, {"description", t.Description, d.Description}} {
		if f.from != f.to {
			changes = append(changes, Change{FieldUpdated, ChangeData{Field: f.name, From: &f.from, To: f.to}})
		}
	}
	return changes
}
