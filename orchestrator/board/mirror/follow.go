package mirror

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/orchestrator/board"
	"github.com/spritekit/lattice/orchestrator/forge"
)

const (
	// lookPause is the time between two looks at the files of a board.
	lookPause = time.Second
	// readPause is the longest time between two looks at the issues: a webhook may be lost.
	readPause = time.Hour
	// latePause is the time after a delivery until the issues are read again: a code host may list a change late.
	latePause = 10 * time.Second
	// retryPause is the time after a failure.
	retryPause = 30 * time.Second
)

// Follower mirrors issues while a leader serves.
type Follower struct {
	Sources map[string]Source // by the folder of the board
	// Hooks runs the hooks of events.
	Hooks  func(ctx context.Context, b *board.Board, events []board.Event) error
	Logger zerolog.Logger

	mu    sync.Mutex
	wakes map[string]chan struct{} // by folder
}

// wakeOf returns the channel that wakes the goroutine of a board.
func (f *Follower) wakeOf(folder string) chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.wakes == nil {
		f.wakes = map[string]chan struct{}{}
	}
	if f.wakes[folder] == nil {
		f.wakes[folder] = make(chan struct{}, 1)
	}
	return f.wakes[folder]
}

// Wake has the issues of a repository read soon. It reports whether a board mirrors them.
func (f *Follower) Wake(host string, p forge.Path) (known bool) {
	for folder, s := range f.Sources {
		if s.Forge == host && s.Path.Equal(p) {
			known = true
			select {
			case f.wakeOf(folder) <- struct{}{}:
			default: // it looks anyway
			}
		}
	}
	return known
}

// Follow mirrors issues until ctx ends.
func (f *Follower) Follow(ctx context.Context) {
	var all sync.WaitGroup
	for folder, s := range f.Sources {
		all.Go(func() { f.followBoard(ctx, folder, s) })
	}
	all.Wait()
}

// followBoard mirrors the issues of one board: at the beginning, when an event is written or a delivery came, and every so often.
func (f *Follower) followBoard(ctx context.Context, folder string, s Source) {
	every := readPause
	if s.Poll > 0 {
		every = min(s.Poll, readPause)
	}
	wake, due, stamp, told := f.wakeOf(folder), time.Now(), uint64(0), false
	for ctx.Err() == nil {
		now, err := f.lookAtBoard(ctx, folder, s, stamp, !time.Now().Before(due))
		switch {
		case err != nil && ctx.Err() == nil:
			f.Logger.Warn().Err(err).Str("board", folder).Stringer("repository", s.Path).Msg("mirror the issues")
			due = time.Now().Add(retryPause)
		case now != stamp || !time.Now().Before(due):
			if due = time.Now().Add(every); told {
				due, told = time.Now().Add(min(latePause, every)), false
			}
		}
		stamp = now
		pause := lookPause
		if err != nil {
			pause = retryPause
		}
		select {
		case <-ctx.Done():
		case <-wake:
			due, told = time.Now(), true
		case <-time.After(pause):
		}
	}
}

// lookAtBoard mirrors the issues if they are due or the files of the board have changed, and returns the stamp of the files behind that.
func (f *Follower) lookAtBoard(ctx context.Context, folder string, s Source, stamp uint64, due bool) (now uint64, err error) {
	b, err := board.Open(folder)
	if err != nil {
		return stamp, err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	b.Warn = func(text string) { f.Logger.Warn().Str("board", folder).Msg(text) }
	if now, err = b.Stamp(); err != nil || now == stamp && !due {
		return now, err
	}
	_, events, err := s.Sync(ctx, b)
	if err := errors.Join(err, f.Hooks(ctx, b, events)); err != nil {
		return stamp, err
	}
	return now, nil // of before: a change of others meanwhile leads to another look
}
