package journal_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spritekit/lattice/spritekit/journal"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/workspace"
)

func newRoot(t *testing.T) *workspace.Root {
	t.Helper()
	root, err := workspace.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root
}

func open(ctx context.Context, root *workspace.Root, id string) (*journal.Call, error) {
	return journal.Open(ctx, root, id, "demo.do", "abc", time.Now)
}

func TestSecondProcessWaits(t *testing.T) {
	root := newRoot(t)
	first, err := open(t.Context(), root, "c1")
	if err != nil {
		t.Fatal(err)
	}
	impatient, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := open(impatient, root, "c1"); !errors.Is(err, context.Canceled) {
		t.Errorf("Open of a locked journal = %v, want to wait until cancelled", err)
	}
	seen := make(chan journal.Record, 1)
	go func() {
		defer close(seen)
		second, err := open(t.Context(), root, "c1")
		if err != nil {
			t.Error(err)
			return
		}
		defer second.Close()
		seen <- second.Last()
	}()
	for _, r := range []journal.Record{{State: journal.Started}, {State: journal.Done, Result: []byte(`{"ok":true}`)}} {
		if err := first.Append(r, true); err != nil {
			t.Fatal(err)
		}
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	if last := <-seen; last.State != journal.Done || string(last.Result) != `{"ok":true}` {
		t.Errorf("the second process sees %+v", last)
	}
}

func TestOnlyLegalTransitions(t *testing.T) {
	waiting := &protocol.Waiting{Reason: "x"}
	records := map[journal.State]journal.Record{
		journal.Started: {State: journal.Started}, journal.Suspending: {State: journal.Suspending, Waiting: waiting},
		journal.Resumed: {State: journal.Resumed, PayloadSHA256: "d", Waiting: waiting}, journal.Done: {State: journal.Done},
	}
	for _, tc := range []struct {
		path string
		ok   bool
	}{
		{"started done", true},
		{"started started suspending suspending resumed resumed suspending resumed done resumed done started", true},
		{"done", false},
		{"resumed", false},
		{"started resumed", false},
		{"started suspending done", false},
		{"started done suspending", false},
	} {
		t.Run(tc.path, func(t *testing.T) {
			root := newRoot(t)
			c, err := open(t.Context(), root, "c1")
			if err != nil {
				t.Fatal(err)
			}
			var failed error
			for state := range strings.FieldsSeq(tc.path) {
				failed = errors.Join(failed, c.Append(records[journal.State(state)], false))
			}
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			if (failed == nil) != tc.ok {
				t.Errorf("appending %s = %v", tc.path, failed)
			}
			again, err := open(t.Context(), root, "c1") // what was accepted can be read
			if err != nil {
				t.Fatal(err)
			}
			again.Close()
		})
	}
}

func TestIDsAreFileNames(t *testing.T) {
	for id, ok := range map[string]bool{
		"c": true, "call_01-Z": true, strings.Repeat("a", 128): true,
		"": false, strings.Repeat("a", 129): false, "../x": false, "a/b": false, "a.b": false, "ä": false, "a\n": false,
	} {
		if err := journal.CheckID(id); (err == nil) != ok {
			t.Errorf("CheckID(%q) = %v, want ok %v", id, err, ok)
		}
	}
}

// TestManyPauses checks that the journal of a call that waits many times, with large requests, can be read.
func TestManyPauses(t *testing.T) {
	root := newRoot(t)
	c, err := open(t.Context(), root, "c1")
	if err != nil {
		t.Fatal(err)
	}
	request := &protocol.ActionRequest{Action: protocol.ActionUseTool, Parameters: json.RawMessage(`"` + strings.Repeat("x", protocol.SpillAt) + `"`)}
	waiting := &protocol.Waiting{Reason: "a question"}
	err = c.Append(journal.Record{State: journal.Started}, false)
	for range 40 {
		err = errors.Join(err, c.Append(journal.Record{State: journal.Suspending, Waiting: waiting, Request: request}, false),
			c.Append(journal.Record{State: journal.Resumed, Waiting: waiting, Request: request, PayloadSHA256: "x"}, false))
	}
	if err := errors.Join(err, c.Close()); err != nil {
		t.Fatal(err)
	}
	if c, err = open(t.Context(), root, "c1"); err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if c.Last().State != journal.Resumed {
		t.Errorf("the call stands at %q, want resumed", c.Last().State)
	}
}

// TestLongRecord checks that a record that no call writes is not read into memory.
func TestLongRecord(t *testing.T) {
	root := newRoot(t)
	c, err := open(t.Context(), root, "c1")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Append(journal.Record{State: journal.Started}, false), c.Close()); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(root.Dir(), protocol.CallsDir, "c1.jsonl"), 1<<40); err != nil {
		t.Fatal(err)
	}
	if _, err := open(t.Context(), root, "c1"); !errors.Is(err, journal.ErrCorrupt) {
		t.Errorf("Open of a journal with a huge record = %v, want %v", err, journal.ErrCorrupt)
	}
}

func TestTornLineIsForgotten(t *testing.T) {
	root := newRoot(t)
	c, err := open(t.Context(), root, "c1")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Append(journal.Record{State: journal.Started}, true), c.Close()); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(root.Dir(), protocol.CallsDir, "c1.jsonl"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"state":"done","sk`); err != nil {
		t.Fatal(err)
	}
	f.Close()
	if c, err = open(t.Context(), root, "c1"); err != nil {
		t.Fatal(err)
	}
	if c.Last().State != journal.Started {
		t.Errorf("after a torn line the call stands at %q, want started", c.Last().State)
	}
	if err := errors.Join(c.Append(journal.Record{State: journal.Done}, true), c.Close()); err != nil {
		t.Fatal(err)
	}
	if c, err = open(t.Context(), root, "c1"); err != nil || c.Last().State != journal.Done {
		t.Fatalf("Open = %v, %v", c, err)
	}
	c.Close()
}
