package host

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"

	"github.com/spritekit/lattice/orchestrator/host/confine"
	"github.com/spritekit/lattice/orchestrator/host/core"
	"github.com/spritekit/lattice/orchestrator/host/records"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// weakWorld is a host on a machine that refuses namespaces.
func weakWorld(t *testing.T, least spec.Level) *world {
	w := newWorldWith(t, core.Config{Dir: t.TempDir(), Reserve: -1, MinIsolation: least}, func(string) {})
	w.host.confiner.Confined = func() confine.Confinement {
		return confine.Confinement{
			Plain: true, Isolation: spec.LevelProcess, Text: "plain process tree", Warning: "beware",
			Downgrade: &sprites.Downgrade{Reason: "start init: no", Remedy: "turn the knob"},
		}
	}
	return w
}

func TestIsolationIsToldAsItIs(t *testing.T) {
	w := newWorld(t, t.TempDir(), func(string) {})
	w.sprite("s")
	s, err := w.client.Get(t.Context(), "s")
	if err != nil {
		t.Fatal(err)
	}
	if level := spec.Level(s.Isolation); !level.Valid() || (s.Downgrade == nil) != (level != spec.LevelProcess) {
		t.Errorf("isolation %q, downgrade %v", s.Isolation, s.Downgrade)
	}
	if _, code := w.sh("s", "true"); code != 0 {
		t.Fatalf("true = %d", code)
	}
	if box := w.host.fleet.Running()[0].Present(); box == nil || string(box.Level()) != s.Isolation {
		t.Errorf("the sprite's object says %q of a box %v", s.Isolation, box)
	}
	if len(s.Limits) != 4 {
		t.Errorf("limits %v", s.Limits)
	}

	w = weakWorld(t, "")
	w.sprite("s")
	if s, err = w.client.Get(t.Context(), "s"); err != nil || s.Isolation != "process" || s.Downgrade == nil || s.Downgrade.Remedy != "turn the knob" {
		t.Errorf("without namespaces: %q, %+v, %v", s.Isolation, s.Downgrade, err)
	}
}

func TestIsolationIsNotLowered(t *testing.T) {
	refused := func(what string, err error) {
		t.Helper()
		var answer *sprites.APIError
		if !errors.As(err, &answer) || answer.Status != 409 || answer.Code != "isolation_unavailable" || !strings.Contains(err.Error(), "start init: no") || !strings.Contains(err.Error(), "turn the knob") {
			t.Errorf("%s = %v, want 409 isolation_unavailable with cause and remedy", what, err)
		}
	}
	w := weakWorld(t, "")
	_, err := w.client.Create(t.Context(), sprites.Create{Name: "firm", MinIsolation: "ns-user"})
	refused("create", err)
	if _, err := w.client.Get(t.Context(), "firm"); !errors.Is(err, sprites.ErrNotFound) {
		t.Errorf("what was refused is there: %v", err)
	}
	if _, err := w.client.Create(t.Context(), sprites.Create{Name: "s", MinIsolation: "vm"}); err == nil {
		t.Error("an unknown level is taken")
	}
	if _, err := w.client.Create(t.Context(), sprites.Create{Name: "s", MinIsolation: "process"}); err != nil {
		t.Errorf("create with what is there = %v", err)
	}

	// One that was made on a better day, such as before an update of the system, does not start either: not by any call.
	if _, err := w.host.core.Store.UpdateSprite("s", func(rec *records.Sprite) { rec.MinIsolation = spec.LevelUser }); err != nil {
		t.Fatal(err)
	}
	for _, least := range []spec.Level{"", spec.LevelRoot} {
		w.host.core.Config.MinIsolation = least
		_, err = w.client.Exec(t.Context(), "s", sprites.Exec{Cmd: []string{"true"}})
		refused("exec", err)
		if status := w.call("POST", "/v1/sprites/s/exec?cmd=true", "", nil); status != 409 {
			t.Errorf("exec by POST = %d", status)
		}
		if status := w.call("PUT", "/v1/sprites/s/services/web?duration=1s", `{"cmd":"true"}`, nil); status != 409 {
			t.Errorf("a service = %d", status)
		}
		for _, s := range w.host.fleet.Running() {
			if s.Present() != nil {
				t.Error("a box runs")
			}
		}
	}
	w.host.core.Config.MinIsolation = spec.LevelRoot
	if err := w.host.CheckIsolation(); err == nil || !strings.HasPrefix(err.Error(), "sprites would be kept apart by process, and min_isolation of this host asks for ns-root") {
		t.Errorf("CheckIsolation = %v", err)
	}
}

func TestLimitsAreTheLeastOfAll(t *testing.T) {
	small := &records.Resources{}
	if err := json.Unmarshal([]byte(`{"memory":{"limit_mb":64}}`), small); err != nil {
		t.Fatal(err)
	}
	h := &confine.Confiner{Core: &core.Core{Config: core.Config{Box: spec.Limits{Pids: 100, MemoryBytes: 1 << 30}}}}
	for name, c := range map[string]struct {
		rec  records.Sprite
		want spec.Limits
	}{
		"the host's":       {records.Sprite{}, spec.Limits{Pids: 100, MemoryBytes: 1 << 30}},
		"asked for less":   {records.Sprite{Config: &sprites.Config{RAMMB: 512, CPUs: 2, Pids: 10}}, spec.Limits{Pids: 10, MemoryBytes: 512 << 20, CPUs: 2}},
		"asked for more":   {records.Sprite{Config: &sprites.Config{RAMMB: 4096, Pids: 1000}}, spec.Limits{Pids: 100, MemoryBytes: 1 << 30}},
		"less by a policy": {records.Sprite{Config: &sprites.Config{RAMMB: 512}, Resources: small}, spec.Limits{Pids: 100, MemoryBytes: 64 << 20}},
	} {
		if got := h.BoxLimits(c.rec); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}

// A probe that could not be done says nothing about the machine: the next one is believed.
func TestProbesThatFailAreRepeated(t *testing.T) {
	w := newWorld(t, t.TempDir(), func(string) {})
	w.host.confiner.Confined = w.host.confiner.Probed()
	tmp := filepath.Join(w.host.core.Config.Dir, "tmp")
	if err := os.Rename(tmp, tmp+"-away"); err != nil {
		t.Fatal(err)
	}
	if c := w.host.confiner.Confined(); c.Isolation != "" || c.Plain || !c.Netns {
		t.Errorf("without a folder to try in: %+v", c)
	}
	if err := os.Rename(tmp+"-away", tmp); err != nil {
		t.Fatal(err)
	}
	if c := w.host.confiner.Confined(); c.Isolation == "" {
		t.Errorf("with one again: %+v", c)
	}
}
