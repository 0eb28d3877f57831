package journal_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/spritekit/lattice/spritekit/journal"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Only journals that nobody can need go: those of calls that are done, the oldest first.
func TestPrune(t *testing.T) {
	root := newRoot(t)
	waiting := &protocol.Waiting{Reason: "x"}
	age := time.Now().Add(-time.Hour)
	file := func(id string) string { return filepath.Join(root.Dir(), protocol.CallsDir, id+".jsonl") }
	add := func(id string, records ...journal.Record) *journal.Call {
		c, err := open(t.Context(), root, id)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range records {
			err = errors.Join(err, c.Append(r, false))
		}
		age = age.Add(time.Second)
		if err := errors.Join(err, os.Chtimes(file(id), age, age)); err != nil {
			t.Fatal(err)
		}
		return c
	}
	started, done := journal.Record{State: journal.Started}, journal.Record{State: journal.Done, Result: []byte(`{"ok":true}`)}
	add("crashed", started).Close()
	add("waits", started, journal.Record{State: journal.Suspending, Waiting: waiting}).Close()
	add("resumed", started, journal.Record{State: journal.Suspending, Waiting: waiting}, journal.Record{State: journal.Resumed, PayloadSHA256: "d"}).Close()
	add("torn", started).Close()
	if err := os.WriteFile(file("corrupt"), []byte("garbage\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(file("corrupt"), age, age); err != nil {
		t.Fatal(err)
	}
	busy := add("busy", started, done)
	defer busy.Close()
	for i := range 5 {
		add(fmt.Sprint("done", i), started, done).Close()
	}
	if err := journal.Prune(root, 2); err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"crashed", "waits", "resumed", "torn", "corrupt", "busy", "done3", "done4"} {
		if _, err := os.Lstat(file(id)); err != nil {
			t.Errorf("%s is gone: %v", id, err)
		}
	}
	for _, id := range []string{"done0", "done1", "done2"} {
		if _, err := os.Lstat(file(id)); err == nil {
			t.Errorf("%s is still there", id)
		}
	}
	results := 0
	if err := journal.Results(root, func(result []byte) {
		if string(result) == `{"ok":true}` {
			results++
		}
	}); err != nil || results != 3 {
		t.Errorf("Results showed %d results, %v; want 3", results, err)
	}
}

// A call whose journal is pruned while it waits for the lock makes it anew: it must not write to a file without a name.
func TestPrunedWhileWaiting(t *testing.T) {
	root := newRoot(t)
	first, err := open(t.Context(), root, "c1")
	if err != nil {
		t.Fatal(err)
	}
	opened := make(chan *journal.Call)
	go func() {
		defer close(opened)
		second, err := open(t.Context(), root, "c1")
		if err != nil {
			t.Error(err)
			return
		}
		opened <- second
	}()
	if err := errors.Join(os.Remove(filepath.Join(root.Dir(), protocol.CallsDir, "c1.jsonl")), first.Close()); err != nil {
		t.Fatal(err)
	}
	second, ok := <-opened
	if !ok {
		return
	}
	defer second.Close()
	if err := second.Append(journal.Record{State: journal.Started}, false); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(root.Dir(), protocol.CallsDir, "c1.jsonl")); err != nil {
		t.Errorf("the journal has no name: %v", err)
	}
}

// A call that drew its id itself leaves a journal only when somebody may ask for it again.
func TestFreshCallsLeaveNothing(t *testing.T) {
	root := newRoot(t)
	fresh := func(id string) *journal.Call {
		c, err := journal.Fresh(root, id, "demo.do", "abc", time.Now)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	c := fresh("c1")
	if err := errors.Join(c.Append(journal.Record{State: journal.Started}, true), c.Append(journal.Record{State: journal.Done}, true), c.Close()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(filepath.Join(root.Dir(), protocol.CallsDir)); err == nil {
		t.Error("a call that is done left a journal that nobody can ask for")
	}
	c = fresh("c2")
	err := errors.Join(c.Append(journal.Record{State: journal.Started}, false),
		c.Append(journal.Record{State: journal.Suspending, Waiting: &protocol.Waiting{Reason: "x"}}, true), c.Close())
	if err != nil {
		t.Fatal(err)
	}
	if c, err = open(t.Context(), root, "c2"); err != nil || c.Last().State != journal.Suspending {
		t.Fatalf("the call that waits: %+v, %v", c, err)
	}
	c.Close()
}
