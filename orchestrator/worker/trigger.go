package worker

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/board"
	"github.com/spritekit/lattice/orchestrator/schedule"
)

// Trigger is the condition under which lattice worker watch starts a worker on a task. All members that are set must hold.
type Trigger struct {
	OnStatus        string `toml:"on_status" json:"on_status,omitempty"`       // default: any but done and cancelled
	MissingRole     string `toml:"missing_role" json:"missing_role,omitempty"` // the task has no artifact of the role
	Schedule        string `toml:"schedule" json:"schedule,omitempty"`         // five fields of cron, in the zone of lattice worker watch
	OnEvent         string `toml:"on_event" json:"on_event,omitempty"`         // the type of an event that followed the last start
	StaleHours      int    `toml:"stale_hours" json:"stale_hours,omitempty"`   // the task has been in its status for so long, and the worker did not end since
	CooldownMinutes int    `toml:"cooldown_minutes" json:"cooldown_minutes,omitempty"`
	Retrigger       bool   `toml:"retrigger" json:"retrigger,omitempty"`     // start again after a failure
	ManualOnly      bool   `toml:"manual_only" json:"manual_only,omitempty"` // only lattice worker run starts it
	OptIn           bool   `toml:"opt_in" json:"opt_in,omitempty"`           // the trigger counts only if workers of .lattice/config.json names the worker
}

// TriggerEvents are the types of events that on_event can name.
var TriggerEvents = []string{
	board.TaskCreated, board.StatusChanged, board.AssignmentChanged, board.FieldUpdated, board.CommentAdded, board.ArtifactAttached,
	board.ProcessStarted, board.ProcessCompleted, board.ProcessFailed,
}

// maxHours bounds hours, so that a time.Duration holds them.
const maxHours = 100 * 365 * 24

// findProblem says why the trigger is not valid, "" if it is.
func (t Trigger) findProblem(statuses []string) string {
	starts := t.OnStatus != "" || t.Schedule != "" || t.OnEvent != "" || t.StaleHours != 0
	switch {
	case t.CooldownMinutes < 0 || t.CooldownMinutes > 60*maxHours:
		return fmt.Sprintf("trigger.cooldown_minutes is %d, not 0 to %d", t.CooldownMinutes, 60*maxHours)
	case t.StaleHours < 0 || t.StaleHours > maxHours:
		return fmt.Sprintf("trigger.stale_hours is %d, not 0 to %d", t.StaleHours, maxHours)
	case t.ManualOnly && (starts || t.MissingRole != ""):
		return "trigger.manual_only excludes on_status, missing_role, schedule, on_event and stale_hours"
	case !t.ManualOnly && !starts:
		return "trigger.on_status is missing; a worker without on_status, schedule, on_event or stale_hours needs manual_only = true"
	case statuses != nil && t.OnStatus != "" && !slices.Contains(statuses, t.OnStatus):
		return fmt.Sprintf("trigger.on_status is %q, not one of %s", t.OnStatus, strings.Join(statuses, ", "))
	case t.OnEvent != "" && !slices.Contains(TriggerEvents, t.OnEvent):
		return fmt.Sprintf("trigger.on_event is %q, not one of %s", t.OnEvent, strings.Join(TriggerEvents, ", "))
	}
	if t.Schedule != "" {
		if _, err := schedule.Parse(t.Schedule); err != nil {
			return "trigger.schedule: " + err.Error()
		}
	}
	return ""
}

// String describes the trigger in a few words.
func (t Trigger) String() string {
	if t.ManualOnly {
		return "by hand"
	}
	var words []string
	add := func(format string, value any, set bool) {
		if set {
			words = append(words, fmt.Sprintf(format, value))
		}
	}
	add("%s", t.OnStatus, t.OnStatus != "")
	add("without %s", t.MissingRole, t.MissingRole != "")
	add("after %s", t.OnEvent, t.OnEvent != "")
	add("unchanged for %d h", t.StaleHours, t.StaleHours > 0)
	add("at %s", t.Schedule, t.Schedule != "")
	return strings.Join(words, " ")
}

// IsEnabled reports whether the trigger counts on a board.
func (d Definition) IsEnabled(c board.Config) bool {
	return !d.Trigger.OptIn || slices.Contains(c.Workers, d.Worker.Name)
}

