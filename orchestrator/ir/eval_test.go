package ir_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/spritekit/lattice/orchestrator/ir/expr"
)

func decode(t testing.TB, text string) any {
	t.Helper()
	v, err := expr.Decode([]byte(text))
	if err != nil {
		t.Fatalf("decode %s: %v", text, err)
	}
	return v
}

func scope(t testing.TB) expr.Scope {
	return expr.Scope{
		Vars: decode(t, `{"n":1,"f":1.0,"s":"abc","null":null,"list":[{"id":"a","v":1},{"id":"b"}],"deep":{"x":{"y":[1,[2,3]]}},"odd key":{"it's":7},"uni":"añb…"}`),
		Tmp:  decode(t, `{}`),
		In:   decode(t, `{"text":"hello world","big":12345678901234567890123}`),
	}
}

func TestEval(t *testing.T) {
	for expression, want := range map[string]string{
		`"plain"`:                           `"plain"`,
		`"$5 and $"`:                        `"$5 and $"`,
		`"$$vars.n"`:                        `"$vars.n"`,
		`"$vars.n"`:                         `1`,
		`"$vars.f"`:                         `1.0`,
		`"$in.big"`:                         `12345678901234567890123`,
		`"$trigger.text"`:                   `"hello world"`,
		`"$vars.list[0].id"`:                `"a"`,
		`"$vars.list[-1].id"`:               `"b"`,
		`"$vars.list[5]"`:                   `ref_unresolved`,
		`"$vars.list[*].id"`:                `["a","b"]`,
		`"$vars.list[*].v"`:                 `[1]`,
		`"$vars.s[*]"`:                      `state_type_error`,
		`"$vars['odd key']['it\\'s']"`:      `7`,
		`"$vars.deep.x.y[1][0]"`:            `2`,
		`"$vars.nope"`:                      `ref_unresolved`,
		`"$vars.s.x"`:                       `ref_unresolved`,
		`"$ctx.now"`:                        `ref_unresolved`,
		`"$HOME"`:                           `ref_unresolved`,
		`"$vars.null"`:                      `null`,
		`{"a":["$vars.n",{"b":"$vars.s"}]}`: `{"a":[1,{"b":"abc"}]}`,
		`{"lit":{"a":"$vars.n"}}`:           `{"a":"$vars.n"}`,
		`{"url":"u","ref":"$vars.s"}`:       `{"ref":"abc","url":"u"}`,
		`{"ref":"main"}`:                    `{"ref":"main"}`,
		`{"ref":"$vars.nope","default":"$vars.n"}`:                    `1`,
		`{"ref":"$vars.null","default":2}`:                            `null`,
		`{"ref":"$vars.list","pick":["id"]}`:                          `[{"id":"a"},{"id":"b"}]`,
		`{"ref":"$vars.list","omit":["id"]}`:                          `[{"v":1},{}]`,
		`{"ref":"$vars","pick":["deep.x.y","s"]}`:                     `{"deep":{"x":{"y":[1,[2,3]]}},"s":"abc"}`,
		`{"ref":"$vars","pick":["deep","deep.x"]}`:                    `{"deep":{"x":{"y":[1,[2,3]]}}}`,
		`{"ref":"$vars.s","pick":["x"]}`:                              `state_type_error`,
		`{"ref":"$vars.s","pick":[]}`:                                 `"abc"`,
		`{"ref":"$vars","pick":["no"]}`:                               `{}`,
		`{"ref":"$vars","pick":["no"],"pick_required":true}`:          `ref_unresolved`,
		`{"ref":"$vars.list","truncate_items":1,"pick":["id"]}`:       `[{"id":"a"}]`,
		`{"ref":"$vars.list[*].id","truncate_items":1,"from":"tail"}`: `["b"]`,
		`{"ref":"$vars.uni","truncate_chars":3}`:                      `"añ…"`,
		`{"ref":"$vars.uni","truncate_chars":4}`:                      `"añb…"`,
		`{"ref":"$vars.uni","truncate_chars":0}`:                      `""`,
		`{"ref":"$vars.list","max_bytes":3}`:                          `limit_exceeded`,
		`{"concat":["a ","$vars.n",true]}`:                            `"a 1true"`,
		`{"concat":[["x"],"$vars.list[*].id"]}`:                       `["x","a","b"]`,
		`{"concat":["x",["y"]]}`:                                      `state_type_error`,
		`{"concat":["$vars.null"]}`:                                   `state_type_error`,
		`{"len":"$vars.list"}`:                                        `2`,
		`{"len":"$vars.uni"}`:                                         `4`,
		`{"len":"$vars.n"}`:                                           `state_type_error`,
		`{"json":"$vars.deep"}`:                                       `"{\"x\":{\"y\":[1,[2,3]]}}"`,
		`{`:                                                           `schema_failure`,
	} {
		v, f := expr.Eval(json.RawMessage(expression), scope(t))
		got := ""
		if f != nil {
			got = f.Kind
		} else if text, err := expr.Marshal(v); err == nil {
			got = string(text)
		}
		if got != want {
			t.Errorf("Eval(%s) = %s, want %s (%v)", expression, got, want, f)
		}
	}
}

