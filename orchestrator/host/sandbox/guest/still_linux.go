package guest

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/procfs"
)

// stillness is init's way to make the box stand still.
type stillness struct {
	mu      sync.Mutex // guards the fields below
	stopped []int      // processes that were stopped, in the order of being found; nil when none are held
	seen    snapshot   // how they stood then
}

// snapshot is how the threads of a box stood at one look, by thread id.
type snapshot map[int]procfs.Posture

// Between looks init pauses: nothing tells when a process that is not one's child stops. For a moment it is gentle and stops
// parents before their children, so that no shell sees a job of its own stopped; then it stops all at once. The moment is longer
// where processes that were told to stop only wait for a processor: on a busy machine they all do.
const (
	firstPause = 100 * time.Microsecond
	lastPause  = 5 * time.Millisecond
	gentle     = 20 * time.Millisecond
	mostGentle = time.Second
)

// stopAll stops everything and returns when nothing has run between two looks. When ctx ends first, all go on.
func (st *stillness) stopAll(ctx context.Context, s *server) error {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.seen != nil {
		return nil
	}
	began := time.Now()
	before := s.readStates()
	last := before
	told := snapshot{} // those told to stop, as they stood then
	for pause := firstPause; ; {
		if took := time.Since(began); took < gentle || took < mostGentle && last.hasReady(told) {
			next := last.nextToStop()
			for _, pid := range next {
				if _, again := told[pid]; !again {
					told[pid] = last[pid]
				}
			}
			s.stopProcesses(next)
		} else {
			s.stopAll()
			pause = min(2*pause, lastPause)
		}
		now := s.readStates()
		st.noteProcesses(now, before)
		if now.isStill() && maps.Equal(now, last) {
			st.seen = now
			return nil
		}
		last = now
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			st.goOn(s)
			return fmt.Errorf("%d threads did not come to rest: %w", now.countRestless(), ctx.Err())
		}
	}
}

// noteProcesses adds the processes found for the first time, except those that were stopped before.
func (st *stillness) noteProcesses(now, before snapshot) {
	for _, tid := range slices.Sorted(maps.Keys(now)) {
		p := now[tid]
		if was, ok := before[p.Process]; ok && was.State == 'T' || slices.Contains(st.stopped, p.Process) {
			continue
		}
		st.stopped = append(st.stopped, p.Process)
	}
}

// continueAll continues the stopped processes, and reports whether any of them has run since the stop.
func (st *stillness) continueAll(s *server) (ran bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for tid, was := range st.seen {
		now, err := procfs.Stands(was.Process, tid)
		ran = ran || err == nil && now.State != 'Z' && now.State != 'X' && now != was
	}
	st.goOn(s)
	return ran
}

// goOn continues children before their parents, who would otherwise see them stopped. mu is held.
func (st *stillness) goOn(s *server) {
	for _, pid := range slices.Backward(st.stopped) {
		s.killProcess(pid, syscall.SIGCONT)
	}
	st.stopped, st.seen = nil, nil
}

// stopAll sends SIGSTOP to all but init. In a pid namespace the kernel does that in one step that no fork escapes.
func (s *server) stopAll() {
	if s.plain {
		s.stopProcesses(s.listProcesses())
		return
	}
	s.mu.Lock() // see stop
	defer s.mu.Unlock()
	s.killProcess(-1, syscall.SIGSTOP) // fails if no process is left
}

// stopProcesses sends SIGSTOP to some, while no command is being started: init waits for one until that has become another program,
// and could not then go on.
func (s *server) stopProcesses(pids []int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, pid := range pids {
		s.killProcess(pid, syscall.SIGSTOP)
	}
}

// readStates reads the states of all threads. Threads that end during the look are left out.
func (s *server) readStates() snapshot {
	all := snapshot{}
	for _, pid := range s.listProcesses() {
		entries, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
		if err != nil {
			continue
		}
		for _, e := range entries {
			tid, err := strconv.Atoi(e.Name())
			if err != nil {
				continue
			}
			if p, err := procfs.Stands(pid, tid); err == nil {
				all[tid] = p
			}
		}
	}
	return all
}

// nextToStop lists the processes to be stopped next: those whose parent stands still, or is init.
func (all snapshot) nextToStop() (pids []int) {
	for tid, p := range all {
		parent, inside := all[p.Parent]
		if tid == p.Process && p.State != 'T' && (!inside || parent.State == 'T') {
			pids = append(pids, p.Process)
		}
	}
	return pids
}

// chances is how often a process that was told to stop may be scheduled before it is taken for one that others wake: it is
// preempted on its way out of the kernel once or twice.
const chances = 3

// hasReady reports whether a process that was told to stop is ready to run and has hardly been scheduled since.
func (all snapshot) hasReady(told snapshot) bool {
	for pid, was := range told {
		if now, there := all[pid]; there && now.State == 'R' && now.Switches-was.Switches < chances {
			return true
		}
	}
	return false
}

func (all snapshot) isStill() bool { return all.countRestless() == 0 }

// countRestless counts the threads that may run. One that waits in the kernel for a child that was stopped before it became
// another program (vfork) runs no more than that child.
func (all snapshot) countRestless() (n int) {
	waited := map[int]bool{} // processes with a stopped child
	for _, p := range all {
		if p.State == 'T' {
			waited[p.Parent] = true
		}
	}
	for _, p := range all {
		switch p.State {
		case 'T', 't', 'Z', 'X':
		case 'D':
			if !waited[p.Process] {
				n++
			}
		default:
			n++
		}
	}
	return n
}
