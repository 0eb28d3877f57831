package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/engine/driver"
	"github.com/spritekit/lattice/orchestrator/engine/replay"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// limited is a node with a timeout of 9 s, followed by c, which catches that.
func limited(node string) string {
	node = strings.Replace(node, `"op"`, `"timeout_s":9,"catch":[{"on":["timeout"],"to":"c"}],"op"`, 1)
	return graphOf("a", node+`,{"id":"c","op":"SET","set":{"$vars.e":"$err.kind","$vars.at":"$err.node"}}`, ``)
}

// expire has the one timer of 9 s go off.
func (c *script) expire() {
	c.t.Helper()
	for _, cmd := range c.s.Pending {
		if cmd.Kind == lattice.DoTimer && cmd.DelayS == 9 {
			c.feed(lattice.TimerFired{CommandID: cmd.ID})
			return
		}
	}
	c.t.Fatalf("no timer of 9 s is pending: %+v", c.s.Pending)
}

// TestTimeoutOfWhatRunsOthers holds that a node with others inside ends in its time, whatever these do.
func TestTimeoutOfWhatRunsOthers(t *testing.T) {
	const timedOut = `{"at":"a","e":"timeout"}`
	inner := func(tool string) string {
		return `{"entry_node":"b","nodes":[{"id":"b","op":"TOOL_CALL","tool":"` + tool + `"}]}`
	}
	nodes := map[string]string{
		"MAP":      `{"id":"a","op":"MAP","items":[1,2,3],"max_items":3,"concurrency":2,"body":` + inner("m.read") + `}`,
		"PARALLEL": `{"id":"a","op":"PARALLEL","branches":[` + branch("x", "b", call("b", "m.read", "")) + `,` + branch("y", "d", call("d", "m.read", "")) + `]}`,
		"LOOP":     `{"id":"a","op":"LOOP","until":{"op":"never"},"max_iterations":3,"body":` + inner("m.read") + `}`,
		"SUBGRAPH": `{"id":"a","op":"SUBGRAPH","ref":"PIN"}`,
	}
	for op, node := range nodes {
		doc := limited(node)
		if op == "SUBGRAPH" {
			doc = subgraphed(t, doc, graphOf("b", call("b", "m.read", ""), ``))
		}
		t.Run(op+" is cut off", func(t *testing.T) {
			c := begin(t, doc)
			c.prepare()
			c.expire()
			c.is(lattice.Succeeded, "", timedOut)
			if len(c.s.Pending)+len(c.s.Overdue) > 0 {
				t.Errorf("left: %+v, %v", c.s.Pending, c.s.Overdue)
			}
		})
		t.Run(op+" in time takes its timer along", func(t *testing.T) {
			c := begin(t, strings.Replace(doc, `"op":"never"`, `"op":"always"`, 1))
			c.prepare()
			for len(c.s.Pending) > 0 {
				c.finish(`{}`)
			}
			c.is(lattice.Succeeded, "", `{}`)
		})
	}
	t.Run("each attempt has its own time", func(t *testing.T) {
		c := begin(t, graphOf("a", `{"id":"a","op":"MAP","items":[1],"max_items":1,"timeout_s":9,"retry":[{"on":["timeout"],"max_attempts":2,"interval_s":1}],"body":`+inner("m.read")+`}`, ``))
		c.prepare()
		c.expire()
		c.feed(lattice.TimerFired{CommandID: c.command(lattice.DoTimer).ID}) // of the retry
		if got := c.command(lattice.DoCall).Path; got != "a~2[0]" {
			t.Errorf("the second attempt calls on %q", got)
		}
		c.expire()
		c.is(lattice.Failed, expr.FailTimeout, `{}`)
	})
	t.Run("a checkpoint that comes too late is no one's", func(t *testing.T) {
		c := begin(t, graphOf("a", `{"id":"a","op":"MAP","items":[1],"max_items":1,"timeout_s":9,"sprite":"fork","catch":[{"on":["timeout"],"to":"c"}],"body":`+inner("m.write")+`},`+call("c", "m.read", ""), ``))
		c.prepare()
		c.expire()
		if c.command(lattice.DoCall); len(c.s.Pending) != 1 {
			t.Errorf("pending %+v, want the call alone", c.s.Pending)
		}
		c.finish(`{}`)
		c.is(lattice.Succeeded, "", `{}`)
	})
	t.Run("people are waited for no longer", func(t *testing.T) {
		c := begin(t, limited(`{"id":"a","op":"PARALLEL","branches":[`+branch("x", "h", `{"id":"h","op":"HUMAN","prompt":"?","timeout_s":70}`)+`]}`))
		c.expire()
		c.is(lattice.Succeeded, "", timedOut)
		if len(c.s.Waits) > 0 {
			t.Errorf("waits %+v", c.s.Waits)
		}
	})
	t.Run("what may have changed the world is waited for", func(t *testing.T) {
		c := begin(t, limited(`{"id":"a","op":"LOOP","until":{"op":"never"},"max_iterations":3,"body":`+inner("m.world")+`}`))
		c.prepare()
		c.boundary("v1")
		c.expire()
		if c.command(lattice.DoCall); c.s.Status != lattice.Running {
			t.Fatalf("the run is %s", c.s.Status)
		}
		c.finish(`{}`)
		c.is(lattice.Succeeded, "", timedOut)
	})
	t.Run("and settled by a person when it was lost", func(t *testing.T) {
		c := begin(t, limited(`{"id":"a","op":"LOOP","until":{"op":"never"},"max_iterations":3,"body":`+inner("m.world")+`}`))
		c.prepare()
		c.boundary("v1")
		c.expire()
		c.lose()
		c.is(lattice.Waiting, "", `{}`)
		c.answer(lattice.Answer, `{"outcome":"done","result":{}}`)
		c.is(lattice.Succeeded, "", timedOut)
	})
	t.Run("the outer one ends the inner one", func(t *testing.T) {
		in := `{"id":"in","op":"MAP","items":[1,2],"max_items":2,"timeout_s":70,"body":` + inner("m.read") + `}`
		c := begin(t, limited(`{"id":"a","op":"MAP","items":[1,2],"max_items":2,"body":{"entry_node":"in","nodes":[`+in+`]}}`))
		c.prepare()
		c.expire()
		c.is(lattice.Succeeded, "", timedOut)
	})
	t.Run("the inner one's timeout is caught inside", func(t *testing.T) {
		in := `{"id":"in","op":"LOOP","until":{"op":"never"},"max_iterations":2,"timeout_s":9,"catch":[{"on":["ALL"],"to":"k"}],"body":` + inner("m.read") + `},{"id":"k","op":"PACK","inputs":{"k":"$err.kind"}}`
		c := begin(t, graphOf("a", `{"id":"a","op":"MAP","items":[1],"max_items":2,"outputs":{"result":"$vars.r"},"body":{"entry_node":"in","nodes":[`+in+`]}}`, ``))
		c.prepare()
		c.expire()
		c.is(lattice.Succeeded, "", `{"r":[{"k":"timeout"}]}`)
	})
}