func TestCond(t *testing.T) {
	for cond, want := range map[string]string{
		`{"op":"always"}`:        "true",
		`{"op":"never"}`:         "false",
		`{"op":"otherwise"}`:     "true",
		`{"op":"case","is":"x"}`: "false",
		`{"op":"eq","left":"$vars.n","right":"$vars.f"}`:                                      "true",
		`{"op":"eq","left":1e400,"right":10e399}`:                                             "true",
		`{"op":"eq","left":-0,"right":0.00}`:                                                  "true",
		`{"op":"eq","left":"1","right":1}`:                                                    "false",
		`{"op":"eq","left":{"a":[1.0]},"right":{"a":[1]}}`:                                    "true",
		`{"op":"ne","left":null,"right":false}`:                                               "true",
		`{"op":"lt","left":1e999999999999999999999,"right":1e1000000000000000000000}`:         "true",
		`{"op":"lt","left":-10,"right":-9.5}`:                                                 "true",
		`{"op":"gt","left":0.1,"right":0.09}`:                                                 "true",
		`{"op":"le","left":"a","right":"é"}`:                                                  "true",
		`{"op":"ge","left":"2","right":10}`:                                                   "state_type_error",
		`{"op":"lt","left":null,"right":null}`:                                                "state_type_error",
		`{"op":"in","left":"b","right":"$vars.list[*].id"}`:                                   "true",
		`{"op":"in","left":"b","right":"abc"}`:                                                "state_type_error",
		`{"op":"contains","left":"$in.text","right":"lo w"}`:                                  "true",
		`{"op":"contains","left":[1,2],"right":2.0}`:                                          "true",
		`{"op":"contains","left":"x","right":1}`:                                              "state_type_error",
		`{"op":"starts_with","left":"$in.text","right":"hello"}`:                              "true",
		`{"op":"ends_with","left":"$in.text","right":"hello"}`:                                "false",
		`{"op":"len_eq","left":"$vars.list","right":2}`:                                       "true",
		`{"op":"len_ne","left":"$vars.uni","right":4}`:                                        "false",
		`{"op":"len_gt","left":"$vars.list","right":1.5}`:                                     "true",
		`{"op":"len_lt","left":"$vars.n","right":1}`:                                          "state_type_error",
		`{"op":"len_ge","left":"$vars.s","right":"1"}`:                                        "state_type_error",
		`{"op":"len_le","left":"$vars.s","right":3}`:                                          "true",
		`{"op":"exists","ref":"$vars.null"}`:                                                  "true",
		`{"op":"exists","ref":"$vars.no.pe"}`:                                                 "false",
		`{"op":"exists","ref":"$err"}`:                                                        "false",
		`{"op":"exists","ref":"$vars.list[*].nope"}`:                                          "false",
		`{"op":"is_null","ref":"$vars.null"}`:                                                 "true",
		`{"op":"is_null","ref":"$vars.nope"}`:                                                 "ref_unresolved",
		`{"op":"type_is","ref":"$vars.f","type":"integer"}`:                                   "true",
		`{"op":"type_is","ref":"$vars.list","type":"array"}`:                                  "true",
		`{"op":"type_is","ref":"$vars.null","type":"object"}`:                                 "false",
		`{"op":"has_key","ref":"$vars.deep","key":"x"}`:                                       "true",
		`{"op":"has_key","ref":"$vars.s","key":"x"}`:                                          "state_type_error",
		`{"op":"matches","left":"$in.text","pattern":"^hel+o"}`:                               "true",
		`{"op":"matches","left":"$vars.n","pattern":"1"}`:                                     "state_type_error",
		`{"op":"any","items":"$vars.list","where":{"op":"eq","left":"$item.id","right":"b"}}`: "true",
		`{"op":"all","items":"$vars.list","where":{"op":"le","left":"$index","right":1}}`:     "true",
		`{"op":"all","items":[],"where":{"op":"never"}}`:                                      "true",
		`{"op":"any","items":"$vars.n","where":{"op":"never"}}`:                               "state_type_error",
		`{"op":"and","args":[{"op":"never"},{"op":"is_null","ref":"$vars.nope"}]}`:            "false",
		`{"op":"or","args":[{"op":"always"},{"op":"is_null","ref":"$vars.nope"}]}`:            "true",
		`{"op":"not","args":[{"op":"is_null","ref":"$vars.nope"}]}`:                           "ref_unresolved",
		`{"op":"not","args":[{"op":"never"}]}`:                                                "true",
	} {
		var c expr.Cond
		if err := json.Unmarshal([]byte(cond), &c); err != nil {
			t.Errorf("read %s: %v", cond, err)
			continue
		}
		ok, f := c.True(scope(t))
		got := map[bool]string{true: "true", false: "false"}[ok]
		if f != nil {
			got = f.Kind
		}
		if got != want {
			t.Errorf("%s is %s, want %s (%v)", cond, got, want, f)
		}
		if back, err := json.Marshal(&c); err != nil || !json.Valid(back) {
			t.Errorf("write %s: %s, %v", cond, back, err)
		}
	}
}

