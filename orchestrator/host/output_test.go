package host

import (
	"io"
	"runtime"
	"testing"

	"github.com/spritekit/lattice/orchestrator/sprites"
)

const mib = 1 << 20

// heapWriter is a reader of output that is slower than the command: after each MiB it looks how much memory the process,
// host and client in one, holds on to.
type heapWriter struct {
	n, next int64
	base    uint64
	most    uint64
	zeros   bool // all bytes so far were 0
}

func (w *heapWriter) Write(p []byte) (int, error) {
	for _, b := range p {
		w.zeros = w.zeros && b == 0
	}
	w.n += int64(len(p))
	if w.n >= w.next {
		w.next = w.n + mib
		w.most = max(w.most, heap())
	}
	return len(p), nil
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// A command that prints far more than memory is to hold is slowed down to its reader's pace. Nothing is lost, and the exit
// code is the command's.
func TestOutputIsNotHeld(t *testing.T) {
	w := newWorld(t, t.TempDir(), func(string) {})
	if _, err := w.client.Create(t.Context(), sprites.Create{Name: "s"}); err != nil {
		t.Fatal(err)
	}
	const size = 64 * mib
	for name, tty := range map[string]bool{"pipe": false, "terminal": true} {
		out := &heapWriter{zeros: true, base: heap()}
		code, err := w.client.Exec(t.Context(), "s", sprites.Exec{
			Cmd: []string{"sh", "-c", "head -c 67108864 /dev/zero; exit 7"}, TTY: tty, Stdout: out, Stderr: io.Discard,
		})
		if code != 7 || err != nil || out.n != size || !out.zeros {
			t.Errorf("%s: exit %d, %v after %d bytes, want 7 after %d bytes of 0", name, code, err, out.n, size)
		}
		if held := int64(out.most) - int64(out.base); held > 16*mib {
			t.Errorf("%s: host and client hold %d MiB of %d", name, held/mib, size/mib)
		}
	}
}

// A client that attaches and does not read is cut off; the command and its owner go on.
func TestWatcherThatDoesNotReadIsCutOff(t *testing.T) {
	s := newSession()
	owner, watcher := newClient(true), newClient(false)
	s.clients[owner] = true
	if !s.attach(watcher) {
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
		s.publish(frame{sprites.StreamStdout, make([]byte, readChunk)})
	}
	s.finish(0, nil)
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
		"whole reads":               {readChunk, 40, []byte{sprites.StreamStdout}},
		"odd pieces":                {1000, 1000, []byte{sprites.StreamStdout, sprites.StreamStdout, sprites.StreamStderr}},
	} {
		s := newSession()
		for i := range c.n {
			data := make([]byte, c.piece)
			data[len(data)-1] = byte(i)
			s.publish(frame{c.streams[i%len(c.streams)], data})
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
