package execs

import (
	"testing"

	"github.com/spritekit/lattice/orchestrator/host/program"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// A client that attaches and does not read is cut off; the command and its owner go on.
func TestWatcherThatDoesNotReadIsCutOff(t *testing.T) {
	s := newSession()
	owner, watcher := newClient(true), newClient(false)
	s.clients[owner] = true
	if !s.attachClient(watcher) {
		t.Fatal("attach = false")
	}
	got := make(chan int)
	go func() {
		n := 0
		for range owner.frames {
			n++
		}
		got <- n
	}()
	const frames = 10 * clientBacklog
	for range frames {
		s.publishFrame(frame{sprites.StreamStdout, make([]byte, program.ReadChunk)})
	}
	s.finishSession(0, nil)
	if n := <-got; n != frames {
		t.Errorf("the owner got %d frames, want %d", n, frames)
	}
	if watcher.here.Err() == nil {
		t.Error("the watcher that did not read was kept")
	}
}

// The recent output stays within its bounds whatever the size of the pieces, and ends with the last byte.
func TestRecentOutputIsBounded(t *testing.T) {
	for name, c := range map[string]struct {
		piece, n int
		streams  []byte
	}{
		"byte by byte":              {1, 2 * scrollback, []byte{sprites.StreamStdout}},
		"byte by byte, alternating": {1, 2 * scrollback, []byte{sprites.StreamStdout, sprites.StreamStderr}},
		"whole reads":               {program.ReadChunk, 40, []byte{sprites.StreamStdout}},
		"odd pieces":                {1000, 1000, []byte{sprites.StreamStdout, sprites.StreamStdout, sprites.StreamStderr}},
	} {
		s := newSession()
		for i := range c.n {
			data := make([]byte, c.piece)
			data[len(data)-1] = byte(i)
			s.publishFrame(frame{c.streams[i%len(c.streams)], data})
		}
		size := 0
		for _, f := range s.recent {
			size += len(f.data)
		}
		if size != s.size || size > scrollback || len(s.recent) > recentFrames {
			t.Errorf("%s: %d bytes (counted: %d) in %d pieces", name, size, s.size, len(s.recent))
		}
		if len(c.streams) == 1 && size != scrollback {
			t.Errorf("%s: %d bytes kept, want %d", name, size, scrollback)
		}
		last := s.recent[len(s.recent)-1].data
		if last[len(last)-1] != byte(c.n-1) {
			t.Errorf("%s: the last byte is not the last one printed", name)
		}
	}
}
