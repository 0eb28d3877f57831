// Package board is the task board of a repository, kept in its folder .lattice: one file of events for each task, and a
// config.json with the rules. The events are the truth; a [Task] is their fold (seed workers-design, "Snapshot
// Materialization").
//
// Start with [Open] and [Board.Update]. The decisions are pure functions over a [Config] and a task: [Config.CheckMove]
// and [Config.ChooseNext]. Only files.go touches files, and only hooks.go runs programs.
package board

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Types of events. Events of other types change only [Task.UpdatedAt] and [Task.LastEventID].
const (
	TaskCreated       = "task_created"
	StatusChanged     = "status_changed"
	AssignmentChanged = "assignment_changed"
	FieldUpdated      = "field_updated"
	CommentAdded      = "comment_added"
	ArtifactAttached  = "artifact_attached"
	ProcessStarted    = "process_started"
	ProcessCompleted  = "process_completed"
	ProcessFailed     = "process_failed"
	IssueChanged      = "issue_changed"
)

// MaxLine bounds a line of events, in bytes.
const MaxLine = 1 << 20

// Event is one line of a task's file.
type Event struct {
	SchemaVersion int             `json:"schema_version,omitempty"`
	ID            string          `json:"id,omitempty"` // ev_ULID
	TS            string          `json:"ts,omitempty"` // RFC 3339
	Type          string          `json:"type"`
	TaskID        string          `json:"task_id"`
	Actor         string          `json:"actor,omitempty"`
	Data          json.RawMessage `json:"data,omitempty"`
}

// CheckActor returns an error unless the name says who acts: human:NAME, agent:NAME, team:NAME or worker:NAME.
func CheckActor(actor string) error {
	kind, name, _ := strings.Cut(actor, ":")
	if !slices.Contains([]string{"agent", "human", "team", "worker"}, kind) || !consistsOf(name, letters+digits+"._@+-") || len(name) > 100 {
		return fmt.Errorf("%q is not an actor such as human:ada or agent:claude", actor)
	}
	return nil
}

const (
	letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits  = "0123456789"
)

// consistsOf reports whether the text has only the characters, and at least one.
func consistsOf(text, characters string) bool {
	return text != "" && strings.TrimLeft(text, characters) == ""
}

// parseEvent reads one line. It accepts the names event_id and timestamp for id and ts.
func parseEvent(line []byte) (Event, error) {
	var wire struct {
		Event
		EventID   string `json:"event_id"`
		Timestamp string `json:"timestamp"`
	}
	if err := json.Unmarshal(line, &wire); err != nil {
		return Event{}, fmt.Errorf("is not an event: %w", err)
	}
	e := wire.Event
	if e.ID == "" {
		e.ID = wire.EventID
	}
	if e.TS == "" {
		e.TS = wire.Timestamp
	}
	if e.TS != "" {
		if _, err := time.Parse(time.RFC3339, e.TS); err != nil {
			return Event{}, fmt.Errorf("has the time %q, which is not RFC 3339", e.TS)
		}
	}
	switch {
	case e.Type == "":
		return Event{}, errors.New("has no type")
	case e.TaskID == "":
		return Event{}, errors.New("has no task_id")
	}
	return e, nil
}

// Problem is a line that holds no event, or one that does not fit the task.
type Problem struct {
	Line   int // from 1
	Reason string
}

func (p Problem) String() string { return fmt.Sprintf("line %d %s", p.Line, p.Reason) }

// ReadEvents calls take with each event of a JSON Lines stream. It reports lines that hold none, and those that take
// refuses, as problems, and goes on behind them. Its error is one of reading.
func ReadEvents(in io.Reader, take func(Event) error) ([]Problem, error) {
	var problems []Problem
	lines := bufio.NewReader(in) // most files are small
	for number := 1; ; number++ {
		line, long, err := readLine(lines)
		if err != nil && err != io.EOF {
			return problems, fmt.Errorf("read events: %w", err)
		}
		var reason error
		switch text := bytes.TrimSpace(line); {
		case long:
			reason = fmt.Errorf("is longer than %d bytes", MaxLine)
		case len(text) > 0:
			var e Event
			if e, reason = parseEvent(text); reason == nil {
				reason = take(e)
			}
		}
		if reason != nil {
			problems = append(problems, Problem{number, reason.Error()})
		}
		if err == io.EOF {
			return problems, nil
		}
	}
}

// readLine reads a line of at most MaxLine bytes. Of a longer one it drops the rest.
func readLine(r *bufio.Reader) (line []byte, long bool, err error) {
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > MaxLine {
			long = true
		} else {
			line = append(line, part...)
		}
		if err != bufio.ErrBufferFull {
			return line, long, err
		}
	}
}
