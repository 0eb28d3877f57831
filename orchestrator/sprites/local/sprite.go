package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/spritekit/lattice/orchestrator/sprites/local/sandbox"
)

// alone is the weight of a call that passes a sprite's gate alone; all others weigh 1.
const alone = 1 << 30

// sprite is what runs of one sprite. It exists from the first call that needs it until deletion.
type sprite struct {
	host *Host
	id   string
	gate *semaphore.Weighted // passed by calls that use the tree; alone by those that replace it

	mu       sync.Mutex // guards the fields below
	box      *sandbox.Box
	socket   *insideServer
	sessions map[string]*session
}

var errHostClosed = errors.New("the sprite host is shutting down")

// enter finds a sprite and passes its gate, alone or (weight 1) with others. The caller calls leave when it no longer
// uses the record's tree.
func (h *Host) enter(ctx context.Context, name string, weight int64) (s *sprite, rec spriteRecord, leave func(), err error) {
	first, err := h.store.sprite(name)
	if err != nil {
		return nil, rec, nil, err
	}
	if s, err = h.runtime(first.ID); err != nil {
		return nil, rec, nil, err
	}
	if err := s.gate.Acquire(ctx, weight); err != nil {
		return nil, rec, nil, err
	}
	// While we waited it may have been deleted, made anew, or restored to another tree.
	rec, err = h.store.sprite(name)
	if err == nil && rec.ID != first.ID {
		err = errNoSprite
	}
	if err != nil {
		s.gate.Release(weight)
		return nil, rec, nil, err
	}
	return s, rec, sync.OnceFunc(func() { s.gate.Release(weight) }), nil
}

func (h *Host) runtime(id string) (*sprite, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return nil, errHostClosed
	}
	s := h.sprites[id]
	if s == nil {
		s = &sprite{host: h, id: id, gate: semaphore.NewWeighted(alone), sessions: map[string]*session{}}
		h.sprites[id] = s
	}
	return s, nil
}

// status is running while commands run, warm while the box is up, else cold.
func (h *Host) status(id string) string {
	h.mu.Lock()
	s := h.sprites[id]
	h.mu.Unlock()
	if s == nil {
		return "cold"
	}
	if len(s.live()) > 0 {
		return "running"
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.box == nil || ended(s.box) {
		return "cold"
	}
	return "warm"
}

func ended(box *sandbox.Box) bool {
	select {
	case <-box.Done():
		return true
	default:
		return false
	}
}

// live returns the sessions whose command has not ended.
func (s *sprite) live() []*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*session
	for _, one := range s.sessions {
		if !one.ended() {
			all = append(all, one)
		}
	}
	return all
}

// session returns a live session by id.
func (s *sprite) session(id string) (*session, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	one, ok := s.sessions[id]
	return one, ok && !one.ended()
}

// up returns the running box, starting one if there is none. The caller holds mu and is inside the gate.
func (s *sprite) up(rec spriteRecord) (*sandbox.Box, error) {
	h := s.host
	if h.ctx.Err() != nil {
		return nil, errHostClosed
	}
	if s.box != nil {
		if !ended(s.box) {
			return s.box, nil
		}
		h.cfg.Log.Warn().Str("sprite", rec.Name).Msg("sandbox ended by itself, starting another")
		if err := s.box.Stop(); err != nil {
			return nil, fmt.Errorf("clear away the ended sandbox: %w", err)
		}
		s.box = nil
	}
	if why := h.degraded(rec.Tree); why != "" {
		return nil, degradedError(why)
	}
	for _, dir := range []string{h.runDir(s.id), h.cacheDir(s.id)} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return nil, err
		}
	}
	if s.socket == nil {
		socket, err := h.listenInside(s.id, rec.Name)
		if err != nil {
			return nil, fmt.Errorf("open the sprite's own socket: %w", err)
		}
		s.socket = socket
	}
	box, err := sandbox.Start(h.boxConfig(rec))
	if err != nil {
		return nil, fmt.Errorf("start sandbox: %w", err)
	}
	s.box = box
	now := h.now()
	if _, err := h.store.updateSprite(rec.Name, func(r *spriteRecord) { r.LastStarted = &now }); err != nil {
		// On a full disk commands still run: with them space is freed.
		h.cfg.Log.Warn().Err(err).Str("sprite", rec.Name).Msg("record the start")
	}
	return box, nil
}

// stop ends the box and all sessions and waits for them. Nobody starts anything meanwhile, because the caller is alone
// or the host is closed.
func (s *sprite) stop() error {
	s.mu.Lock()
	var err error
	if s.box != nil {
		err = s.box.Stop()
		s.box = nil
	}
	sessions := make([]*session, 0, len(s.sessions))
	for _, one := range s.sessions {
		sessions = append(sessions, one)
	}
	s.mu.Unlock() // sessions take it to sign off
	for _, one := range sessions {
		one.abandon()
	}
	return err
}

// closeSocket ends the sprite's own socket.
func (s *sprite) closeSocket() error {
	s.mu.Lock()
	socket := s.socket
	s.socket = nil
	s.mu.Unlock()
	if socket == nil {
		return nil
	}
	return socket.close()
}

type degradedError string

func (e degradedError) Error() string { return "sprite is degraded: " + string(e) }
