package skill_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// A lock that something in the sprite holds and does not let go ends in busy, which may be tried again.
func TestLocksHeldForEver(t *testing.T) {
	for _, name := range []string{protocol.OutboxFile, protocol.CallsDir + "/c1.jsonl"} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.write(name, "")
			f, err := os.Open(filepath.Join(b.dir, name))
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) { // whose time passes as soon as everybody waits
				runs := 0
				o := b.call(manifests.ClassSprite, `{"path":"a"}`, count(&runs))
				e := o.result.Error
				if o.exit != protocol.ExitBusy || e == nil || e.Code != "busy" || !e.Retryable || !strings.Contains(e.Hint, "end") || runs != 0 {
					t.Errorf("exit %d, %+v, ran %d times", o.exit, e, runs)
				}
			})
			if err := syscall.Flock(int(f.Fd()), syscall.LOCK_UN); err != nil {
				t.Fatal(err)
			}
			runs := 0
			if o := b.call(manifests.ClassSprite, `{"path":"a"}`, count(&runs)); o.exit != 0 || runs != 1 {
				t.Errorf("once it is free: exit %d, ran %d times, %+v", o.exit, runs, o.result.Error)
			}
		})
	}
}