// Nested quantifiers over a large list end with limit_exceeded instead of running for years.
func TestCondWorkIsBounded(t *testing.T) {
	cond := `{"op":"never"}`
	for range 10 {
		cond = `{"op":"any","items":"$vars.list","where":` + cond + `}`
	}
	var c expr.Cond
	if err := json.Unmarshal([]byte(cond), &c); err != nil {
		t.Fatal(err)
	}
	_, f := c.True(expr.Scope{Vars: map[string]any{"list": make([]any, 1000)}})
	if f == nil || f.Kind != expr.FailLimit {
		t.Errorf("True = %v, want limit_exceeded", f)
	}
}

// What a condition visits is work, too, also where its operands are small.
func TestCondVisitsAreWork(t *testing.T) {
	t.Parallel()
	list := make([]any, 1000)
	for i := range list {
		list[i] = map[string]any{"a": json.Number("1")}
	}
	copied := make([]any, len(list))
	copy(copied, list)
	scope := expr.Scope{Vars: map[string]any{
		"list": list, "deep": map[string]any{"x": list}, "same": map[string]any{"x": copied}, "one": []any{map[string]any{"x": copied}}, "text": strings.Repeat("x", 1000),
	}}
	for where, bounded := range map[string]bool{
		`{"op":"eq","left":"$item.a","right":1}`:                                                           false,
		`{"op":"eq","left":{"len":"$vars.list"},"right":1}`:                                                false,
		`{"op":"exists","ref":"$vars.list"}`:                                                               false,
		`{"op":"exists","ref":"$vars.list[*].a"}`:                                                          true,
		`{"op":"type_is","ref":"$vars.list[*].a","type":"array"}`:                                          true,
		`{"op":"eq","left":"$vars.deep","right":"$vars.same"}`:                                             true,
		`{"op":"ne","left":"$vars.deep","right":"$vars.same"}`:                                             true,
		`{"op":"in","left":"$vars.deep","right":"$vars.one"}`:                                              true,
		`{"op":"contains","left":"$vars.one","right":"$vars.deep"}`:                                        true,
		`{"op":"eq","left":{"len":"$vars.list[*].a"},"right":1}`:                                           true,
		`{"op":"eq","left":{"len":{"json":"$vars.deep"}},"right":1}`:                                       true,
		`{"op":"eq","left":{"len":{"concat":["$vars.list","$vars.list"]}},"right":1}`:                      true,
		`{"op":"eq","left":{"len":{"ref":"$vars.list","pick":["a"]}},"right":1}`:                           true,
		`{"op":"eq","left":{"len":{"ref":"$vars.deep","truncate_chars":3}},"right":1}`:                     true,
		`{"op":"eq","left":{"len":{"ref":"$vars.deep","max_bytes":100000}},"right":1}`:                     true,
		`{"op":"eq","left":{"len":"$vars.text"},"right":1}`:                                                true,
		`{"op":"eq","left":{"len":{"concat":["$vars.text",{"ref":"$vars.none","default":""}]}},"right":1}`: true,
	} {
		var c expr.Cond
		if err := json.Unmarshal([]byte(`{"op":"any","items":"$vars.list","where":{"op":"and","args":[`+where+`,{"op":"never"}]}}`), &c); err != nil {
			t.Errorf("read %s: %v", where, err)
			continue
		}
		work := expr.CondEval{Work: 5000} // for 1000 elements
		if _, f := work.Eval(c.Root, scope); (f != nil && f.Kind == expr.FailLimit) != bounded || f != nil && !bounded {
			t.Errorf("%s: %v, want the limit: %v", where, f, bounded)
		}
	}
}

