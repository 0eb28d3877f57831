package engine_test

import (
	"testing"

	"github.com/spritekit/lattice/orchestrator/engine"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// verifies takes a run to the command that signs the report of its verification.
func verifies(t *testing.T, more, report string) (*script, lattice.Command) {
	t.Helper()
	c := begin(t, one(lattice.VerifySkill, `,"sprite":"fork"`+more))
	c.prepare()
	c.boundary("v1")
	c.forked("v1")
	c.boundary("w1")
	c.finish(report)
	return c, c.command(lattice.DoAttest)
}

func TestVerification(t *testing.T) {
	const out, report = `,"outputs":{"result":"$vars.r"}`, `{"status":"passed"}`
	t.Run("a green statement ends the node", func(t *testing.T) {
		c, sign := verifies(t, out, report)
		if v := sign.Verification; v.RunID != "run_1" || v.Of.Node != "n" || string(v.Report) != report || string(v.Input) != `{"a":1}` || v.Sprite == "" {
			t.Errorf("signs %+v", v)
		}
		c.feed(lattice.Attested{CommandID: sign.ID, Green: true, Statement: "s"})
		c.is(lattice.Succeeded, "", `{"r":{"statement":"s","status":"passed"}}`)
	})
	t.Run("a red one fails it, whatever the report says", func(t *testing.T) {
		c, sign := verifies(t, out, report)
		c.feed(lattice.Attested{CommandID: sign.ID, Commit: "c", Reason: "why", Statement: "s"})
		c.is(lattice.Failed, expr.FailVerify, `{}`)
		if got := string(c.s.Failure.Data); got != `{"statement":"s","status":"passed"}` {
			t.Errorf("failure = %s", got)
		}
	})
	t.Run("a retry verifies again in another fork", func(t *testing.T) {
		c, sign := verifies(t, `,"retry":[{"on":["verify_red"],"max_attempts":2}]`, report)
		c.feed(lattice.Attested{CommandID: sign.ID})
		c.feed(lattice.TimerFired{CommandID: c.command(lattice.DoTimer).ID})
		if again := c.command(lattice.DoFork); again.Sprite == sign.Verification.Sprite {
			t.Errorf("both attempts in %s", again.Sprite)
		}
	})
	t.Run("a report that is empty or not an object is signed as well", func(t *testing.T) {
		for _, report := range []string{``, `[]`} {
			c, sign := verifies(t, "", report)
			c.feed(lattice.Attested{CommandID: sign.ID})
			c.is(lattice.Failed, expr.FailVerify, `{}`)
		}
	})
	t.Run("a fork that the flow keeps is not removed", func(t *testing.T) {
		if _, sign := verifies(t, `,"keep_sprite":true`, report); sign.Verification.Sprite != "" {
			t.Errorf("removes %s", sign.Verification.Sprite)
		}
	})
	t.Run("a second statement is a duplicate", func(t *testing.T) {
		c, sign := verifies(t, "", report)
		f := lattice.Attested{CommandID: sign.ID, Green: true}
		c.feed(f)
		if _, _, err := engine.Step(c.p, c.s, f); err == nil {
			t.Error("accepted")
		}
	})
	t.Run("without a fork there is no statement", func(t *testing.T) {
		c := begin(t, one(lattice.VerifySkill, out))
		c.prepare()
		c.boundary("v1")
		c.finish(report)
		c.is(lattice.Succeeded, "", `{"r":{"status":"passed"}}`)
	})
}
