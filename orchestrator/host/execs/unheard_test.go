package execs

import (
	"os"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/program"
)

// A command that nobody listens to is held to the rate: what it says in a second takes a second, however quick the machine is.
func TestUnheardCommandsArePaced(t *testing.T) {
	s := newSession()
	if s.publishFrame(frame{1, []byte("x")}) {
		t.Error("a session without clients is heard")
	}
	c := newClient(false)
	if !s.attachClient(c) || !s.publishFrame(frame{1, []byte("x")}) {
		t.Error("a session with a client is not heard")
	}
	c.leave()

	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	began, ended := time.Now(), make(chan struct{})
	go func() {
		defer close(ended)
		newSession().pumpOutput(1, r, func() {})
	}()
	piece := make([]byte, 1<<20)
	for range (program.Burst + program.UnheardRate) / len(piece) {
		if _, err := w.Write(piece); err != nil {
			t.Fatal(err)
		}
	}
	w.Close()
	<-ended
	if took := time.Since(began); took < 9*time.Second/10 {
		t.Errorf("what it says beyond its burst in a second is read in %v", took)
	}
}
