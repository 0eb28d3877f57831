package engine_test

import (
	"testing"

	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// TestOnLoss: a call with on_loss "fail" is never repeated silently when its process or sprite dies. The end of a leader is another
// matter: a person or the next leader has the run go on.
func TestOnLoss(t *testing.T) {
	lost := func(c *script, watched bool) {
		c.feed(lattice.CallLost{CommandID: c.command(lattice.DoCall).ID, Detail: "signal 9", Watched: watched})
	}
	started := func(more string) *script {
		c := begin(t, one("m.write", more))
		c.prepare()
		c.boundary("v1")
		return c
	}
	t.Run("it died", func(t *testing.T) {
		c := started(`,"on_loss":"fail"`)
		lost(c, true)
		c.restored("v1") // half of its work is gone
		c.is(lattice.Failed, expr.FailToolUnavailable, `{}`)
	})
	t.Run("the leader ended", func(t *testing.T) {
		c := started(`,"on_loss":"fail"`)
		lost(c, false)
		c.restored("v1")
		c.finish(`{}`)
		c.is(lattice.Succeeded, "", `{}`)
	})
	t.Run("it died, and is repeated", func(t *testing.T) {
		c := started(`,"on_loss":"repeat"`)
		lost(c, true)
		c.restored("v1")
		c.finish(`{}`)
		c.is(lattice.Succeeded, "", `{}`)
	})
	t.Run("it died in a copy", func(t *testing.T) {
		c := begin(t, one("m.write", `,"on_loss":"fail","sprite":"fork"`))
		c.prepare()
		c.boundary("v1")
		c.forked("v1")
		c.boundary("w1")
		lost(c, true)
		c.is(lattice.Failed, expr.FailToolUnavailable, `{}`)
	})
}
