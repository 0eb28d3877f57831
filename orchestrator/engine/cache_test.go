package engine_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/engine/replay"
	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// reading is a call that may be answered from what is kept.
func reading(id, tool, args string) string {
	return fmt.Sprintf(`{"id":%q,"op":"TOOL_CALL","tool":%q,"args":%s,"cache":"run","outputs":{"result":"$vars.%s"}}`, id, tool, args, id)
}

func hits(s runstate.State) (from []string) {
	for _, e := range s.Emitted {
		info := e.Info.(map[string]any)
		from = append(from, fmt.Sprint(info["kind"], " ", e.Node, "←", info["metadata"].(map[string]any)["from"]))
	}
	return from
}

// TestCache holds that a node with cache "run" asks nothing twice, and when it does ask again.
func TestCache(t *testing.T) {
	two := func(a, between, b string) string {
		return graphOf("a", a+`,`+between+`,`+b, `{"from":"a","to":"m"},{"from":"m","to":"b"}`)
	}
	const pure = `{"id":"m","op":"SET","set":{"$vars.m":1}}`
	t.Run("an equal call is made once, and an event says so", func(t *testing.T) {
		c := begin(t, two(reading("a", "m.read", `{"x":[1,{"y":2}]}`), pure, reading("b", "m.read", `{"x":[1,{"y":2}]}`)))
		c.prepare()
		c.finish(`{"n":7}`)
		c.is(lattice.Succeeded, "", `{"a":{"n":7},"b":{"n":7},"m":1}`)
		if got := hits(c.s); len(got) != 1 || got[0] != "cache_hit b←a" || c.s.Calls != 1 {
			t.Errorf("events %v, %d calls", got, c.s.Calls)
		}
	})
	for name, doc := range map[string]string{
		"other arguments":              two(reading("a", "m.read", `{"x":1}`), pure, reading("b", "m.read", `{"x":2}`)),
		"another skill":                two(reading("a", "m.read", `{}`), pure, reading("b", "m.idem", `{}`)),
		"one that is to be taken back": two(reading("a", "m.idem", `{}`), pure, strings.Replace(reading("b", "m.idem", `{}`), `"cache"`, `"compensate":{"tool":"m.idem"},"cache"`, 1)),
		"one that says no":             two(reading("a", "m.read", `{}`), pure, strings.Replace(reading("b", "m.read", `{}`), `"cache":"run",`, ``, 1)),
	} {
		t.Run(name+": called again", func(t *testing.T) {
			c := begin(t, doc)
			c.prepare()
			toCall := func() {
				for len(c.s.Pending) > 0 && c.s.Pending[0].Kind != lattice.DoCall {
					c.boundary("v1")
				}
			}
			toCall()
			c.finish(`{"n":1}`)
			toCall()
			c.finish(`{"n":2}`)
			c.is(lattice.Succeeded, "", `{"a":{"n":1},"b":{"n":2},"m":1}`)
		})
	}
	t.Run("what writes in the sprite ends it", func(t *testing.T) {
		c := begin(t, two(reading("a", "m.read", `{}`), call("m", "m.write", ""), reading("b", "m.read", `{}`)))
		c.prepare()
		c.finish(`{"n":1}`)
		c.boundary("v1")
		c.finish(`{}`)
		c.finish(`{"n":2}`)
		c.is(lattice.Succeeded, "", `{"a":{"n":1},"b":{"n":2}}`)
	})
	t.Run("what writes in a copy does not", func(t *testing.T) {
		c := begin(t, two(reading("a", "m.read", `{}`), call("m", "m.write", `,"sprite":"fork"`), reading("b", "m.read", `{}`)))
		c.prepare()
		c.finish(`{"n":1}`)
		c.boundary("v1")
		c.forked("v1")
		c.boundary("w1")
		c.finish(`{}`)
		c.is(lattice.Succeeded, "", `{"a":{"n":1},"b":{"n":1}}`)
	})
	t.Run("nor does it stand for a call in the sprite", func(t *testing.T) {
		c := begin(t, two(strings.Replace(reading("a", "m.idem", `{}`), `"op"`, `"sprite":"fork","op"`, 1), pure, reading("b", "m.idem", `{}`)))
		c.prepare()
		c.boundary("v1")
		name := c.forked("v1")
		c.boundary("w1")
		c.finish(`{"n":1}`)
		if cmd := c.command(lattice.DoCall); cmd.Sprite == name {
			t.Errorf("b is called in %s", cmd.Sprite)
		}
		c.finish(`{"n":2}`)
		c.is(lattice.Succeeded, "", `{"a":{"n":1},"b":{"n":2},"m":1}`)
	})
	t.Run("a copy stands for the one that is not made", func(t *testing.T) {
		again := strings.Replace(reading("b", "m.read", `{}`), `"outputs":{`, `"sprite":"fork","keep_sprite":true,"outputs":{"sprite":"$vars.s",`, 1)
		c := begin(t, two(strings.Replace(reading("a", "m.read", `{}`), `"op"`, `"sprite":"fork","op"`, 1), pure, again))
		c.prepare()
		c.boundary("v1")
		name := c.forked("v1")
		c.finish(`{"n":1}`)
		c.is(lattice.Succeeded, "", `{"a":{"n":1},"b":{"n":1},"m":1,"s":"`+name+`"}`)
		if len(c.s.Kept) != 1 || c.s.Kept[0] != name {
			t.Errorf("kept %v, want %s", c.s.Kept, name)
		}
	})
	t.Run("two keys of the flow's own are two calls", func(t *testing.T) {
		key := func(node, key string) string {
			return strings.Replace(node, `"op"`, `"idempotency_key":"`+key+`","op"`, 1)
		}
		c := begin(t, two(key(reading("a", "m.read", `{}`), "x"), pure, key(reading("b", "m.read", `{}`), "y")))
		c.prepare()
		c.finish(`{"n":1}`)
		c.finish(`{"n":2}`)
		c.is(lattice.Succeeded, "", `{"a":{"n":1},"b":{"n":2},"m":1}`)
	})
	t.Run("people who are asked may write in the sprite", func(t *testing.T) {
		c := begin(t, two(reading("a", "m.read", `{}`), `{"id":"m","op":"HUMAN","prompt":"?"}`, reading("b", "m.read", `{}`)))
		c.prepare()
		c.finish(`{"n":1}`)
		c.boundary("v1")
		c.answer(lattice.Approve, `{}`)
		c.finish(`{"n":2}`)
		c.is(lattice.Succeeded, "", `{"a":{"n":1},"b":{"n":2}}`)
	})
	t.Run("failures are not kept", func(t *testing.T) {
		c := begin(t, graphOf("a", strings.Replace(reading("a", "m.read", `{}`), `"op"`, `"catch":[{"on":["ALL"],"to":"b"}],"op"`, 1)+`,`+reading("b", "m.read", `{}`), ``))
		c.prepare()
		c.fail("tool_error")
		c.finish(`{"n":2}`)
		c.is(lattice.Succeeded, "", `{"b":{"n":2}}`)
	})
	t.Run("items that ask the same at once ask once", func(t *testing.T) {
		doc := mapped(`[1,2,1,1]`, `,"concurrency":4`, calls("m.read", `,"cache":"run"`))
		c := begin(t, doc)
		c.prepare()
		if len(c.s.Pending) != 2 || len(c.s.Held) != 2 {
			t.Fatalf("pending %+v, held %v; want two calls, and two that wait for the first", c.s.Pending, c.s.Held)
		}
		c.finishOn("each[0]", `"one"`)
		c.finishOn("each[1]", `"two"`)
		c.is(lattice.Succeeded, "", `{"r":["one","two","one","one"]}`)
		if c.s.Calls != 2 {
			t.Errorf("%d calls are counted", c.s.Calls)
		}
	})
	t.Run("and one of them asks when the first fails", func(t *testing.T) {
		c := begin(t, mapped(`[1,1]`, `,"concurrency":2,"on_error":"collect"`, calls("m.read", `,"cache":"run"`)))
		c.prepare()
		c.fail("tool_error")
		c.finishOn("each[1]", `"two"`)
		c.is(lattice.Succeeded, "", `{"r":[null,"two"]}`)
	})
	t.Run("a model is asked once", func(t *testing.T) {
		first := strings.Replace(choosing(`,"cache":"run"`, ""), `{"id":"sorry","op":"PACK","inputs":{"kind":{"ref":"$err.kind","default":null}},"outputs":{"kind":"$vars.kind"}}`,
			`{"id":"sorry","op":"LLM_CHOOSE","model_class":"SMALL_EXEC","prompt_template":"choose_v1","inputs":{"question":"who?","candidates":{"ref":"$in.found","pick":["id","name"]}},
			"output_schema":"ChoiceById","resolve":true,"outputs":{"item":"$vars.again","cached":"$vars.cached","attempts":"$vars.asked","class":"$vars.by"},"cache":"run",`+policies+`}`, 1)
		c := asking(t, first, found)
		c.feed(c.command(lattice.DoModel).Model.Answered(c.command(lattice.DoModel).ID, lattice.ModelReply{Text: `{"id":"C2"}`}))
		c.is(lattice.Succeeded, "", "")
		if got := encoded(t, []any{c.s.Vars["again"], c.s.Vars["cached"], c.s.Vars["asked"], c.s.Vars["by"]}); got != `[{"email":"b@x","id":"C2","name":"B"},true,0,"SMALL_EXEC"]` {
			t.Errorf("the second node has %s", got)
		}
		if c.s.Models.Calls != 1 || len(hits(c.s)) != 1 {
			t.Errorf("%d questions, events %v", c.s.Models.Calls, hits(c.s))
		}
	})
	t.Run("a model's answer that other rules refuse is not taken", func(t *testing.T) {
		classify := func(id, more string) string {
			return `{"id":"` + id + `","op":"LLM_CLASSIFY","model_class":"SMALL_EXEC","prompt_template":"classify_v1","output_schema":"Label","labels":["a","b"],
			"inputs":{"text":"x","question":"?"},"outputs":{"result":"$vars.` + id + `"},"cache":"run",` + policies + more + `}`
		}
		c := asking(t, graphOf("p", classify("p", `,"allow_unknown":true`)+","+classify("q", ""), `{"from":"p","to":"q"}`), `{}`)
		c.says(`{"label":"unknown"}`)
		c.says(`{"label":"a"}`)
		c.is(lattice.Succeeded, "", `{"p":{"label":"unknown"},"q":{"label":"a"}}`)
	})
	t.Run("what is kept is bounded", func(t *testing.T) {
		c := begin(t, mapped(`[1,2,3]`, ``, calls("m.read", `,"cache":"run"`)))
		c.prepare()
		for range 3 {
			c.finish(`"` + strings.Repeat("x", 100<<10) + `"`)
		}
		if len(c.s.Cache) != 2 {
			t.Errorf("%d answers are kept, want the two newest", len(c.s.Cache))
		}
	})
	t.Run("a state with what is kept is read as it was written", func(t *testing.T) {
		c := begin(t, two(reading("a", "m.read", `{}`), call("m", "m.read", `,"args":{"other":1}`), reading("b", "m.read", `{}`)))
		c.prepare()
		c.finish(`{"n":1.50}`)
		raw, err := c.s.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if c.s, err = runstate.Decode(json.RawMessage(raw)); err != nil {
			t.Fatal(err)
		}
		c.finish(`{}`)
		c.is(lattice.Succeeded, "", `{"a":{"n":1.50},"b":{"n":1.50}}`)
	})
}

