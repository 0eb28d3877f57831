package drive

import (
	"context"
	"errors"
	"testing"
	"time"
)

func TestBootSleep(t *testing.T) {
	t.Parallel()
	before := bootTime()
	if err := bootSleep(t.Context(), 30*time.Millisecond); err != nil || bootTime()-before < 30*time.Millisecond {
		t.Errorf("bootSleep = %v after %v", err, bootTime()-before)
	}
	if err := bootSleep(t.Context(), -time.Hour); err != nil {
		t.Errorf("bootSleep of a time that is over = %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- bootSleep(ctx, time.Hour) }()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("bootSleep that was stopped = %v, want context.Canceled", err)
	}
}
