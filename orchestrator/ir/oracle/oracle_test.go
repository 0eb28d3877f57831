package oracle

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"cel.dev/cel-go/cel"
	"pgregory.net/rapid"

	conditions "github.com/spritekit/lattice/orchestrator/ir/expr"
)

// cond is one random condition in its three forms. strict says that nothing in it stops early: then an error of one side
// has to be an error of the other. text is "" where the text form has no way to say it.
type cond struct {
	ast    any
	cel    string
	text   string
	strict bool
}

type object = map[string]any

// expr is one random value expression.
type expr struct {
	ast  any
	cel  string
	text string
}

// vars is what conditions are decided about.
const vars = `{"n":3,"m":3.0,"neg":-7.5,"s":"abc","t":"abcd","e":"","b":true,"z":null,"l":[1,2.0,"abc",null],"o":{"k":"v","n":3},"ls":[{"i":1},{"i":2},{"i":3}]}`

func quoted(s string) string { return strconv.Quote(s) }

func literal() *rapid.Generator[expr] {
	return rapid.Custom(func(t *rapid.T) expr {
		switch rapid.IntRange(0, 3).Draw(t, "literal") {
		case 0:
			n := rapid.IntRange(-8, 8).Draw(t, "n")
			return expr{json.Number(strconv.Itoa(n)), fmt.Sprintf("(%d)", n), strconv.Itoa(n)}
		case 1:
			n := strconv.FormatFloat(float64(rapid.IntRange(-16, 16).Draw(t, "halves"))/2, 'f', 1, 64)
			return expr{json.Number(n), "(" + n + ")", n}
		case 2:
			s := rapid.SampledFrom([]string{"", "a", "abc", "abcd", "v", "k", "ä"}).Draw(t, "s")
			return expr{s, quoted(s), quoted(s)}
		}
		v := rapid.SampledFrom([]string{"true", "false", "null"}).Draw(t, "word")
		var ast any
		_ = json.Unmarshal([]byte(v), &ast) // one of three words
		return expr{ast, v, v}
	})
}

// path is a reference; in an element $item is there, too.
func path(element bool) *rapid.Generator[expr] {
	names := []string{"n", "m", "neg", "s", "t", "e", "b", "z", "l", "o", "o.k", "o.n", "o.missing", "missing", "ls", "l[0]", "l[2]", "ls[1].i"}
	return rapid.Custom(func(t *rapid.T) expr {
		if element && rapid.Bool().Draw(t, "item") {
			return expr{"$item", "item", "$item"}
		}
		name := rapid.SampledFrom(names).Draw(t, "path")
		return expr{"$vars." + name, "vars." + name, "$vars." + name}
	})
}

func operand(element bool) *rapid.Generator[expr] {
	return rapid.OneOf(literal(), path(element), path(element))
}

