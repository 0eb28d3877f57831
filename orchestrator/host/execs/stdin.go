package execs

import (
	"context"

	"github.com/spritekit/lattice/orchestrator/boltfile"
	"golang.org/x/sync/semaphore"
)

// stdinRoom bounds the bytes of input that wait for a process. Until it is used up a client that sends more than the
// process takes is still heard: its pings are answered, its signals delivered.
const stdinRoom = 32 << 20

// pieceCost is the memory of a piece of input in addition to its bytes.
const pieceCost = 64

// stdin is the input on its way to a process: pieces in order, nil for the end.
type stdin struct {
	room *semaphore.Weighted
	more chan struct{} // holds a token when there may be pieces

	mu     boltfile.Lock // guards the fields below
	pieces [][]byte
	closed bool
}

func newStdin() *stdin {
	return &stdin{room: semaphore.NewWeighted(stdinRoom), more: make(chan struct{}, 1)}
}

func pieceSize(piece []byte) int64 { return int64(len(piece)) + pieceCost }

// addPiece adds a piece, waiting for room until ctx ends. After close it drops the piece.
func (s *stdin) addPiece(ctx context.Context, piece []byte) {
	if s.room.Acquire(ctx, pieceSize(piece)) != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		s.room.Release(pieceSize(piece))
		return
	}
	s.pieces = append(s.pieces, piece)
	select {
	case s.more <- struct{}{}:
	default:
	}
}

// takePiece takes the first piece; false when there is none at present.
func (s *stdin) takePiece() (piece []byte, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pieces) == 0 {
		return nil, false
	}
	piece, s.pieces = s.pieces[0], s.pieces[1:]
	s.room.Release(pieceSize(piece))
	return piece, true
}

// close drops the waiting pieces; put then returns at once.
func (s *stdin) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for _, piece := range s.pieces {
		s.room.Release(pieceSize(piece))
	}
	s.pieces = nil
}
