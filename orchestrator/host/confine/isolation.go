package confine

import (
	"fmt"
	"net/http"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"

	"github.com/spritekit/lattice/orchestrator/host/records"
	"github.com/spritekit/lattice/orchestrator/host/wire"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// This file reports how firmly sprites are isolated, and refuses sprites for which that is not enough. Nothing here lowers a
// level by itself: the level was found out once, at the first use (Confiner.probe), and a sandbox that
// later does not start at that level does not start.

// RequireIsolation refuses to make or start a sprite that this machine cannot keep apart as firmly as the host's operator
// or the sprite's maker asks.
func (cf *Confiner) RequireIsolation(name string, least spec.Level) error {
	who := "min_isolation of the sprite"
	if !least.AtLeast(cf.Config.MinIsolation) {
		least, who = cf.Config.MinIsolation, "min_isolation of this host"
	}
	if least == "" {
		return nil
	}
	c := cf.Confined()
	if c.Isolation.AtLeast(least) {
		return nil
	}
	have, cause, remedy := string(c.Isolation), c.Text, "run `lattice doctor`, or use a remote sprite (SPRITES_API_URL)"
	switch {
	case have == "":
		have = "nothing"
	case c.Downgrade != nil:
		cause, remedy = c.Downgrade.Reason, c.Downgrade.Remedy
	case least == spec.LevelRoot:
		cause, remedy = "this host is run by an ordinary user", "run it as root, or ask for ns-user"
	}
	what := "sprite " + name
	if name == "" {
		what = "sprites"
	}
	return wire.Refuse(http.StatusConflict, "isolation_unavailable",
		fmt.Sprintf("%s would be kept apart by %s, and %s asks for %s: %s; to change that: %s", what, have, who, least, cause, remedy))
}

// Downgrade says in sprite objects why sprites are plain process trees, nil when they are not.
func (cf *Confiner) Downgrade() *sprites.Downgrade { return cf.Confined().Downgrade }

// BoxLimits returns the limits of a sprite: those of the host, or lower ones from its creation or its policy.
func (cf *Confiner) BoxLimits(rec records.Sprite) spec.Limits {
	l := cf.Config.Box
	if c := rec.Config; c != nil {
		l.Pids = smallerLimit(l.Pids, c.Pids)
		l.CPUs = smallerLimit(l.CPUs, float64(c.CPUs))
		l.MemoryBytes = smallerLimit(l.MemoryBytes, int64(c.RAMMB)<<20)
	}
	l.MemoryBytes = smallerLimit(l.MemoryBytes, rec.Resources.MemoryLimit())
	return l
}

// smallerLimit returns the smaller of two limits; 0 is none.
func smallerLimit[T int | int64 | float64](a, b T) T {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}