var celOps = map[string]string{"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}

func condition(depth int, element bool) *rapid.Generator[cond] {
	return rapid.Custom(func(t *rapid.T) cond {
		most := 9
		if depth == 0 {
			most = 6
		}
		switch rapid.IntRange(0, most).Draw(t, "kind") {
		case 0, 1:
			op := rapid.SampledFrom([]string{"eq", "ne", "lt", "le", "gt", "ge"}).Draw(t, "op")
			l, r := operand(element).Draw(t, "left"), operand(element).Draw(t, "right")
			decides := fmt.Sprintf("(%s %s %s)", l.cel, celOps[op], r.cel)
			if op != "eq" && op != "ne" { // CEL orders truth values, too
				decides = fmt.Sprintf("(type(%s) == bool ? 1/0 > 0 : %s)", l.cel, decides)
			}
			return cond{object{"op": op, "left": l.ast, "right": r.ast}, decides, fmt.Sprintf("(%s %s %s)", l.text, celOps[op], r.text), true}
		case 2:
			l, r := operand(element).Draw(t, "left"), path(element).Draw(t, "list")
			// CEL looks into maps, too: there it asks for a key.
			return cond{object{"op": "in", "left": l.ast, "right": r.ast}, fmt.Sprintf("(type(%s) == list ? (%s in %s) : 1/0 > 0)", r.cel, l.cel, r.cel), fmt.Sprintf("(%s in %s)", l.text, r.text), true}
		case 3:
			op := rapid.SampledFrom([]string{"eq", "lt", "ge"}).Draw(t, "op")
			l, n := path(element).Draw(t, "left"), rapid.IntRange(0, 4).Draw(t, "n")
			return cond{object{"op": "len_" + op, "left": l.ast, "right": json.Number(strconv.Itoa(n))}, fmt.Sprintf("(size(%s) %s %d)", l.cel, celOps[op], n), fmt.Sprintf("(len(%s) %s %d)", l.text, celOps[op], n), true}
		case 4:
			op := rapid.SampledFrom([]string{"starts_with", "ends_with"}).Draw(t, "op")
			l, r := path(element).Draw(t, "left"), operand(element).Draw(t, "right")
			call := map[string]string{"starts_with": "startsWith", "ends_with": "endsWith"}[op]
			return cond{object{"op": op, "left": l.ast, "right": r.ast}, fmt.Sprintf("%s.%s(%s)", l.cel, call, r.cel), fmt.Sprintf("%s(%s, %s)", op, l.text, r.text), true}
		case 5:
			name := rapid.SampledFrom([]string{"n", "z", "missing", "o", "l"}).Draw(t, "name")
			return cond{object{"op": "exists", "ref": "$vars." + name}, "has(vars." + name + ")", "exists($vars." + name + ")", true}
		case 6:
			l, re := path(element).Draw(t, "left"), rapid.SampledFrom([]string{"^a", "b", "c$", "^abc$", "^[a-z]+d?$"}).Draw(t, "re")
			return cond{object{"op": "matches", "left": l.ast, "pattern": re}, fmt.Sprintf("%s.matches(%s)", l.cel, quoted(re)), fmt.Sprintf("matches(%s, %s)", l.text, quoted(re)), true}
		case 7:
			op := rapid.SampledFrom([]string{"and", "or"}).Draw(t, "op")
			a, b := condition(depth-1, element).Draw(t, "a"), condition(depth-1, element).Draw(t, "b")
			sign := map[string]string{"and": "&&", "or": "||"}[op]
			text := ""
			if a.text != "" && b.text != "" {
				text = fmt.Sprintf("(%s %s %s)", a.text, sign, b.text)
			}
			return cond{object{"op": op, "args": []any{a.ast, b.ast}}, fmt.Sprintf("(%s %s %s)", a.cel, sign, b.cel), text, false}
		case 8:
			a := condition(depth-1, element).Draw(t, "a")
			text := ""
			if a.text != "" {
				text = "!(" + a.text + ")"
			}
			return cond{object{"op": "not", "args": []any{a.ast}}, "!" + "(" + a.cel + ")", text, a.strict}
		}
		op := rapid.SampledFrom([]string{"any", "all"}).Draw(t, "op")
		list := path(false).Draw(t, "items")
		a := condition(depth-1, true).Draw(t, "where")
		macro := map[string]string{"any": "exists", "all": "all"}[op]
		return cond{object{"op": op, "items": list.ast, "where": a.ast}, fmt.Sprintf("(type(%s) == list ? %s.%s(item, %s) : 1/0 > 0)", list.cel, list.cel, macro, a.cel), "", false}
	})
}

// TestConditionsAgreeWithCEL decides random conditions in both languages. Ours stop at the first argument that decides,
// from left to right, and an error before it is an error; CEL forgives that error. So where CEL fails ours fails; where
// ours decides CEL decides the same; and where nothing stops early both fail or none.
func TestConditionsAgreeWithCEL(t *testing.T) {
	decoded, err := conditions.Decode([]byte(vars))
	if err != nil {
		t.Fatal(err)
	}
	env, err := cel.NewEnv(cel.Variable("vars", cel.DynType), cel.CrossTypeNumericComparisons(true))
	if err != nil {
		t.Fatal(err)
	}
	decided, failed := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		c := condition(3, false).Draw(t, "condition")
		raw, err := conditions.Marshal(c.ast)
		if err != nil {
			t.Fatal(err)
		}
		var parsed conditions.Cond
		if err := parsed.UnmarshalJSON(raw); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		got, f := parsed.True(conditions.Scope{Vars: decoded})
		want, oracle := decide(env, c.cel)
		switch {
		case oracle != nil && f == nil:
			t.Fatalf("%s is %v; CEL says of %s: %v", raw, got, c.cel, oracle)
		case oracle == nil && f == nil && got != want:
			t.Fatalf("%s is %v; CEL says %v of %s", raw, got, want, c.cel)
		case oracle == nil && f != nil && c.strict:
			t.Fatalf("%s fails: %v; CEL says %v of %s", raw, f, want, c.cel)
		}
		if f == nil {
			decided++
		} else {
			failed++
		}
		if c.text == "" || len(c.text) > conditions.MaxCondText {
			return
		}
		sugar, err := conditions.ParseCond(c.text)
		if err != nil {
			t.Fatalf("text %s of %s: %v", c.text, raw, err)
		}
		again, g := sugar.True(conditions.Scope{Vars: decoded})
		if again != got || (g == nil) != (f == nil) {
			t.Fatalf("the text %s is %v (%v), %s is %v (%v)", c.text, again, g, raw, got, f)
		}
	})
	if decided < 10 || failed < 5 {
		t.Errorf("%d conditions were decided and %d failed: too few to tell", decided, failed)
	}
}

// decide has CEL decide an expression.
func decide(env *cel.Env, text string) (bool, error) {
	ast, issues := env.Parse(text) // unchecked: types are found out as it runs, as ours are
	if issues.Err() != nil {
		return false, issues.Err()
	}
	program, err := env.Program(ast)
	if err != nil {
		return false, err
	}
	out, _, err := program.Eval(map[string]any{"vars": plain(vars)})
	if err != nil {
		return false, err
	}
	b, ok := out.Value().(bool)
	if !ok {
		return false, fmt.Errorf("%v is no truth value", out)
	}
	return b, nil
}

// plain decodes JSON with whole numbers as int64, so that CEL sees both of its number types.
func plain(text string) any {
	var v any
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return nil
	}
	return numbers(v)
}

func numbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, _ := v.Float64() // of a constant in this file
		return f
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = numbers(v[k])
		}
	}
	return v
}
