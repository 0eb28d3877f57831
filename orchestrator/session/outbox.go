package session

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// cursor is how far a sprite's outbox is known: the end of the last whole line read, and what that line was, so that
// an outbox that was restored or rewritten is read anew.
type cursor struct {
	offset int64
	length int64 // of the last line, its end included
	sum    [sha256.Size]byte
}

// forget drops what is known of a sprite's outbox; a restore puts older bytes in its place.
func (s *Session) forget(sprite string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.cursors, sprite)
}

// reconcile hands on every event of the outbox that the stream did not show. A missing outbox is an empty one.
func (s *Session) reconcile(ctx context.Context, c lattice.Call, seen *observer) error {
	s.mu.Lock()
	at := s.cursors[c.Sprite]
	s.mu.Unlock()
	body, err := s.host.ReadFrom(ctx, c.Sprite, workspace+"/"+protocol.OutboxFile, at.offset-at.length)
	if errors.Is(err, sprites.ErrNotFound) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read outbox of sprite %s: %w", c.Sprite, err)
	}
	clear(seen.foreign)
	next, same, err := readOutbox(body, at, seen)
	body.Close()
	if err != nil {
		return fmt.Errorf("read outbox of sprite %s: %w", c.Sprite, err)
	}
	if !same { // not the outbox we knew: dedupe keys make reading it from the start harmless
		s.forget(c.Sprite)
		return s.reconcile(ctx, c, seen)
	}
	s.mu.Lock()
	s.cursors[c.Sprite] = next
	s.mu.Unlock()
	return nil
}

// readOutbox reads lines from the last known one on. same is false when that line is not what it was.
func readOutbox(r io.Reader, at cursor, seen *observer) (next cursor, same bool, err error) {
	next = at
	lines := bufio.NewReaderSize(r, 64<<10)
	first := at.length > 0
	offset := at.offset - at.length
	for {
		line, size, err := readLine(lines)
		if errors.Is(err, io.EOF) {
			return next, !first, nil // a torn last line is left for the next reading
		}
		if err != nil {
			return at, false, err
		}
		offset += size
		sum := sha256.Sum256(line)
		if first {
			if size != at.length || sum != at.sum {
				return at, false, nil
			}
			first = false
			continue
		}
		next = cursor{offset: offset, length: size, sum: sum}
		if e, problems, ok := protocol.Decode(line); ok {
			seen.take(e, problems)
		}
	}
}

// readLine returns the next whole line without its end, and its size with it. Lines above protocol.MaxLine are cut to
// nothing: their events are known by their offset only.
func readLine(r *bufio.Reader) (line []byte, size int64, err error) {
	for {
		part, err := r.ReadSlice('\n')
		size += int64(len(part))
		if len(line)+len(part) <= protocol.MaxLine+1 {
			line = append(line, part...)
		}
		switch {
		case err == nil:
			if size > protocol.MaxLine+1 {
				return nil, size, nil
			}
			return line[:len(line)-1], size, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, size, err
		}
	}
}
