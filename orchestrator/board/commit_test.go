package board

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Writers that come during a commit share the next one, which syncs the file of each task once.
func TestWritersShareACommit(t *testing.T) {
	b := newBoard(t)
	var tasks []*Task
	for n := range 3 {
		task, _, err := b.Create(t.Context(), "human:a", "", CreatedData{Title: fmt.Sprint(n), Status: "backlog"})
		if err != nil {
			t.Fatal(err)
		}
		tasks = append(tasks, task)
	}
	var syncs atomic.Int32
	first, release := make(chan struct{}), make(chan struct{})
	b.commits.sync = func(f *os.File) error {
		if syncs.Add(1) == 1 {
			close(first)
			<-release
		}
		return f.Sync()
	}
	comment := func(n int) error {
		_, _, err := b.Update(t.Context(), tasks[n%len(tasks)].ID, "human:a", func(*Task) ([]Change, error) { return AddComment(fmt.Sprint("comment ", n)) })
		return err
	}
	var all sync.WaitGroup
	const writers = 15
	errs := make([]error, writers+1)
	all.Go(func() { errs[writers] = comment(0) })
	<-first
	for n := range writers {
		all.Go(func() { errs[n] = comment(n) })
	}
	for waiting := 0; waiting < writers; time.Sleep(time.Millisecond) {
		b.commits.mu.Lock()
		waiting = len(b.commits.waiting)
		b.commits.mu.Unlock()
	}
	close(release)
	all.Wait()
	if err := errors.Join(errs...); err != nil || syncs.Load() != 1+int32(len(tasks)) {
		t.Errorf("%d writers caused %d syncs, want %d: %v", writers+1, syncs.Load(), 1+len(tasks), err)
	}
	found := 0
	for _, task := range tasks {
		after, err := b.Task(task.ID)
		if err != nil {
			t.Fatal(err)
		}
		found += len(after.Comments)
	}
	if found != writers+1 {
		t.Errorf("%d comments are left of %d", found, writers+1)
	}
}

// TestCommitFails checks that a failed sync fails each writer of the commit, and that the next commit succeeds.
func TestCommitFails(t *testing.T) {
	b := newBoard(t)
	b.commits.sync = func(*os.File) error { return errors.New("the disk is gone") }
	if _, _, err := b.Create(t.Context(), "human:a", "", CreatedData{Title: "x", Status: "backlog"}); err == nil || !strings.Contains(err.Error(), "the disk is gone") {
		t.Errorf("Create = %v", err)
	}
	b.commits.sync = (*os.File).Sync
	if _, _, err := b.Create(t.Context(), "human:a", "", CreatedData{Title: "x", Status: "backlog"}); err != nil {
		t.Error(err)
	}
}

// A start and an end of a process cost one sync each; the copy of the task and a file that follows from the events cost none.
func TestSyncsOfAProcess(t *testing.T) {
	b := newBoard(t)
	task, _, err := b.Create(t.Context(), "human:a", "", CreatedData{Title: "x", Status: "backlog"})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.ReplaceFile(".lattice/queue/wq_1.json", []byte("pending")); err != nil {
		t.Fatal(err)
	}
	var syncs atomic.Int32
	b.commits.sync = func(f *os.File) error { syncs.Add(1); return f.Sync() }
	for _, c := range []Change{{ProcessStarted, ProcessData{Type: "X"}}, {ProcessCompleted, ProcessData{Type: "X"}}} {
		if _, _, err := b.Update(t.Context(), task.ID, "worker:X", func(*Task) ([]Change, error) { return []Change{c}, nil }); err != nil {
			t.Fatal(err)
		}
		if err := b.Amend(t.Context(), ".lattice/queue/wq_1.json", func([]byte) ([]byte, error) { return []byte(c.Type), nil }); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Amend(t.Context(), ".lattice/queue/wq_2.json", func([]byte) ([]byte, error) { return nil, errors.New("called for a file that is gone") }); err != nil {
		t.Error(err)
	}
	if text, err := readSmall(b.root, ".lattice/queue/wq_1.json"); string(text) != ProcessCompleted || err != nil || syncs.Load() != 2 {
		t.Errorf("the file is %q, %v, after %d syncs, want 2", text, err, syncs.Load())
	}
}