// TestTimeoutCountsFromItsStart holds that a leader's end gives a node no more time.
func TestTimeoutCountsFromItsStart(t *testing.T) {
	c := &clocks{wall: time.Unix(1_800_000_000, 0)}
	w := newWorld(-1)
	p := parse(t, []byte(graphOf("a", `{"id":"a","op":"LOOP","until":{"op":"never"},"max_iterations":3,"timeout_s":3600,"body":{"entry_node":"h","nodes":[{"id":"h","op":"HUMAN","prompt":"?"}]}}`, ``)))
	r := loaded(t, p, w, c.in(w.deps()))
	if err := r.Begin(context.Background(), lattice.RunStarted{RunID: "run_1", Program: p.Digest}); err != nil {
		t.Fatal(err)
	}
	left := func(r *driver.Runner) time.Duration {
		stop, err := r.Run(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return stop.Left
	}
	if got := left(r); got != time.Hour {
		t.Errorf("%s left at first", got)
	}
	c.restart(40 * time.Minute)
	r = loaded(t, p, w, c.in(w.deps()))
	if got := left(r); got != 20*time.Minute {
		t.Errorf("%s left for the next leader, want 20m", got)
	}
	c.restart(30 * time.Minute)
	r = loaded(t, p, w, c.in(w.deps()))
	left(r)
	if s := r.State(); s.Status != lattice.Failed || s.Failure.Kind != expr.FailTimeout {
		t.Errorf("the run is %s: %v", s.Status, s.Failure)
	}
	if _, err := replay.Fold(p, "run_1", w.log); err != nil {
		t.Error(err)
	}
	if fmt.Sprint(r.State().Waits) != "[]" {
		t.Errorf("it still asks: %v", r.State().Waits)
	}
}
