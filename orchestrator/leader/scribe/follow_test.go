package scribe

import (
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/forge"
)

// TestPauseAfter checks how often a thread is tried that fails again and again: rarely, if the code host refuses it.
func TestPauseAfter(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err                 error
		first, second, last time.Duration
	}{
		"not reached":  {errors.New("no route"), 10 * time.Second, 20 * time.Second, 2 * time.Minute},
		"failing":      {&forge.Problem{Status: http.StatusBadGateway}, 10 * time.Second, 20 * time.Second, 2 * time.Minute},
		"a limit":      {&forge.Problem{Status: http.StatusForbidden, Retry: time.Now()}, 10 * time.Second, 20 * time.Second, 2 * time.Minute},
		"deleted":      {fmt.Errorf("comment: %w", &forge.Problem{Status: http.StatusGone}), 10 * time.Second, 20 * time.Second, 15 * time.Minute},
		"locked":       {errors.Join(errors.New("no plan"), &forge.Problem{Status: http.StatusForbidden}), 10 * time.Second, 20 * time.Second, 15 * time.Minute},
		"not accepted": {&forge.Problem{Status: http.StatusUnprocessableEntity}, 10 * time.Second, 20 * time.Second, 15 * time.Minute},
	} {
		if first, second, last := pauseAfter(c.err, 1), pauseAfter(c.err, 2), pauseAfter(c.err, 1000); first != c.first || second != c.second || last != c.last {
			t.Errorf("%s: the pauses are %v, %v … %v", name, first, second, last)
		}
	}
}
