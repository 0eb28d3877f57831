package local

import (
	"errors"
	"strings"
	"testing"

	"github.com/rs/zerolog"
)

// A sandbox that ends just as a checkpoint is about to hold its processes keeps nothing back.
func TestCheckpointWhileTheSandboxEnds(t *testing.T) {
	end := func() {}
	w := newWorldWith(t, Config{Dir: t.TempDir(), Log: zerolog.Nop(), Reserve: -1}, func(step string) {
		if step == "holding" {
			end()
		}
	})
	w.sprite("s")
	w.write("kept")
	ended := false
	id := w.whileRunning(func() string {
		rec, err := w.host.store.sprite("s")
		if err != nil {
			t.Fatal(err)
		}
		s, err := w.host.runtime(rec)
		if err != nil {
			t.Fatal(err)
		}
		end = func() { ended = s.present().StopFor(errors.New("ended by the test")) == nil }
		defer func() { end = func() {} }()
		return w.checkpoint()
	})
	if !ended {
		t.Fatal("the sandbox did not end before it was held")
	}
	w.write("changed")
	if err := w.client.Restore(t.Context(), "s", id); err != nil {
		t.Fatal(err)
	}
	if got := w.state(); !strings.HasPrefix(got, "kept") {
		t.Errorf("restored, the sprite holds %q", got)
	}
	w.check()
}
