package storage

import (
	"context"
	"errors"
	"os"
	"testing"
	"time"
)

// A digest that takes long does not keep others waiting, and ends when its layer is removed or its time is up.
func TestLongDigestsLetOthersBegin(t *testing.T) {
	t.Parallel()
	d := newDigests(10*time.Millisecond, time.Hour)
	forever := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	ended := make(chan error, slowDigests+1)
	for i := range slowDigests {
		go func() { ended <- d.runInBackground(t.Context(), string(rune('a'+i)), forever) }()
	}
	for len(d.slow) < slowDigests {
		time.Sleep(time.Millisecond)
	}
	begun := false
	if err := d.runInBackground(t.Context(), "quick", func(context.Context) error { begun = true; return nil }); err != nil || !begun {
		t.Errorf("a quick one: begun %v, %v", begun, err)
	}
	if err := d.runInBackground(t.Context(), "one too many", forever); !errors.Is(err, errSlow) {
		t.Errorf("one slow digest too many ends with %v", err)
	}
	for i := range slowDigests {
		d.stopDigest(string(rune('a' + i)))
		if err := <-ended; !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the digest of a layer that was removed ends with %v", err)
		}
	}
	if len(d.slow)+len(d.turn)+len(d.running) > 0 {
		t.Error("something is left of digests that ended")
	}
	d.limit = 20 * time.Millisecond
	if err := d.runInBackground(t.Context(), "late", forever); !errors.Is(err, errSlow) {
		t.Errorf("a digest beyond its time ends with %v", err)
	}
}