func TestAssign(t *testing.T) {
	before := decode(t, `{"a":{"b":{"c":1}},"s":"x"}`).(map[string]any)
	vars, tmp := maps.Clone(before), map[string]any{}
	for _, c := range []struct{ path, kind string }{
		{"$vars.a.b.d", ""}, {"$vars.new.deep.er", ""}, {"$tmp['odd key']", ""}, {"$vars.s.x", "state_type_error"}, {"$vars.a.s2.x", ""},
		{"$vars.a.b.c.d.e", "state_type_error"}, {"$ctx.x", "state_type_error"}, {"$vars", "state_type_error"}, {"$vars.l[0]", "state_type_error"},
	} {
		kind := ""
		if f := expr.Assign(c.path, vars, tmp, true); f != nil {
			kind = f.Kind
		}
		if kind != c.kind {
			t.Errorf("Assign(%s) fails with %q, want %q", c.path, kind, c.kind)
		}
	}
	want := decode(t, `{"a":{"b":{"c":1,"d":true},"s2":{"x":true}},"new":{"deep":{"er":true}},"s":"x"}`)
	if diff := cmp.Diff(want, any(vars)); diff != "" {
		t.Errorf("vars (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(decode(t, `{"a":{"b":{"c":1}},"s":"x"}`), any(before)); diff != "" {
		t.Errorf("the state before was changed:\n%s", diff)
	}
	if tmp["odd key"] != true {
		t.Errorf("tmp = %v", tmp)
	}
}

// Cond is total: whatever it is made of and whatever the state, it is true, false, or a failure of a known kind.
func TestCondIsTotal(t *testing.T) {
	operands := rapid.SampledFrom([]string{`1`, `1.50`, `-2e3`, `"a"`, `null`, `true`, `[]`, `[1,"a"]`, `{"k":1}`, `"$vars.n"`, `"$vars.list"`, `"$vars.nope"`, `"$in"`, `{"len":"$vars.s"}`, `"$vars.list[*].id"`})
	refs := rapid.SampledFrom([]string{`"$vars.n"`, `"$vars.list"`, `"$vars.list[*]"`, `"$vars.deep.x"`, `"$vars.nope.x"`, `"$err"`})
	binary := rapid.SampledFrom([]string{"eq", "ne", "lt", "le", "gt", "ge", "in", "contains", "starts_with", "ends_with", "len_eq", "len_ne", "len_lt", "len_le", "len_gt", "len_ge"})
	var cond func(depth int) *rapid.Generator[string]
	cond = func(depth int) *rapid.Generator[string] {
		return rapid.Custom(func(t *rapid.T) string {
			kinds := 3
			if depth > 0 {
				kinds = 6
			}
			switch rapid.IntRange(0, kinds-1).Draw(t, "kind") {
			case 0:
				return `{"op":"` + binary.Draw(t, "op") + `","left":` + operands.Draw(t, "left") + `,"right":` + operands.Draw(t, "right") + `}`
			case 1:
				return `{"op":"` + rapid.SampledFrom([]string{"exists", "is_null"}).Draw(t, "op") + `","ref":` + refs.Draw(t, "ref") + `}`
			case 2:
				return `{"op":"has_key","ref":` + refs.Draw(t, "ref") + `,"key":"x"}`
			case 3:
				return `{"op":"not","args":[` + cond(depth-1).Draw(t, "arg") + `]}`
			case 4:
				return `{"op":"` + rapid.SampledFrom([]string{"any", "all"}).Draw(t, "op") + `","items":` + operands.Draw(t, "items") + `,"where":` + cond(depth-1).Draw(t, "where") + `}`
			}
			return `{"op":"` + rapid.SampledFrom([]string{"and", "or"}).Draw(t, "op") + `","args":[` + cond(depth-1).Draw(t, "a") + `,` + cond(depth-1).Draw(t, "b") + `]}`
		})
	}
	s := scope(t)
	known := map[string]bool{expr.FailRef: true, expr.FailStateType: true, expr.FailLimit: true}
	rapid.Check(t, func(t *rapid.T) {
		text := cond(4).Draw(t, "cond")
		var c expr.Cond
		if err := json.Unmarshal([]byte(text), &c); err != nil {
			t.Fatalf("read %s: %v", text, err)
		}
		ok, f := c.True(s)
		if f != nil && (ok || !known[f.Kind]) {
			t.Fatalf("%s: %v and %v", text, ok, f)
		}
		if again, g := c.True(s); again != ok || !cmp.Equal(f, g) {
			t.Fatalf("%s: a second time %v and %v", text, again, g)
		}
	})
}

// FuzzEval: no expression makes Eval panic, and it never changes the state that it reads.
func FuzzEval(f *testing.F) {
	for _, seed := range []string{`"$vars.list[*].id"`, `{"ref":"$vars.list","pick":["id","a.b"],"omit":["v"],"truncate_items":1,"truncate_chars":2}`, `{"concat":["a",{"json":"$vars"}]}`, `{"len":["$in.text"]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, expression []byte) {
		s := scope(t)
		v, fail := expr.Eval(expression, s)
		if fail == nil {
			if _, err := expr.Marshal(v); err != nil {
				t.Fatalf("the result cannot be written: %v", err)
			}
		}
		if diff := cmp.Diff(scope(t).Vars, s.Vars); diff != "" {
			t.Fatalf("$vars changed:\n%s", diff)
		}
	})
}
