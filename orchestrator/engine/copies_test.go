package engine_test

import (
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// forked answers the newest command, which makes a copy, and returns its name.
func (c *script) forked(from string) string {
	c.t.Helper()
	cmd := c.command(lattice.DoFork)
	if cmd.Pair.CheckpointID != from || !strings.HasPrefix(cmd.Sprite, "main-1-") {
		c.t.Fatalf("%s is a copy of %+v, want one of %s", cmd.Sprite, cmd.Pair, from)
	}
	c.feed(lattice.Prepared{CommandID: cmd.ID})
	return cmd.Sprite
}

// TestCallInACopy holds the rules of a single call that has a sprite of its own.
func TestCallInACopy(t *testing.T) {
	t.Run("it runs in a copy, and the sprite stays as it is", func(t *testing.T) {
		c := begin(t, one("m.write", `,"sprite":"fork","outputs":{"n":"$vars.n","sprite":"$vars.s"}`))
		c.prepare()
		c.boundary("v1")
		name := c.forked("v1")
		c.boundary("w1") // of the copy, to which a call that is cut off goes back
		if cmd := c.command(lattice.DoCall); cmd.Sprite != name || cmd.Call.Sprite != name {
			t.Errorf("the call runs in %s", cmd.Sprite)
		}
		c.finish(`{"n":1}`)
		c.is(lattice.Succeeded, "", `{"n":1,"s":"`+name+`"}`)
		if _, ok := c.s.Pairs[name]; ok || c.s.Dirty["main-1"] || len(c.s.Kept) > 0 {
			t.Errorf("state remembers %v %v %v", c.s.Pairs, c.s.Dirty, c.s.Kept)
		}
	})
	t.Run("a copy that is to stay is kept", func(t *testing.T) {
		c := begin(t, one("m.read", `,"sprite":"fork","keep_sprite":true`))
		c.prepare()
		c.boundary("v1")
		name := c.forked("v1")
		c.finish(`{}`)
		if len(c.s.Kept) != 1 || c.s.Kept[0] != name {
			t.Errorf("kept %v, want %s", c.s.Kept, name)
		}
	})
	t.Run("every attempt has a new one", func(t *testing.T) {
		c := begin(t, one("m.write", `,"sprite":"fork","retry":[{"on":["tool_error"],"max_attempts":2}]`))
		c.prepare()
		c.boundary("v1")
		first := c.forked("v1")
		c.boundary("w1")
		c.fail(expr.FailTool)
		c.feed(lattice.TimerFired{CommandID: c.command(lattice.DoTimer).ID})
		second := c.forked("v1")
		if first == second {
			t.Errorf("both attempts in %s", first)
		}
		c.boundary("w2")
		c.finish(`{}`)
		c.is(lattice.Succeeded, "", `{}`)
	})
	t.Run("cut off it goes on in its copy, as that was before", func(t *testing.T) {
		c := begin(t, one("m.write", `,"sprite":"fork"`))
		c.prepare()
		c.boundary("v1")
		name := c.forked("v1")
		c.boundary("w1")
		c.lose()
		if cmd := c.command(lattice.DoRestore); cmd.Sprite != name {
			t.Errorf("%s is restored", cmd.Sprite)
		}
		c.restored("w1")
		c.finish(`{}`)
		c.is(lattice.Succeeded, "", `{}`)
	})
	t.Run("calls that run at once are copies of one checkpoint, taken before them", func(t *testing.T) {
		c := begin(t, mapped(`[1,2]`, `,"concurrency":2`, calls("m.write", `,"sprite":"fork"`)))
		c.prepare()
		c.boundary("v1")
		forks := 0
		for _, cmd := range c.s.Pending {
			if cmd.Kind == lattice.DoFork && cmd.Pair.CheckpointID == "v1" {
				forks++
			}
		}
		if forks != 2 {
			t.Errorf("%d copies are made: %+v", forks, c.s.Pending)
		}
	})
}

// TestCopiesOutliveCrashes holds that calls in copies come to the same end wherever the driver dies.
func TestCopiesOutliveCrashes(t *testing.T) {
	p := parse(t, []byte(graphOf("a", `{"id":"a","op":"TOOL_CALL","tool":"m.write","outputs":{"n":"$vars.a"}},
		{"id":"b","op":"TOOL_CALL","tool":"m.write","sprite":"fork","outputs":{"n":"$vars.b"}},
		{"id":"c","op":"TOOL_CALL","tool":"m.write","outputs":{"n":"$vars.c"}}`, `{"from":"a","to":"b"},{"from":"b","to":"c"}`)))
	calm := newWorld(-1)
	want, err := play(p, calm)
	if err != nil {
		t.Fatal(err)
	}
	if len(calm.sprite.files) != 2 || len(calm.copies) != 1 {
		t.Fatalf("files %v, copies %v: the copy's are no files of the sprite", calm.sprite.files, calm.copies)
	}
	for fuse := range calm.ticks {
		w := newWorld(fuse)
		got, err := play(p, w)
		if err != nil {
			t.Fatalf("killed at %d: %v", fuse, err)
		}
		if a, b := encoded(t, got.Vars), encoded(t, want.Vars); a != b || len(w.sprite.files) != 2 {
			t.Errorf("killed at %d: %s with files %v, want %s", fuse, a, w.sprite.files, b)
		}
	}
}

func encoded(t *testing.T, v any) string {
	t.Helper()
	raw, err := expr.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}
