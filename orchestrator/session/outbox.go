package session

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// cursor is the position up to which a sprite's outbox is known: the end of the last whole line read, and the digest of that
// line, so that an outbox that was restored or rewritten is read from the start.
type cursor struct {
	offset int64
	length int64 // of the last line, its end included
	sum    [sha256.Size]byte
	// foreign counts the events without an id up to here, by dedupe key. Never changed once it is in a cursor.
	foreign map[digest]int
	// covered is up to where all is known that the outbox holds, although it was not read: a shared exec that wrote the rest alone
	// has shown it. At least offset.
	covered int64
}

func (s *Session) outboxCursor(sprite string) cursor {
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.cursors[sprite]
	if at.foreign == nil {
		at.foreign = map[digest]int{}
	}
	return at
}

// forgetOutbox drops the cursor of a sprite's outbox; a restore puts older bytes in its place.
func (s *Session) forgetOutbox(sprite string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.cursors, sprite)
}

// reconcileOutbox hands on every event of the outbox that the stream did not show. A missing outbox is an empty one.
func (s *Session) reconcileOutbox(ctx context.Context, c lattice.Call, seen *observer) error {
	at := s.outboxCursor(c.Sprite)
	body, err := s.host.ReadFrom(ctx, c.Sprite, workspace+"/"+protocol.OutboxFile, at.offset-at.length)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if notAFile(err) { // a program of the sprite put it there instead of the outbox: nothing can be learned from it
		output := s.output(c.RunID, c.Node)
		defer flushOutput(output)
		fmt.Fprintf(output, "%s: %v\n", c.Skill, err)
		return nil
	}
	if err != nil {
		return asRefusal(fmt.Errorf("read outbox of sprite %s: %w", c.Sprite, err), "the sprite was removed")
	}
	seen.reread(at.foreign)
	seen.outbox = true
	output := s.output(c.RunID, c.Node)
	next, same, err := readOutbox(body, at, seen, output)
	flushOutput(output)
	seen.outbox = false
	body.Close()
	if err != nil {
		return fmt.Errorf("read outbox of sprite %s: %w", c.Sprite, err)
	}
	if !same { // not the outbox we knew: dedupe keys make reading it from the start harmless
		s.forgetOutbox(c.Sprite)
		return s.reconcileOutbox(ctx, c, seen)
	}
	seen.reread(next.foreign) // further events are counted on top of it
	next.covered = next.offset
	s.mu.Lock()
	s.cursors[c.Sprite] = next
	s.mu.Unlock()
	return nil
}

// isCovered reports whether the outbox holds only events that complete streams have shown, up to the call's result. It trusts
// the sprite in this: a sprite that lies only loses its own events.
func (s *Session) isCovered(c lattice.Call, seen *observer) bool {
	if seen.sole == nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	at := s.cursors[c.Sprite]
	if seen.sole.From > at.covered {
		return false
	}
	at.covered = max(at.covered, seen.sole.To)
	s.cursors[c.Sprite] = at
	return true
}

// readOutbox reads the lines from the last known one on. same is false if that line has changed.
func readOutbox(r io.Reader, at cursor, seen *observer, output io.Writer) (next cursor, same bool, err error) {
	next = at
	lines := bufio.NewReaderSize(r, 64<<10)
	first := at.length > 0
	offset := at.offset - at.length
	for {
		line, size, sum, err := readLine(lines)
		if errors.Is(err, io.EOF) {
			next.foreign = seen.foreign
			return next, !first, nil // a torn last line is left for the next reading
		}
		if err != nil {
			return at, false, err
		}
		offset += size
		if first {
			if size != at.length || sum != at.sum {
				return at, false, nil
			}
			first = false
			continue
		}
		next = cursor{offset: offset, length: size, sum: sum}
		if seen.mustSkip(line) {
			continue
		}
		e, problems, ok := protocol.Decode(line)
		switch {
		case ok:
			seen.takeEvent(e, problems)
		case size > protocol.MaxLine+1:
			fmt.Fprintf(output, "outbox: the line at offset %d is too long to be read: %d bytes, sha256 %x\n", offset-size, size, sum)
		case len(bytes.TrimSpace(line)) > 0:
			fmt.Fprintf(output, "outbox: the line at offset %d is no event\n", offset-size)
		}
	}
}

// readLine returns the next whole line without its end, and of all its bytes the number and digest. A line above
// protocol.MaxLine comes back empty.
func readLine(r *bufio.Reader) (line []byte, size int64, sum [sha256.Size]byte, err error) {
	hash := sha256.New()
	for {
		part, err := r.ReadSlice('\n')
		size += int64(len(part))
		hash.Write(part)
		if size <= protocol.MaxLine+1 {
			line = append(line, part...)
		}
		switch {
		case err == nil:
			hash.Sum(sum[:0])
			if size > protocol.MaxLine+1 {
				return nil, size, sum, nil
			}
			return line[:len(line)-1], size, sum, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return nil, size, sum, err
		}
	}
}

// notAFile reports whether an error says that the outbox is not a regular file, which a repetition does not change.
func notAFile(err error) bool {
	var refused *sprites.APIError
	return errors.As(err, &refused) && refused.Code != "" && refused.Path != "" && refused.Status >= 400 && refused.Status < 500
}
