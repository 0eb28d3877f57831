package sse_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spritekit/lattice/orchestrator/sse"
)

// TestPumpBeats: a stream on which nothing happens sends a comment every 15 seconds, so that a reader and every proxy in between
// know that it lives, and goes on to send values.
func TestPumpBeats(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := httptest.NewRecorder()
		out, err := sse.Start(w)
		if err != nil {
			t.Fatal(err)
		}
		err = sse.Pump(t.Context(), out, func(_ context.Context, yield func(int) error) error {
			time.Sleep(40 * time.Second)
			return yield(7)
		}, func(v int) error { return out.Send(fmt.Sprint(v), "n", v) })
		if want := "retry: 2000\n\n: alive\n\n: alive\n\nid: 7\nevent: n\ndata: 7\n\n"; err != nil || w.Body.String() != want {
			t.Errorf("%v: sent %q, want %q", err, w.Body, want)
		}
	})
}
