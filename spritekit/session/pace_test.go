package session

import (
	"slices"
	"testing"
	"time"
)

// A process hurries from when calls take long until none is at work, and does not look whether they still do.
func TestPace(t *testing.T) {
	var said []bool
	p := newPace(func(on bool) { said = append(said, on) })
	defer p.stopTimer()
	p.addCall(0)
	p.since = time.Now()
	if p.checkCalls(1); !p.armed && time.Since(p.since) < moment {
		t.Error("nobody looks at a call that may take long yet")
	}
	p.since = time.Now().Add(-moment)
	if p.checkCalls(2); p.armed {
		t.Error("calls that have taken long are looked at again and again")
	}
	if p.removeCall(1); p.armed {
		t.Error("while one is at work there is nothing to look for")
	}
	if p.removeCall(0); !p.armed {
		t.Error("nobody looks whether another call follows")
	}
	p.checkCalls(0)
	if !slices.Equal(said, []bool{true, false}) || p.armed {
		t.Errorf("told %v, want that it hurries and that it does not; looks again: %t", said, p.armed)
	}
}
