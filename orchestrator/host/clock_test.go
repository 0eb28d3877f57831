package host

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/spritekit/lattice/orchestrator/host/core"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// Somebody sets the system's clock by hours, forward and back: what waits goes on waiting as long as it was to, what is kept
// awake stays awake, nothing is out of order, and no number of a session is used twice.
func TestClockIsSet(t *testing.T) {
	w := newWorldWith(t, core.Config{Dir: t.TempDir(), Log: zerolog.Nop(), Limits: core.Limits{Creations: 3, Window: time.Hour}}, func(string) {})
	h, ctx := w.host, t.Context()
	var set atomic.Int64
	h.core.Now = func() time.Time { return time.Now().UTC().Add(time.Duration(set.Load())) }
	if _, err := w.client.Create(ctx, sprites.Create{Name: "s"}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.client.Tasks().KeepAwake(ctx, "s", "work", time.Hour); err != nil {
		t.Fatal(err)
	}
	var ids []string
	enough := errors.New("enough")
	for _, hours := range []time.Duration{0, 6, -6} {
		set.Store(int64(hours * time.Hour))
		tasks, err := w.client.Tasks().List(ctx, "s")
		if err != nil || len(tasks) != 1 || tasks[0].ExpiresAt.Sub(h.core.Now()).Round(time.Minute) != time.Hour {
			t.Errorf("at %d h: tasks %+v, %v", hours, tasks, err)
		}
		if got := w.asleep("s"); got != "running" {
			t.Errorf("at %d h: the sprite is %s", hours, got)
		}
		// A service that fails is started again when its pause is over.
		name := "fails" + strconv.Itoa(len(ids))
		started := 0
		err = w.client.Services().Put(ctx, "s", sprites.Service{Name: name, Cmd: "false"}, sprites.ServiceCall{Duration: time.Minute, OnEvent: func(e sprites.ServiceEvent) error {
			if e.Type != "started" {
				return nil
			}
			if started++; started == 1 {
				set.Add(-int64(3 * time.Hour)) // during the pause
				return nil
			}
			return enough
		}})
		if started != 2 {
			t.Errorf("at %d h: the service was started %d times: %v", hours, started, err)
		}
		if err := w.client.Services().Delete(ctx, "s", name); err != nil {
			t.Error(err)
		}
		ids = append(ids, w.checkpoint())
		w.do("s", "true") // a host without root ends an idle sandbox for a checkpoint
	}
	points, err := w.client.Checkpoints(ctx, "s")
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, p := range slices.Backward(points) {
		listed = append(listed, p.ID)
	}
	if !slices.Equal(listed, ids) {
		t.Errorf("checkpoints from the oldest on: %v, want %v", listed, ids)
	}
	// The limit of creations counts the hours that have passed.
	set.Store(int64(48 * time.Hour))
	for _, name := range []string{"a", "b"} {
		if _, err := w.client.Create(ctx, sprites.Create{Name: name}); err != nil {
			t.Fatal(err)
		}
	}
	res, err := http.Post(w.server+"/v1/sprites", "application/json", strings.NewReader(`{"name":"c"}`))
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if after, err := strconv.Atoi(res.Header.Get("Retry-After")); res.StatusCode != http.StatusTooManyRequests || err != nil || after > 3600 {
		t.Errorf("one sprite too many: status %d, Retry-After %q", res.StatusCode, res.Header.Get("Retry-After"))
	}
}
