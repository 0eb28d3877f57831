// Package mirror brings the issues of a repository at a code host to the board of its clone, and shows there in which status their
// tasks are. Start with [Source.Sync].
//
// The board stays the only truth: a task holds the issue as it was last seen, as events of its own, and nothing else is kept. The
// issue decides about title and description; its labels are added and removed as it does, and closing it ends the task. The task
// decides about the status, which the issue shows as a label board:STATUS. A task in needs_human gets a comment, because a person
// must act. Labels decide nothing: one that a person changes stays until the status changes.
//
// All of it can be repeated. A webhook only says that it is time to look: [Source.Sync] reads the issues themselves, so that deliveries may be
// lost, late, repeated or forged.
package mirror

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/board"
	"github.com/spritekit/lattice/orchestrator/forge"
	"github.com/spritekit/lattice/orchestrator/forge/publish"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/text"
)

// LabelPrefix begins the labels that show statuses. A task in the status of new tasks has none.
const LabelPrefix = "board:"

// actor is the author of events that follow an issue.
const actor = "worker:issues"

const (
	// overlap is asked for again, because a code host may list an issue late.
	overlap = time.Minute
	// batch is how many tasks are created before other writers get their turn.
	batch = 50
	// maxText bounds a description, in bytes.
	maxText = 64 << 10
	// maxTitle bounds a title, in characters.
	maxTitle = 256
	// maxReason bounds the reason in a comment, in bytes.
	maxReason = 8 << 10
	// maxRefused bounds the issues at which the code host refuses to show a status, before none is tried any more.
	maxRefused = 5
)

// Client is the part of [forge.Client] that is used.
type Client interface {
	Self(ctx context.Context) (forge.User, error)
	IssuesSince(ctx context.Context, p forge.Path, since time.Time) ([]forge.Issue, error)
	AddLabels(ctx context.Context, p forge.Path, number int64, labels []string) error
	RemoveLabel(ctx context.Context, p forge.Path, number int64, label string) error
	Comments(ctx context.Context, p forge.Path, number int64) ([]forge.Comment, error)
	CreateComment(ctx context.Context, p forge.Path, number int64, body string) (forge.Comment, error)
}

// Source is a repository whose issues are mirrored.
type Source struct {
	Forge  string // its name in the settings
	Web    string // the address of the code host
	Path   forge.Path
	Client func() (Client, error)
	Poll   time.Duration // how often it is read; 0 where webhooks say that it changed
}

// Outcomes of a task.
const (
	Created = "created"
	Updated = "updated"
	Shown   = "shown" // the issue shows the status
)

// Outcome is a change that Sync made.
type Outcome struct {
	Outcome string      `json:"outcome"`
	Task    *board.Task `json:"task"`
}

// Sync brings the issues that changed to the board, and then shows the statuses of tasks that changed. It returns the events that it
// wrote, also with an error. Only one process of this machine does this for a board at a time.
func (s Source) Sync(ctx context.Context, b *board.Board) (list []Outcome, events []board.Event, err error) {
	lease, err := b.Lease("mirror")
	if err != nil {
		return nil, nil, fault.Busy("board_busy", "another process mirrors the issues of %s: %v", s.Path, err).WithHint("try again in a moment")
	}
	defer func() { _ = lease.Leave() }()
	c, err := s.Client()
	if err != nil {
		return nil, nil, err
	}
	list, events, err = s.pullIssues(ctx, b, c)
	if err != nil {
		return list, events, fmt.Errorf("read the issues of %s: %w", s.Path, err)
	}
	tasks, err := b.Tasks()
	if err != nil {
		return list, events, err
	}
	var refused []error
	for _, t := range tasks {
		if t.Issue == nil || t.ID != s.idOf(t.Issue.ID) || t.Issue.Shown == statusToShow(b.Config, t) {
			continue
		}
		shown, written, err := s.showStatus(ctx, b, c, t)
		if err != nil {
			err = fmt.Errorf("show the status of %s at %s: %w", t.Name(), t.Issue.URL, err)
			refused = append(refused, err)
			if no, ok := errors.AsType[*forge.Problem](err); !ok || !no.Final() || len(refused) == maxRefused {
				break
			}
			continue // it may be about this issue alone, such as one that was moved
		}
		list, events = append(list, Outcome{Shown, shown}), append(events, written...)
	}
	return list, events, errors.Join(refused...)
}