// Due reports whether the worker should start on a task now, and why not. The events are those of the task.
func (d Definition) Due(t *board.Task, events []board.Event, now time.Time) (bool, string) {
	switch {
	case d.Trigger.ManualOnly:
		return false, "it is started by hand"
	case d.Trigger.OnStatus != "" && t.Status != d.Trigger.OnStatus, d.Trigger.OnStatus == "" && (t.Status == "done" || t.Status == board.Cancelled):
		return false, "the task is in " + cmp.Or(t.Status, "no status")
	case slices.ContainsFunc(t.Active, func(p board.Process) bool { return p.Type == d.Worker.Name }):
		return false, "it is running"
	case d.Trigger.MissingRole != "" && slices.ContainsFunc(t.Artifacts, func(a board.Artifact) bool { return a.Role == d.Trigger.MissingRole }):
		return false, "the task has an artifact of the role " + d.Trigger.MissingRole
	}
	last := d.findLast(events)
	entered, _ := time.Parse(time.RFC3339, t.StatusChangedAt)
	stale := latest(entered, last.ended).Add(time.Duration(d.Trigger.StaleHours) * time.Hour)
	ran := !last.ended.IsZero() && !last.ended.Before(entered) // since the task came to its status
	repeats := d.Trigger.Schedule != "" || d.Trigger.OnEvent != ""
	switch {
	case d.Trigger.OnEvent != "" && !last.followed:
		return false, "no event " + d.Trigger.OnEvent + " followed its last start"
	case d.Trigger.Schedule != "" && !isDue(d.Trigger.Schedule, latest(entered, last.started), now):
		return false, "its schedule is not due"
	case d.Trigger.StaleHours > 0 && now.Before(stale):
		return false, "the task is not stale"
	case ran && !last.failed && d.Trigger.MissingRole == "" && d.Trigger.StaleHours == 0 && !repeats:
		return false, "it has run since the task came here"
	case ran && last.failed && !d.Trigger.Retrigger && !repeats:
		return false, "it failed; retrigger is not set"
	case !last.ended.IsZero() && now.Before(last.ended.Add(time.Duration(d.Trigger.CooldownMinutes)*time.Minute)):
		return false, "it waits for its cooldown"
	}
	return true, ""
}

// DueBy is Due for the worker that a policy has chosen for the task's status: its own trigger does not count, except the missing
// role, the cooldown and retrigger. It is not due while another worker of the policy runs.
func (d Definition) DueBy(p board.WorkerPolicy, t *board.Task, events []board.Event, now time.Time) (bool, string) {
	if slices.ContainsFunc(t.Active, func(a board.Process) bool { return a.Type != d.Worker.Name && p.Names(a.Type) }) {
		return false, "another worker of the policy is running"
	}
	own := d.Trigger
	d.Trigger = Trigger{OnStatus: t.Status, MissingRole: cmp.Or(own.MissingRole, d.Output.ArtifactRole), CooldownMinutes: own.CooldownMinutes, Retrigger: own.Retrigger}
	return d.Due(t, events, now)
}

// lastRun says when a worker last started and ended on a task.
type lastRun struct {
	started, ended time.Time
	failed         bool
	followed       bool // an event of on_event followed the start
}

// findLast returns the last run of the worker. An event of its own does not count as one that followed.
func (d Definition) findLast(events []board.Event) (last lastRun) {
	for _, r := range board.Processes(events) {
		if ended, err := time.Parse(time.RFC3339, r.EndedAt); err == nil && r.Type == d.Worker.Name && !ended.Before(last.ended) {
			last.ended, last.failed = ended, r.Result == "failed"
		}
	}
	for _, e := range events {
		data, _ := board.DecodeProcess(e) // another type of event has no process_type
		switch own := data.Type == d.Worker.Name; {
		case own && e.Type == board.ProcessStarted:
			last.started, _ = time.Parse(time.RFC3339, e.TS)
			last.followed = false
		case !own && e.Actor != d.Worker.Actor && e.Type == d.Trigger.OnEvent:
			last.followed = true
		}
	}
	return last
}

// isDue reports whether a schedule was due after a time and until now.
func isDue(cron string, after, now time.Time) bool {
	c, err := schedule.Parse(cron)
	if err != nil {
		return false // refused when it was read
	}
	due, ok := c.Next(after.In(now.Location()))
	return ok && !due.After(now)
}

func latest(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}
