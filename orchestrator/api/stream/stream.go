// Package stream describes the server-sent events of the interface: their envelope, and items of a run, which are encoded once for
// all readers. Start with Update. It knows no route and sends nothing.
package stream

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/sse"
	"github.com/spritekit/lattice/spritekit/tracecontext"
)

// Update is one server-sent event. Its type is also the name of the event.
type Update struct {
	Type     string        `json:"type"`
	Time     time.Time     `json:"ts"`
	TraceID  string        `json:"trace_id"` // of the run, as in traces and logs; else of the subject
	IntentID string        `json:"intent_id,omitempty"`
	RunID    *string       `json:"run_id"` // null if it is not about a run
	Sprite   *UpdateSprite `json:"sprite"`
	Payload  any           `json:"payload"`
	ID       string        `json:"-"` // at which a reader resumes; "" leaves its position as it is
}

// UpdateSprite names the sprite of an update.
type UpdateSprite struct {
	Name string `json:"name"`
}

// The types of an Update.
const (
	Output = "run.output"   // the payload is an entry of the journal
	Run    = "run.updated"  // the payload is the view of a run
	Alert  = "system.alert" // the payload is a Gap, or why the stream ends
	// The payload of the others is an entry of the audit log.
	Intent = "intent.updated"
	Sprite = "sprite.updated"
	GitHub = "github.updated" // of any code host
)

// Gap says that a reader was too far behind, and which entries it did not get; GET …/entries has them.
type Gap struct {
	Code   string      `json:"code"`   // gap
	After  lattice.Seq `json:"after"`  // the last entry before the gap
	Before lattice.Seq `json:"before"` // the first position behind it; 0 if it lasts until now
}

// About names the run that an update is about, with its intent and its sprite; the latter two may be "".
type About struct{ RunID, IntentID, Sprite string }

// New returns an update about a run.
func New(kind string, at time.Time, about About, payload any) Update {
	u := Update{Type: kind, Time: at, TraceID: tracecontext.TraceID(about.RunID), IntentID: about.IntentID, RunID: &about.RunID, Payload: payload}
	if about.Sprite != "" {
		u.Sprite = &UpdateSprite{about.Sprite}
	}
	return u
}

// NewGap returns an update about a gap behind a position in the journal that lasts until now.
func NewGap(after lattice.Seq) Update {
	return Update{Type: Alert, Time: time.Now(), TraceID: tracecontext.TraceID("journal"), Payload: Gap{Code: "gap", After: after}}
}

// IsOf reports whether the update is one whose type is among types; nil is all. An alert is for every reader.
func (u Update) IsOf(types []string) bool {
	return u.Type == Alert || u.Type != "" && (len(types) == 0 || slices.Contains(types, u.Type))
}

// ParseTypes returns types of updates, which are separated by commas. One that no update has is an error: its reader would wait forever.
func ParseTypes(text string) ([]string, error) {
	types := SplitTypes(text)
	for _, t := range types {
		if all := []string{Run, Intent, Sprite, GitHub}; !slices.Contains(all, t) {
			return nil, fmt.Errorf("%.40q is not one of the types %s", t, strings.Join(all, ", "))
		}
	}
	return types, nil
}

// SplitTypes splits a list at its commas. An empty one is nil.
func SplitTypes(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(text, ",")
}

// maxBody bounds the body of an entry of the audit log in an update; GET …/audit has it.
const maxBody = 16 << 10

// OfAudit returns the update that an entry of the audit log stands for: a fact of an intent, a call that changes a sprite, or an event
// of a code host. The type of the update is "" if it stands for none.
func OfAudit(e audit.Entry) Update {
	u := Update{Time: e.At, TraceID: tracecontext.TraceID(e.Subject)}
	switch e.Kind {
	case audit.Intent:
		u.Type = Intent
		u.IntentID, _ = strings.CutPrefix(e.Subject, "intent:")
	case audit.Sprite:
		if isRead(e.Body) {
			return Update{}
		}
		u.Type = Sprite
		if name, is := strings.CutPrefix(e.Subject, "sprite:"); is {
			u.Sprite = &UpdateSprite{name}
		}
	case audit.Delivery, audit.Command, audit.Post, audit.Pull, audit.Review:
		u.Type = GitHub
	}
	if len(e.Body) > maxBody {
		e.Body = nil
	}
	u.Payload = e
	return u
}

// isRead reports whether the entry of a call of the Sprites API tells of one that changes nothing. An exec is one.
func isRead(body []byte) bool {
	var b struct{ Call string }
	return json.Unmarshal(body, &b) == nil && strings.HasPrefix(b.Call, "GET ")
}

// Item is an entry of a run, or a view after it. It keeps its encoding. It is safe for concurrent use.
type Item[View any] struct {
	Entry *lattice.Entry // not changed
	View  *View          // if Entry is nil; not changed

	at    time.Time
	mu    sync.Mutex
	about About  // guarded by mu: of frame
	frame []byte // guarded by mu: not changed
}

// NewEntry returns the item of an entry.
func NewEntry[View any](e lattice.Entry) *Item[View] { return &Item[View]{Entry: &e, at: e.At} }

// NewView returns the item of a view that was last changed at a time.
func NewView[View any](v View, at time.Time) *Item[View] { return &Item[View]{View: &v, at: at} }

// Encode returns the item as a server-sent event about a run, of which only the sprite may change. An entry's is at the position of
// the entry.
func (i *Item[View]) Encode(about About) (frame []byte, err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.frame != nil && i.about == about {
		return i.frame, nil
	}
	if i.Entry != nil {
		frame, err = sse.Encode(strconv.FormatUint(uint64(i.Entry.Seq), 10), Output, New(Output, i.at, about, i.Entry))
	} else {
		frame, err = sse.Encode("", Run, New(Run, i.at, about, i.View))
	}
	if err == nil {
		i.frame, i.about = frame, about
	}
	return frame, err
}