func (s Source) idOf(issue int64) string {
	return board.DeriveID("issue", strings.ToLower(s.Web), strconv.FormatInt(issue, 10))
}

// pullIssues brings the issues that changed since the newest one that the board has seen.
func (s Source) pullIssues(ctx context.Context, b *board.Board, c Client) (list []Outcome, events []board.Event, err error) {
	tasks, err := b.Tasks()
	if err != nil {
		return nil, nil, err
	}
	known, since := map[string]*board.Task{}, time.Unix(0, 0)
	for _, t := range tasks {
		if t.Issue != nil && t.ID == s.idOf(t.Issue.ID) {
			known[t.ID] = t
			if seen := t.Issue.Updated.Add(-overlap); seen.After(since) {
				since = seen
			}
		}
	}
	issues, err := c.IssuesSince(ctx, s.Path, since)
	if err != nil {
		return nil, nil, err
	}
	var created []board.New
	for _, i := range issues {
		id := s.idOf(i.ID)
		t := known[id]
		switch {
		case i.Pull || t == nil && !i.Open:
		case t == nil:
			created = append(created, board.New{ID: id, CreatedData: createTask(b.Config, i)})
		case len(followIssue(b.Config, t, i)) > 0:
			t, written, err := b.Update(ctx, id, actor, func(t *board.Task) ([]board.Change, error) { return followIssue(b.Config, t, i), nil })
			if err != nil {
				return list, events, err
			}
			list, events = append(list, Outcome{Updated, t}), append(events, written...)
		}
	}
	slices.SortFunc(created, func(x, y board.New) int { return int(x.Issue.Number - y.Issue.Number) }) // short ids in their order
	for part := range slices.Chunk(created, batch) {
		made, written, err := b.CreateAll(ctx, actor, part)
		events = append(events, written...)
		if err != nil {
			return list, events, err
		}
		for _, t := range made {
			list = append(list, Outcome{Created, t})
		}
	}
	return list, events, nil
}

// describeIssue returns an issue as a task holds it.
func describeIssue(i forge.Issue) board.Issue {
	labels := slices.DeleteFunc(slices.Clone(i.Labels), func(l string) bool { return strings.HasPrefix(l, LabelPrefix) })
	return board.Issue{ID: i.ID, Number: i.Number, URL: i.WebURL, Open: i.Open, Labels: board.WordLabels(labels), Updated: i.Updated}
}

// titleOf returns the title of the task of an issue. The text was written by a stranger.
func titleOf(i forge.Issue) string {
	title := []rune(strings.Join(strings.Fields(i.Title), " "))
	if len(title) == 0 {
		return fmt.Sprintf("Issue %d", i.Number)
	}
	return strings.TrimSpace(string(title[:min(len(title), maxTitle)])) // the board trims titles, too
}

func textOf(i forge.Issue) string {
	return strings.ToValidUTF8(i.Body[:min(len(i.Body), maxText)], "")
}

// createTask returns the task of a new issue. A label that names a type of the board chooses it.
func createTask(c board.Config, i forge.Issue) board.CreatedData {
	seen := describeIssue(i)
	d := board.CreatedData{Title: titleOf(i), Description: textOf(i), Labels: seen.Labels, Issue: &seen}
	for _, label := range seen.Labels {
		if d.Type == "" && slices.Contains(c.TaskTypes, label) {
			d.Type = label
		}
	}
	return d
}

