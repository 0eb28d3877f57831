package ir_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/ir/check"
)

// fork is a PACK whose edges lead to "b", which reads $in.x, when cond holds, and to "c", which reads nothing.
func fork(cond string) string {
	return doc(`{"id":"a","op":"PACK","inputs":{"x":1},"outputs":{"result":"$vars.got"}},{"id":"b","op":"PACK","inputs":{"x":"$in.x"}},`+packC,
		`{"from":"a","to":"b","when":`+cond+`},{"from":"a","to":"c","when":{"op":"otherwise"}}`)
}

// choose is a SWITCH over cond; its case reads $in.x and its default $in.y.
func choose(cond string) string {
	return doc(`{"id":"a","op":"SWITCH","cases":[{"name":"yes","when":`+cond+`}],"default":"no"},{"id":"b","op":"PACK","inputs":{"x":"$in.x"}},{"id":"c","op":"PACK","inputs":{"x":"$in.y"}}`,
		`{"from":"a","to":"b","when":{"op":"case","is":"yes"}},{"from":"a","to":"c","when":{"op":"otherwise"}}`)
}

func pack(expression string) string {
	return doc(`{"id":"a","op":"PACK","inputs":{"p":`+expression+`}}`, ``)
}

func body(expression string) string {
	return `{"entry_node":"b","nodes":[{"id":"b","op":"PACK","inputs":{"p":` + expression + `}}]}`
}

