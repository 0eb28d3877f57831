package session

import (
	"context"
	"sync"
	"time"
)

// processRegistry holds which processes belong to the calls in progress. Calls that only read run concurrently in one
// sprite, and stopping the processes of one call must not stop those of another.
type processRegistry struct {
	mu    sync.Mutex               // guards all below
	calls map[string]string        // call by process
	doors map[string]chan struct{} // locks by sprite, held while a process starts and while processes are listed
}

func newProcessRegistry() *processRegistry {
	return &processRegistry{calls: map[string]string{}, doors: map[string]chan struct{}{}}
}

// maxUnnamed bounds how long a starting process holds the lock, because not every host reports session ids.
const maxUnnamed = 10 * time.Second

// lockProcesses waits until no process is being started or listed in sprite, and returns the unlock function.
func (r *processRegistry) lockProcesses(ctx context.Context, sprite string) (leave func(), err error) {
	r.mu.Lock()
	door := r.doors[sprite]
	if door == nil {
		door = make(chan struct{}, 1)
		r.doors[sprite] = door
	}
	r.mu.Unlock()
	select {
	case door <- struct{}{}:
		return sync.OnceFunc(func() { <-door }), nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// registerProcess prepares the start of a process of a call. The caller must call named with the process id when that is
// known, and ended in any case.
func (r *processRegistry) registerProcess(ctx context.Context, sprite, call string) (named func(id string), ended func(), err error) {
	leave, err := r.lockProcesses(ctx, sprite)
	if err != nil {
		return nil, nil, err
	}
	late := time.AfterFunc(maxUnnamed, leave)
	var process string
	named = func(id string) {
		r.mu.Lock()
		process, r.calls[id] = id, call
		r.mu.Unlock()
		leave()
	}
	return named, func() {
		late.Stop()
		leave()
		r.mu.Lock()
		delete(r.calls, process)
		r.mu.Unlock()
	}, nil
}

// belongsToOther reports whether a process belongs to a call other than this one.
func (r *processRegistry) belongsToOther(process, call string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	owner, ok := r.calls[process]
	return ok && owner != call
}
