package files

import (
	"encoding/json"
	"io"
	"time"
)

// Subscription asks for the events of some paths. Watching is a conversation of JSON objects, one on each line: the asker
// sends Subscriptions, the watcher answers each and then tells Events, until the asker closes.
type Subscription struct {
	Paths     [][]byte `json:"paths"`
	Recursive bool     `json:"recursive,omitempty"`
}

// Event is one thing that a watcher tells.
type Event struct {
	Type  EventType `json:"type"`
	Path  []byte    `json:"path,omitempty"`
	Event string    `json:"event,omitempty"` // create | write | remove | rename | chmod; a rename is of the old name
	Time  time.Time `json:"time"`
	Size  int64     `json:"size,omitempty"`
	IsDir bool      `json:"is_dir,omitempty"`
	Code  int       `json:"code,omitempty"` // of an error: its errno, 0 when it has none
	Text  string    `json:"text,omitempty"` // of an error
}

// EventType is the type of an Event.
type EventType string

// The types of events.
const (
	Subscribed EventType = "subscribed"
	Changed    EventType = "event"
	Failed     EventType = "error" // a path cannot be watched, or something was missed
)

// MaxEvent bounds one line of the conversation.
const MaxEvent = 64 << 10

// maxWatched bounds the folders that one watcher watches.
const maxWatched = 8192

// Watch serves one conversation until conn ends or breaks.
func Watch(t Tree, conn io.ReadWriteCloser) error {
	defer conn.Close()
	return watchTree(t, conn, json.NewEncoder(conn))
}
