package board

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/oklog/ulid/v2"

	"github.com/spritekit/lattice/spritekit/fault"
)

// Move moves a task, named as for [Board.Resolve], to a status. It refuses a move that the rules of the board forbid, and changes
// nothing if the task has the status. Every interface moves tasks by it, so they refuse alike.
func (b *Board) Move(ctx context.Context, name, actor, to, reason string) (*Task, []Event, error) {
	found, err := b.Resolve(name)
	if err != nil {
		return nil, nil, err
	}
	return b.Update(ctx, found.ID, actor, func(t *Task) ([]Change, error) {
		from := t.Status
		if err := b.Config.CheckMove(t, to); err != nil || from == to {
			return nil, err
		}
		return []Change{{StatusChanged, ChangeData{From: &from, To: to, Reason: reason}}}, nil
	})
}

// completeNew sets the defaults of a new task. It refuses values that the board does not know, and a status that a new task may not
// have. The id may be empty.
func (c Config) completeNew(d *CreatedData, id string) error {
	d.Title = strings.TrimSpace(d.Title)
	if d.Status == "" {
		d.Status = c.DefaultStatus
	}
	if d.Type == "" && len(c.TaskTypes) > 0 {
		d.Type = c.TaskTypes[0]
	}
	if d.Priority == "" {
		d.Priority = defaultPriority
	}
	switch {
	case d.Title == "":
		return badTask("a task needs a title")
	case strings.ContainsAny(d.Title, "\r\n"):
		return badTask("a title is one line; the description may have more")
	}
	for _, err := range []error{c.checkPriority(d.Priority), c.checkType(d.Type), checkLabels(d.Labels)} {
		if err != nil {
			return err
		}
	}
	if id != "" {
		if _, err := ulid.ParseStrict(strings.TrimPrefix(id, "task_")); err != nil || !strings.HasPrefix(id, "task_") {
			return badTask("the id is %q, not task_ and a ULID", id)
		}
	}
	if d.AssignedTo != "" {
		if err := CheckActor(d.AssignedTo); err != nil {
			return badTask("%v", err)
		}
	}
	policy := c.Workflow.CompletionPolicies[d.Status]
	switch {
	case !slices.Contains(c.Workflow.Statuses, d.Status):
		return badTask("the status is %q, not one of %s", d.Status, strings.Join(c.Workflow.Statuses, ", "))
	case d.Status == NeedsHuman || d.Status == Cancelled:
		return nil
	case len(policy.RequireRoles) > 0:
		return badTask("a task in %s needs an artifact of the role %s, which a new one cannot have", d.Status, policy.RequireRoles[0])
	case policy.RequireAssigned && d.AssignedTo == "":
		return badTask("a task in %s must be assigned", d.Status)
	}
	return nil
}

func badTask(format string, args ...any) error {
	return fault.BadInput("task_invalid", format, args...).WithHint("lattice task create --help")
}

func (c Config) checkPriority(priority string) error {
	if !slices.Contains(Priorities, priority) {
		return badTask("the priority is %q, not one of %s", priority, strings.Join(Priorities, ", "))
	}
	return nil
}

func (c Config) checkType(kind string) error {
	if len(c.TaskTypes) > 0 && !slices.Contains(c.TaskTypes, kind) {
		return badTask("the type is %q, not one of %s", kind, strings.Join(c.TaskTypes, ", "))
	}
	return nil
}

// checkLabels refuses labels that a list with commas could not hold.
func checkLabels(labels []string) error {
	for _, label := range labels {
		if label == "" || len(label) > 100 || strings.ContainsAny(label, ", \t\r\n") {
			return badTask("the label %q is not a word", label)
		}
	}
	return nil
}

// Proposal holds values that a worker proposes for a task. Empty ones propose nothing.
type Proposal struct {
	Comment  string   `json:"comment"`
	Priority string   `json:"priority"`
	Type     string   `json:"type"`
	Labels   []string `json:"labels"`
}

// ChangesFor returns the changes that a proposal makes to a task. It adds labels and the comment, and replaces a priority and a type
// only if the task has the board's default: a person may have chosen another. It refuses values that the board does not know.
func (c Config) ChangesFor(t *Task, p Proposal) ([]Change, error) {
	var changes []Change
	change := func(field, from, to string) {
		if to != from {
			changes = append(changes, Change{FieldUpdated, ChangeData{Field: field, From: &from, To: to}})
		}
	}
	if p.Priority != "" {
		if err := c.checkPriority(p.Priority); err != nil {
			return nil, err
		}
		if t.Priority == "" || t.Priority == defaultPriority {
			change("priority", t.Priority, p.Priority)
		}
	}
	if p.Type != "" {
		if err := c.checkType(p.Type); err != nil {
			return nil, err
		}
		if t.Type == "" || len(c.TaskTypes) > 0 && t.Type == c.TaskTypes[0] {
			change("type", t.Type, p.Type)
		}
	}
	if err := checkLabels(p.Labels); err != nil {
		return nil, err
	}
	labels := slices.Clone(t.Labels)
	for _, label := range p.Labels {
		if !slices.Contains(labels, label) {
			labels = append(labels, label)
		}
	}
	change("labels", strings.Join(t.Labels, ","), strings.Join(labels, ","))
	if text := strings.TrimSpace(p.Comment); text != "" {
		changes = append(changes, Change{CommentAdded, Comment{Body: text}})
	}
	return changes, nil
}

// applyLabels sets the labels to a list with commas.
func (t *Task) applyLabels(e Event) error {
	d, err := decodeChange(e, strings.Join(t.Labels, ","))
	if err != nil {
		return err
	}
	var labels []string
	if d.To != "" {
		labels = strings.Split(d.To, ",")
	}
	if err := checkLabels(labels); err != nil {
		return fmt.Errorf("has labels that are no list: %w", err)
	}
	t.Labels = labels
	return nil
}
