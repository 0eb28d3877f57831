package session

import (
	"context"
	"sync"
	"time"
)

// roster knows which processes belong to the calls that are under way here. Calls that only read run beside each other
// in one sprite, and ending what is left of one must not end another's.
type roster struct {
	mu    sync.Mutex               // guards all below
	calls map[string]string        // call by process
	doors map[string]chan struct{} // by sprite: held while a process begins, and while processes are listed
}

func newRoster() *roster {
	return &roster{calls: map[string]string{}, doors: map[string]chan struct{}{}}
}

// maxUnnamed bounds how long a beginning process keeps others from being listed: not every host names its sessions.
const maxUnnamed = 10 * time.Second

// enter waits until no process is being started or listed in sprite.
func (r *roster) enter(ctx context.Context, sprite string) (leave func(), err error) {
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

// begin makes way for the process of a call; named is to be called with its id when that is known, ended in any case.
func (r *roster) begin(ctx context.Context, sprite, call string) (named func(id string), ended func(), err error) {
	leave, err := r.enter(ctx, sprite)
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
func (r *roster) belongsToOther(process, call string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	owner, ok := r.calls[process]
	return ok && owner != call
}