// followIssue returns the changes of a task whose issue is as it is now. An issue that is older than the one that was seen changes nothing.
func followIssue(c board.Config, t *board.Task, i forge.Issue) (changes []board.Change) {
	if i.Updated.Before(t.Issue.Updated) {
		return nil
	}
	seen := describeIssue(i)
	seen.Shown = t.Issue.Shown
	labels := slices.DeleteFunc(slices.Clone(t.Labels), func(l string) bool { return slices.Contains(t.Issue.Labels, l) && !slices.Contains(seen.Labels, l) })
	for _, l := range seen.Labels {
		if !slices.Contains(labels, l) && !slices.Contains(t.Issue.Labels, l) {
			labels = append(labels, l)
		}
	}
	for _, f := range []struct{ name, from, to string }{
		{"title", t.Title, titleOf(i)}, {"description", t.Description, textOf(i)}, {"labels", strings.Join(t.Labels, ","), strings.Join(labels, ",")},
	} {
		if f.from != f.to {
			changes = append(changes, board.Change{Type: board.FieldUpdated, Data: board.ChangeData{Field: f.name, From: &f.from, To: f.to}})
		}
	}
	if seen.Open != t.Issue.Open {
		if to, reason := moveFor(c, t, seen.Open); to != "" {
			from := t.Status
			changes = append(changes, board.Change{Type: board.StatusChanged, Data: board.ChangeData{From: &from, To: to, Reason: reason}})
		}
	}
	if len(changes) == 0 && seen.Open == t.Issue.Open && slices.Equal(seen.Labels, t.Issue.Labels) {
		return nil
	}
	return append(changes, board.Change{Type: board.IssueChanged, Data: seen})
}

// moveFor returns the status that a task takes when its issue is closed or opened again, "" if it stays. A task of a closed issue is
// done if the rules of the board allow that, and cancelled otherwise.
func moveFor(c board.Config, t *board.Task, open bool) (to, reason string) {
	ended := t.Status == "done" || t.Status == board.Cancelled
	list, reason := []string{"done", board.Cancelled}, "the issue was closed"
	if open {
		list, reason = []string{c.DefaultStatus}, "the issue was opened again"
	}
	for _, to := range list {
		if ended == open && c.CheckMove(t, to) == nil {
			return to, reason
		}
	}
	return "", ""
}

// statusToShow returns the status that the issue of a task should show as a label.
func statusToShow(c board.Config, t *board.Task) string {
	if t.Status == c.DefaultStatus {
		return ""
	}
	return t.Status
}

// showStatus shows the status of a task at its issue, and records that. An issue that is gone shows nothing more.
func (s Source) showStatus(ctx context.Context, b *board.Board, c Client, t *board.Task) (*board.Task, []board.Event, error) {
	status := statusToShow(b.Config, t)
	if err := s.setLabel(ctx, b, c, t, status); err != nil && !forge.IsNotFound(err) {
		return nil, nil, err
	}
	return b.Update(ctx, t.ID, actor, func(t *board.Task) ([]board.Change, error) {
		if t.Issue.Shown == status {
			return nil, nil
		}
		seen := *t.Issue
		seen.Shown = status
		return []board.Change{{Type: board.IssueChanged, Data: seen}}, nil
	})
}

func (s Source) setLabel(ctx context.Context, b *board.Board, c Client, t *board.Task, status string) error {
	if t.Issue.Shown != "" {
		if err := c.RemoveLabel(ctx, s.Path, t.Issue.Number, LabelPrefix+t.Issue.Shown); err != nil {
			return err
		}
	}
	if status != "" {
		if err := c.AddLabels(ctx, s.Path, t.Issue.Number, []string{LabelPrefix + status}); err != nil {
			return err
		}
	}
	if status != board.NeedsHuman {
		return nil
	}
	events, err := b.History(t.ID)
	if err != nil {
		return err
	}
	return s.askPerson(ctx, c, t, events)
}

// askPerson comments on the issue of a task that needs a person, once for each move.
func (s Source) askPerson(ctx context.Context, c Client, t *board.Task, events []board.Event) error {
	var move board.Event
	var why board.ChangeData
	for _, e := range events {
		var d board.ChangeData
		if e.Type == board.StatusChanged && json.Unmarshal(e.Data, &d) == nil && d.To == board.NeedsHuman {
			move, why = e, d
		}
	}
	self, err := c.Self(ctx)
	if err != nil {
		return err
	}
	all, err := c.Comments(ctx, s.Path, t.Issue.Number)
	if err != nil {
		return err
	}
	marker := forge.MarkerOf("task", t.ID+move.ID)
	if _, found := forge.FindComment(all, self.ID, marker); found {
		return nil
	}
	said := fmt.Sprintf("**lattice**: the task %s needs a person.\n", t.Name())
	if why.Reason != "" {
		said += "\n" + text.Head(why.Reason, maxReason) + "\n"
	}
	_, err = c.CreateComment(ctx, s.Path, t.Issue.Number, marker.Add(publish.Mute(said)))
	return err
}