// TestCacheOutlivesCrashes holds that a run with answers that are kept comes to the same end, with each read made once, and
// that its journal is told again to the same state.
func TestCacheOutlivesCrashes(t *testing.T) {
	p := parse(t, []byte(graphOf("each", `{"id":"each","op":"MAP","items":[1,2,1,2],"max_items":4,"concurrency":2,"outputs":{"result":"$vars.r"},"body":`+calls("m.read", `,"cache":"run"`)+`}`, ``)))
	calm := newWorld(-1)
	want, err := play(p, calm)
	if err != nil {
		t.Fatal(err)
	}
	for fuse := range calm.ticks {
		w := newWorld(fuse)
		got, err := play(p, w)
		if err != nil {
			t.Fatalf("killed at %d: %v", fuse, err)
		}
		if a, b := encoded(t, got.Vars), encoded(t, want.Vars); a != b {
			t.Errorf("killed at %d: %s, want %s", fuse, a, b)
		}
		told, err := replay.Verify(p, "run_1", []byte("secret"), replay.History{Facts: w.log, Snapshot: w.snapshot, SnapshotSeq: w.snapshotSeq})
		if err != nil || told.Diverged != nil {
			t.Errorf("killed at %d: replay %+v, %v", fuse, told.Diverged, err)
		}
	}
}
