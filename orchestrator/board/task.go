package board

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
)

// Task is the fold of a task's events.
type Task struct {
	ID          string     `json:"id"`
	ShortID     string     `json:"short_id,omitempty"` // such as LAT-42
	Title       string     `json:"title,omitempty"`
	Description string     `json:"description,omitempty"`
	Type        string     `json:"type,omitempty"`
	Status      string     `json:"status,omitempty"`
	Priority    string     `json:"priority,omitempty"` // one of Priorities
	Labels      []string   `json:"labels,omitempty"`
	AssignedTo  string     `json:"assigned_to,omitempty"` // an actor
	Artifacts   []Artifact `json:"artifacts,omitempty"`
	Comments    []Comment  `json:"comments,omitempty"`
	Issue       *Issue     `json:"issue,omitempty"`
	Active      []Process  `json:"active_processes"` // never null in JSON
	// ReviewCycles counts the moves from review back to work.
	ReviewCycles    int    `json:"review_cycles,omitempty"`
	CreatedBy       string `json:"created_by,omitempty"`
	CreatedAt       string `json:"created_at,omitempty"`
	UpdatedAt       string `json:"updated_at,omitempty"`
	StatusChangedAt string `json:"last_status_changed_at,omitempty"`
	LastEventID     string `json:"last_event_id,omitempty"`
	created         bool   // by an event, which may have no time
}

// Artifact is a product of the work on a task, such as a review. Completion policies ask for roles.
type Artifact struct {
	ID     string `json:"id"` // art_ULID
	Role   string `json:"role,omitempty"`
	Path   string `json:"path,omitempty"` // in the repository
	URL    string `json:"url,omitempty"`
	Commit string `json:"commit_sha,omitempty"` // that the artifact is about
	At     string `json:"at,omitempty"`
	Actor  string `json:"actor,omitempty"`
}

// Comment is a remark on a task.
type Comment struct {
	Body  string `json:"body"`
	At    string `json:"at,omitempty"`
	Actor string `json:"actor,omitempty"`
}

// Process is a worker that has started on a task and has not ended (seed workers-design, "Snapshot Materialization").
type Process struct {
	Type      string `json:"process_type"`
	StartedAt string `json:"started_at"`
	Actor     string `json:"actor"`
	Commit    string `json:"commit_sha"`
	EventID   string `json:"event_id"`
}

// Priorities are the priorities of tasks, the most urgent first.
var Priorities = []string{"critical", "high", "medium", "low"}

const defaultPriority = "medium"

// NewTask returns the task before its first event.
func NewTask(id string) *Task { return &Task{ID: id, Active: []Process{}} }

// apply says how an event of each type changes a task.
var apply = map[string]func(*Task, Event) error{
	TaskCreated:       applyCreated,
	StatusChanged:     applyStatus,
	AssignmentChanged: applyAssignment,
	FieldUpdated:      applyField,
	CommentAdded:      applyComment,
	ArtifactAttached:  applyArtifact,
	ProcessStarted:    applyStarted,
	ProcessCompleted:  applyEnded,
	ProcessFailed:     applyEnded,
	IssueChanged:      applyIssue,
}

// Apply changes the task by an event. An event that does not fit leaves the task as it was.
func (t *Task) Apply(e Event) error {
	if e.TaskID != t.ID {
		return fmt.Errorf("belongs to the task %s", e.TaskID)
	}
	if change, ok := apply[e.Type]; ok {
		if err := change(t, e); err != nil {
			return err
		}
	}
	t.LastEventID = cmp.Or(e.ID, t.LastEventID)
	t.UpdatedAt = cmp.Or(e.TS, t.UpdatedAt)
	return nil
}

// CreatedData is the data of task_created.
type CreatedData struct {
	ShortID     string   `json:"short_id,omitempty"`
	Title       string   `json:"title"`
	Description string   `json:"description,omitempty"`
	Type        string   `json:"type,omitempty"`
	Status      string   `json:"status"`
	Priority    string   `json:"priority,omitempty"`
	Labels      []string `json:"labels,omitempty"`
	AssignedTo  string   `json:"assigned_to,omitempty"`
	Issue       *Issue   `json:"issue,omitempty"` // that the task mirrors
}

