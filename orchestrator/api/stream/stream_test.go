package stream_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/api/stream"
	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// TestItemsAreEncodedOnce: all readers of an item get the same bytes, and those that know another sprite of the run get others.
func TestItemsAreEncodedOnce(t *testing.T) {
	i, about := stream.NewEntry[string](lattice.Entry{Seq: 7, Type: "INFO", Body: []byte(`{}`)}), stream.About{RunID: "run_a", Sprite: "box"}
	first, err := i.Encode(about)
	again, failed := i.Encode(about)
	if err != nil || failed != nil || &first[0] != &again[0] {
		t.Errorf("the item was encoded again: %v, %v", err, failed)
	}
	if text := string(first); !strings.HasPrefix(text, "id: 7\nevent: run.output\ndata: {") || !strings.HasSuffix(text, "}\n\n") || !strings.Contains(text, `"sprite":{"name":"box"}`) {
		t.Errorf("the event is %q", text)
	}
	about.Sprite = "other"
	if other, err := i.Encode(about); err != nil || !strings.Contains(string(other), `"sprite":{"name":"other"}`) {
		t.Errorf("with another sprite, the event is %q, %v", other, err)
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = i.Encode(about) }); n != 0 {
		t.Errorf("an item that is encoded takes %v allocations", n)
	}
	view, err := stream.NewView("view", time.Now()).Encode(about)
	if err != nil || !strings.HasPrefix(string(view), "event: run.updated\ndata: {") {
		t.Errorf("the event of a view is %q, %v", view, err)
	}
}

// TestUpdatesOfTheAuditLog: facts of intents, calls that change sprites and events of code hosts are updates with the envelope of the
// seed; everything else in the log is none.
func TestUpdatesOfTheAuditLog(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		e    audit.Entry
		want string
	}{
		{audit.Entry{Kind: audit.Intent, Subject: "intent:int_a", Body: []byte(`{"a":1}`)}, `intent.updated int_a <nil>`},
		{audit.Entry{Kind: audit.Sprite, Subject: "sprite:box", Body: []byte(`{"call":"DELETE /v1/sprites/box"}`)}, `sprite.updated  box`},
		{audit.Entry{Kind: audit.Sprite, Subject: "sprites", Body: []byte(`{"call":"POST /v1/sprites"}`)}, `sprite.updated  <nil>`},
		{audit.Entry{Kind: audit.Sprite, Subject: "sprite:box", Body: []byte(`{"call":"GET /v1/sprites/box/exec"}`)}, ``},
		{audit.Entry{Kind: audit.Delivery, Subject: "delivery:x", Body: make([]byte, 1<<20)}, `github.updated  <nil>`},
		{audit.Entry{Kind: audit.Token, Subject: "token:x"}, ``},
	} {
		u := stream.OfAudit(tt.e)
		if tt.want == "" || u.Type == "" {
			if u.Type != tt.want {
				t.Errorf("%s of %s is an update of type %q, want %q", tt.e.Kind, tt.e.Subject, u.Type, tt.want)
			}
			continue
		}
		if u.IsOf([]string{stream.Run}) || !u.IsOf([]string{stream.Run, u.Type}) || !u.IsOf(nil) {
			t.Errorf("a reader that wants no %s gets it, or one that wants it does not", u.Type)
		}
		raw, err := json.Marshal(u)
		var got struct {
			Type     string
			IntentID string `json:"intent_id"`
			RunID    any    `json:"run_id"`
			TraceID  string `json:"trace_id"`
			Sprite   map[string]any
		}
		if err = errors.Join(err, json.Unmarshal(raw, &got)); err != nil || got.RunID != nil || len(got.TraceID) != 32 || len(raw) > 1000 {
			t.Errorf("%s: %.1000s, %v", tt.e.Kind, raw, err)
		}
		if text := fmt.Sprint(got.Type, " ", got.IntentID, " ", got.Sprite["name"]); text != tt.want {
			t.Errorf("%s of %s is %q, want %q", tt.e.Kind, tt.e.Subject, text, tt.want)
		}
	}
}

// TestPosition: positions are read as they are written. A change that is sent before an earlier one is settled is remembered until it is.
func TestPosition(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"0", "7", "7.0", "7.12", "7+9.12", "7+9+12"} {
		if p, err := stream.ParsePosition(text); err != nil || p.String() != text {
			t.Errorf("%s is read as %s, %v", text, p, err)
		}
	}
	for _, text := range []string{"x", ".", "7.", "7+", "7+.1", "-1", "1.2.3", " 1"} {
		if p, err := stream.ParsePosition(text); err == nil {
			t.Errorf("%q is read as %s", text, p)
		}
	}
	p, err := stream.ParsePosition("")
	if err != nil || p.Audit != nil || p.Has(0) || p.Has(1) {
		t.Errorf("no position is read as %+v, %v", p, err)
	}
	for _, step := range []struct {
		seq, settled lattice.Seq
		want         string
	}{{5, 9, "5"}, {12, 9, "9+12"}, {15, 10, "10+12+15"}, {11, 13, "11+12+15"}, {14, 20, "14+15"}, {20, 20, "20"}} {
		if p.Has(step.seq) {
			t.Errorf("%s has %d before it is sent", p, step.seq)
		}
		if p = p.Add(step.seq, step.settled); p.String() != step.want || !p.Has(step.seq) {
			t.Errorf("after %d the position is %s, want %s", step.seq, p, step.want)
		}
	}
}

// TestTypes: a reader gets the types that it asks for, and is told of gaps whatever these are. A type that no update has is refused.
func TestTypes(t *testing.T) {
	types, err := stream.ParseTypes("run.updated,github.updated")
	if err != nil || !stream.NewGap(1).IsOf(types) || (stream.Update{Type: stream.Intent}).IsOf(types) || !(stream.Update{Type: stream.GitHub}).IsOf(types) {
		t.Errorf("the types are %q, %v", types, err)
	}
	for _, text := range []string{"run.update", ",", "run.updated,", "run.updated, sprite.updated", "system.alert"} {
		if types, err := stream.ParseTypes(text); err == nil {
			t.Errorf("%q is %q", text, types)
		}
	}
}