func TestMissingInputs(t *testing.T) {
	const (
		hasX   = `{"op":"exists","ref":"$in.x"}`
		hasVar = `{"op":"exists","ref":"$vars.got"}`
		isOne  = `{"op":"eq","left":"$in.x","right":1}`
	)
	not := func(cond string) string { return `{"op":"not","args":[` + cond + `]}` }
	both := func(op string, conds ...string) string {
		return `{"op":"` + op + `","args":[` + strings.Join(conds, ",") + `]}`
	}
	for _, c := range []struct {
		name, doc, in, want string
	}{
		{"given", args(`{"path":"$in.x"}`), `{"x":"a"}`, ``},
		{"null is a value", args(`{"path":"$in.x"}`), `{"x":null}`, ``},
		{"all are named, sorted", args(`{"path":{"concat":["$in.z","$trigger.b[0]","$in.a.deep"]},"tags":["$in['odd key']"]}`), `{}`, `a b odd key z`},
		{"text and literals are no reads", pack(`["$$in.x",{"lit":"$in.x"},"in.x"]`), `{}`, ``},
		{"all of $in needs no member", pack(`"$in"`), `{}`, ``},
		{"default", args(`{"path":{"ref":"$in.x","default":"."}}`), `{}`, ``},
		{"default that reads", args(`{"path":{"ref":"$in.x","default":"$in.y"}}`), `{}`, `y`},
		{"default that is not needed", args(`{"path":{"ref":"$in.x","default":"$in.y"}}`), `{"x":1}`, ``},
		{"default of what only the run knows", args(`{"path":{"ref":"$ctx.x","default":"$in.y"}}`), `{"x":1}`, `y`},
		{"idempotency key", node(`"idempotency_key":"$in.x"`), `{}`, `x`},
		{"prompt and answer", human(`"prompt":"$in.p","on_timeout":"default","timeout_s":1,"default_answer":"$in.d"`), `{}`, `d p`},
		{"output", doc(look, ``, `"output":{"o":"$in.x"}`), `{}`, `x`},
		{"condition", fork(isOne), `{}`, `x`},
		{"caught", doc(`{"id":"a","op":"PACK","inputs":{"x":"$in.x"},"catch":[{"on":["ALL"],"to":"c"}]},`+packC, ``), `{}`, ``},
		{"caught for another reason", doc(`{"id":"a","op":"PACK","inputs":{"x":"$in.x"},"catch":[{"on":["limit_exceeded"],"to":"c"}]},`+packC, ``), `{}`, `x`},

		{"some path", fork(`{"op":"eq","left":"$vars.got.x","right":1}`), `{}`, `x`},
		{"guarded by an edge", fork(hasX), `{}`, ``},
		{"guarded by the edge before", fork(not(not(hasX))), `{}`, ``},
		{"guarded in the same condition", fork(both("and", hasX, isOne)), `{}`, ``},
		{"guard beside what only the run knows", fork(both("and", hasVar, hasX, isOne)), `{}`, ``},
		{"no guard", fork(both("or", hasVar, hasX)), `{}`, `x`},
		{"alternative that is not evaluated", fork(both("or", not(hasX), isOne)), `{}`, `x`},
		{"other value", fork(`{"op":"eq","left":{"ref":"$in.kind","default":"c"},"right":"b"}`), `{}`, ``},
		{"value that needs it", fork(`{"op":"eq","left":{"ref":"$in.kind","default":"c"},"right":"b"}`), `{"kind":"b"}`, `x`},
		{"elements", fork(`{"op":"any","items":"$in.list","where":{"op":"eq","left":"$item","right":1}}`), `{"list":[2]}`, ``},
		{"elements of what only the run knows", fork(`{"op":"any","items":["$vars.got.x"],"where":{"op":"and","args":[{"op":"exists","ref":"$item.n"},{"op":"eq","left":"$in.y","right":1}]}}`), `{"x":1}`, `y`},
		{"what has no answer", fork(`{"op":"lt","left":"$in.n","right":"text"}`), `{"n":1}`, `x`},

		{"case that is not chosen", choose(hasX), `{}`, `y`},
		{"case that is chosen", choose(hasX), `{"x":1}`, ``},
		{"merged", merge(`"strategy":"concat","from":["$in.x",{"ref":"$in.y","default":[]}]`), `{}`, `x`},
		{"items", over(``, body(`1`)), `{}`, `l`},
		{"body", over(`"result":"$in.r"`, body(`"$in.x"`)), `{"l":[1]}`, `r x`},
		{"body of no items", over(`"result":"$in.r"`, body(`"$in.x"`)), `{"l":[]}`, ``},
		{"body that may fail", over(`"on_error":"collect"`, body(`"$in.x"`)), `{"l":[1]}`, ``},
		{"guard by what only an iteration knows", over(``, `{"entry_node":"b","nodes":[{"id":"b","op":"PACK","inputs":{"x":1}},{"id":"c","op":"PACK","inputs":{"x":"$in.x"}}],"edges":[{"from":"b","to":"c","when":{"op":"eq","left":"$item","right":1}},{"from":"b","to":"c","when":{"op":"otherwise"}}]}`), `{"l":[2]}`, `x`},

		{"case that may be chosen", choose(`{"op":"eq","left":"$ctx.run_id","right":"r"}`), `{}`, `x y`},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, findings := check.Parse([]byte(c.doc), tools)
			if p == nil {
				t.Fatalf("%+v\n%s", findings, c.doc)
			}
			in := decode(t, c.in).(map[string]any)
			if got := strings.Join(p.MissingInputs(in), " "); got != c.want {
				t.Errorf("MissingInputs(%s) = %q, want %q", c.in, got, c.want)
			}
		})
	}
}

// A loop that is bounded may end, so what stands behind its last round counts too.
func TestMissingInputsBehindALoop(t *testing.T) {
	p, findings := check.Parse([]byte(doc(`{"id":"a","op":"PACK","inputs":{"x":1}},{"id":"b","op":"PACK","inputs":{"x":"$in.x"}}`,
		`{"from":"a","to":"a","when":{"op":"exists","ref":"$in.again"},"max_traversals":3},`+aToB)), tools)
	if p == nil {
		t.Fatal(findings)
	}
	if diff := cmp.Diff([]string{"x"}, p.MissingInputs(map[string]any{"again": true})); diff != "" {
		t.Errorf("MissingInputs (-want +got):\n%s", diff)
	}
}

func TestMissingInputsOfReadyMadeFlows(t *testing.T) {
	for name, want := range map[string][]string{"fix-and-propose": nil, "test-only": nil, "test-each": {"commands"}, "human-approve": nil} {
		data, _ := manifests.Flow(name)
		p, findings := check.Parse(data, manifests.Lookup)
		if p == nil {
			t.Fatalf("%s: %+v", name, findings)
		}
		if diff := cmp.Diff(want, p.MissingInputs(nil)); diff != "" {
			t.Errorf("%s: MissingInputs (-want +got):\n%s", name, diff)
		}
	}
}