// ChangeData is the data of status_changed, assignment_changed and field_updated. Replay refuses a change whose From is
// not the present value: two writers that did not see each other would have made it.
type ChangeData struct {
	Field  string  `json:"field,omitempty"`
	From   *string `json:"from,omitempty"`
	To     string  `json:"to"`
	Reason string  `json:"reason,omitempty"`
}

func decode[T any](e Event) (v T, err error) {
	if err := json.Unmarshal(e.Data, &v); err != nil {
		return v, fmt.Errorf("has data that do not fit %s: %w", e.Type, err)
	}
	return v, nil
}

func applyCreated(t *Task, e Event) error {
	if t.created {
		return fmt.Errorf("creates the task a second time")
	}
	d, err := decode[CreatedData](e)
	if err != nil {
		return err
	}
	t.ShortID, t.Title, t.Description, t.Type = d.ShortID, d.Title, d.Description, d.Type
	t.Status, t.Priority, t.Labels, t.AssignedTo, t.Issue = d.Status, d.Priority, d.Labels, d.AssignedTo, d.Issue
	t.CreatedBy, t.CreatedAt, t.StatusChangedAt, t.created = e.Actor, e.TS, e.TS, true
	return nil
}

// decodeChange reads a change of a field that has the value now.
func decodeChange(e Event, now string) (ChangeData, error) {
	d, err := decode[ChangeData](e)
	if err == nil && d.From != nil && *d.From != now {
		err = fmt.Errorf("changes %q, but the value is %q", *d.From, now)
	}
	return d, err
}

func applyStatus(t *Task, e Event) error {
	d, err := decodeChange(e, t.Status)
	if err != nil {
		return err
	}
	if t.Status == "review" && slices.Contains([]string{"in_progress", "in_planning", "backlog"}, d.To) {
		t.ReviewCycles++
	}
	t.Status, t.StatusChangedAt = d.To, e.TS
	return nil
}

func applyAssignment(t *Task, e Event) error {
	d, err := decodeChange(e, t.AssignedTo)
	if err != nil {
		return err
	}
	t.AssignedTo = d.To
	return nil
}

// fields are the members that field_updated may change.
func (t *Task) fields() map[string]*string {
	return map[string]*string{"title": &t.Title, "description": &t.Description, "type": &t.Type, "priority": &t.Priority}
}

func applyField(t *Task, e Event) error {
	d, err := decode[ChangeData](e)
	if err != nil {
		return err
	}
	if d.Field == "labels" {
		return t.applyLabels(e)
	}
	field, ok := t.fields()[d.Field]
	if !ok {
		return fmt.Errorf("changes %q, which cannot be changed by field_updated", d.Field)
	}
	if d, err = decodeChange(e, *field); err != nil {
		return err
	}
	*field = d.To
	return nil
}

func applyComment(t *Task, e Event) error {
	d, err := decode[Comment](e)
	if err != nil {
		return err
	}
	t.Comments = append(t.Comments, Comment{Body: d.Body, At: e.TS, Actor: e.Actor})
	return nil
}

// ArtifactData is the data of artifact_attached.
type ArtifactData struct {
	ArtifactID string `json:"artifact_id"`
	Role       string `json:"role,omitempty"`
	Path       string `json:"path,omitempty"`
	URL        string `json:"url,omitempty"`
	Commit     string `json:"commit_sha,omitempty"`
}

func applyArtifact(t *Task, e Event) error {
	d, err := decode[ArtifactData](e)
	if err != nil {
		return err
	}
	if d.ArtifactID == "" {
		return fmt.Errorf("attaches an artifact without an id")
	}
	if slices.ContainsFunc(t.Artifacts, func(a Artifact) bool { return a.ID == d.ArtifactID }) {
		return nil // a repetition
	}
	t.Artifacts = append(t.Artifacts, Artifact{ID: d.ArtifactID, Role: d.Role, Path: d.Path, URL: d.URL, Commit: d.Commit, At: e.TS, Actor: e.Actor})
	return nil
}

