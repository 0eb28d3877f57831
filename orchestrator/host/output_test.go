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