// ProcessData is the data of process events (seed workers-design, "Process Tracking"). Each type has some of the members.
type ProcessData struct {
	Type   string `json:"process_type"`
	Commit string `json:"commit_sha"`

	// Of process_started. RunID is the run of lattice that does the work, RequestID what it was started for.
	Worktree       string `json:"worktree_path,omitempty"`
	TimeoutMinutes int    `json:"timeout_minutes,omitempty"`
	RunID          string `json:"run_id,omitempty"`
	RequestID      string `json:"request_id,omitempty"`

	// Of process_completed and process_failed.
	StartedEventID  string  `json:"started_event_id,omitempty"`
	Result          string  `json:"result,omitempty"` // success
	ArtifactID      string  `json:"artifact_id,omitempty"`
	Error           string  `json:"error,omitempty"`
	DurationSeconds float64 `json:"duration_seconds,omitempty"`
	Head            string  `json:"head_at_completion,omitempty"` // of the repository when the work was done
}

// DecodeProcess returns the data of a process event.
func DecodeProcess(e Event) (ProcessData, error) { return decode[ProcessData](e) }

func applyStarted(t *Task, e Event) error {
	d, err := DecodeProcess(e)
	if err != nil {
		return err
	}
	if d.Type == "" {
		return fmt.Errorf("starts a process without a process_type")
	}
	t.Active = append(t.Active, Process{Type: d.Type, StartedAt: e.TS, Actor: e.Actor, Commit: d.Commit, EventID: e.ID})
	return nil
}

// applyEnded removes the process that the event ends.
func applyEnded(t *Task, e Event) error {
	d, err := DecodeProcess(e)
	if err != nil {
		return err
	}
	if i := findProcess(t.Active, d); i >= 0 { // a second end of the same process changes nothing
		t.Active = slices.Delete(t.Active, i, i+1)
	}
	return nil
}

// findProcess returns the index of the process that an end names: by the event that started it if it names one, else the oldest
// of the same type and commit. It returns -1 if there is none.
func findProcess(active []Process, end ProcessData) int {
	return slices.IndexFunc(active, func(p Process) bool {
		if end.StartedEventID != "" {
			return p.EventID == end.StartedEventID
		}
		return p.Type == end.Type && p.Commit == end.Commit
	})
}

// ProcessRecord is a process from its start to its end.
type ProcessRecord struct {
	TaskID string `json:"task_id"`
	Process
	RunID          string  `json:"run_id,omitempty"`
	RequestID      string  `json:"request_id,omitempty"`
	Worktree       string  `json:"worktree_path,omitempty"`
	LogPath        string  `json:"log_path,omitempty"` // in the repository; there is a log if this program started the process
	TimeoutMinutes int     `json:"timeout_minutes,omitempty"`
	EndedAt        string  `json:"ended_at,omitempty"` // "" while it is active
	Result         string  `json:"result,omitempty"`   // success or failed
	Error          string  `json:"error,omitempty"`
	ArtifactID     string  `json:"artifact_id,omitempty"`
	Duration       float64 `json:"duration_seconds,omitempty"`
	Head           string  `json:"head_at_completion,omitempty"`
}

// noTime is the time of the end of a process if no event has one.
const noTime = "0001-01-01T00:00:00Z"

// Processes returns the processes of a task's events, in the order of their starts. An end without a time has that of the last event
// before it.
func Processes(events []Event) (records []ProcessRecord) {
	var active []Process
	at := noTime
	for _, e := range events {
		at = cmp.Or(e.TS, at)
		d, err := DecodeProcess(e)
		switch {
		case err != nil:
		case e.Type == ProcessStarted:
			p := Process{Type: d.Type, StartedAt: e.TS, Actor: e.Actor, Commit: d.Commit, EventID: e.ID}
			active = append(active, p)
			records = append(records, ProcessRecord{TaskID: e.TaskID, Process: p, RunID: d.RunID, RequestID: d.RequestID, Worktree: d.Worktree, LogPath: LogPath(e.ID), TimeoutMinutes: d.TimeoutMinutes})
		case e.Type == ProcessCompleted || e.Type == ProcessFailed:
			i := findProcess(active, d)
			if i < 0 {
				continue
			}
			r := &records[slices.IndexFunc(records, func(r ProcessRecord) bool { return r.Process == active[i] && r.EndedAt == "" })]
			active = slices.Delete(active, i, i+1)
			r.EndedAt, r.Result, r.Error, r.ArtifactID, r.Duration, r.Head = at, "success", d.Error, d.ArtifactID, d.DurationSeconds, d.Head
			if e.Type == ProcessFailed {
				r.Result = "failed"
			}
		}
	}
	return records
}
