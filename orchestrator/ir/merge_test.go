package ir_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
)

func TestMerge(t *testing.T) {
	for name, c := range map[string]struct {
		node, inputs, want string // want is the result, or the kind of the failure
	}{
		"shallow":                {`{"strategy":"shallow"}`, `[{"a":1,"o":{"x":1}},{"b":2,"o":{"y":2}},{"a":null}]`, `{"a":null,"b":2,"o":{"y":2}}`},
		"shallow, first":         {`{"strategy":"shallow","on_conflict":"first"}`, `[{"a":1},{"a":2,"b":3}]`, `{"a":1,"b":3}`},
		"shallow, error":         {`{"strategy":"shallow","on_conflict":"error"}`, `[{"a":1},{"a":2}]`, `invariant_failure`},
		"equal is no conflict":   {`{"strategy":"shallow","on_conflict":"error"}`, `[{"a":[1.0]},{"a":[1],"b":1}]`, `{"a":[1.0],"b":1}`},
		"shallow of a list":      {`{"strategy":"shallow"}`, `[{},[]]`, `state_type_error`},
		"shallow of null":        {`{"strategy":"shallow"}`, `[null]`, `state_type_error`},
		"deep":                   {`{"strategy":"deep"}`, `[{"o":{"x":1,"p":{"q":1}}},{"o":{"y":2,"p":{"r":2}}},{"o":{"x":[3]}}]`, `{"o":{"p":{"q":1,"r":2},"x":[3],"y":2}}`},
		"deep, first":            {`{"strategy":"deep","on_conflict":"first"}`, `[{"o":{"x":1}},{"o":{"x":2,"y":3}},{"o":4}]`, `{"o":{"x":1,"y":3}}`},
		"deep, error":            {`{"strategy":"deep","on_conflict":"error"}`, `[{"o":{"x":1}},{"o":{"x":2}}]`, `invariant_failure`},
		"concat":                 {`{"strategy":"concat"}`, `[[1],[],[[2],null]]`, `[1,[2],null]`},
		"concat of an object":    {`{"strategy":"concat"}`, `[[1],{}]`, `state_type_error`},
		"by_key":                 {`{"strategy":"by_key","key":"id"}`, `[[{"id":"a","v":1},{"id":"b"}],[{"id":"c"},{"id":"a","w":2}]]`, `[{"id":"a","v":1,"w":2},{"id":"b"},{"id":"c"}]`},
		"by_key of numbers":      {`{"strategy":"by_key","key":"n"}`, `[[{"n":1},{"n":1.0,"x":1},{"n":"1"},{"n":10e-1,"y":1}]]`, `[{"n":1,"x":1,"y":1},{"n":"1"}]`},
		"by_key, first":          {`{"strategy":"by_key","key":"id","on_conflict":"first"}`, `[[{"id":1,"v":1}],[{"id":1,"v":2}]]`, `[{"id":1,"v":1}]`},
		"by_key, error":          {`{"strategy":"by_key","key":"id","on_conflict":"error"}`, `[[{"id":1,"v":1}],[{"id":1,"v":2}]]`, `invariant_failure`},
		"by_key without a key":   {`{"strategy":"by_key","key":"id"}`, `[[{"ID":1}]]`, `state_type_error`},
		"by_key of null":         {`{"strategy":"by_key","key":"id"}`, `[[{"id":null}]]`, `state_type_error`},
		"by_key of numbers only": {`{"strategy":"by_key","key":"id"}`, `[[1]]`, `state_type_error`},
		"patches one by one":     {`{"strategy":"merge_patch"}`, `[{"a":1,"b":2},{"a":null},{"c":{"d":null}}]`, `{"b":2,"c":{}}`},
		"best":                   {`{"strategy":"best","by":["f"]}`, `[[{"f":3},null,{"f":1,"id":"a"}],[{"f":1.0,"id":"b"}]]`, `{"f":1,"id":"a"}`},
		"best, more is better":   {`{"strategy":"best","by":["-c.p","f"]}`, `[[{"c":{"p":2},"f":9},{"c":{"p":10},"f":9},{"c":{"p":10},"f":1}]]`, `{"c":{"p":10},"f":1}`},
		"best of what is there":  {`{"strategy":"best","by":["-f"]}`, `[[{},{"f":null},{"f":0}]]`, `{"f":0}`},
		"best of kinds":          {`{"strategy":"best","by":["f"]}`, `[[{"f":"a"},{"f":1},{"f":true},{"f":false}]]`, `{"f":false}`},
		"best of nothing":        {`{"strategy":"best","by":["f"]}`, `[[null],[]]`, `invariant_failure`},
		"best of numbers":        {`{"strategy":"best","by":["f"]}`, `[[1]]`, `state_type_error`},
		"best of no list":        {`{"strategy":"best","by":["f"]}`, `[{}]`, `state_type_error`},
		"no strategy":            {`{}`, `[]`, `schema_failure`},
	} {
		t.Run(name, func(t *testing.T) {
			var n ir.Node
			if err := json.Unmarshal([]byte(c.node), &n); err != nil {
				t.Fatal(err)
			}
			inputs := decode(t, c.inputs).([]any)
			v, f := n.Merge(inputs)
			got := ""
			if f != nil {
				got = f.Kind
			} else if text, err := expr.Marshal(v); err == nil {
				got = string(text)
			}
			if got != c.want {
				t.Errorf("Merge(%s) = %s, want %s (%v)", c.inputs, got, c.want, f)
			}
			if diff := cmp.Diff(decode(t, c.inputs), any(inputs)); diff != "" {
				t.Errorf("the inputs were changed:\n%s", diff)
			}
		})
	}
}

// The test cases of RFC 7396, appendix A, and the example of its section 3.
func TestMergePatch(t *testing.T) {
	for _, c := range []struct{ original, patch, want string }{
		{`{"a":"b"}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"b"}`, `{"b":"c"}`, `{"a":"b","b":"c"}`},
		{`{"a":"b"}`, `{"a":null}`, `{}`},
		{`{"a":"b","b":"c"}`, `{"a":null}`, `{"b":"c"}`},
		{`{"a":["b"]}`, `{"a":"c"}`, `{"a":"c"}`},
		{`{"a":"c"}`, `{"a":["b"]}`, `{"a":["b"]}`},
		{`{"a":{"b":"c"}}`, `{"a":{"b":"d","c":null}}`, `{"a":{"b":"d"}}`},
		{`{"a":[{"b":"c"}]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`["a","b"]`, `["c","d"]`, `["c","d"]`},
		{`{"a":"b"}`, `["c"]`, `["c"]`},
		{`{"a":"foo"}`, `null`, `null`},
		{`{"a":"foo"}`, `"bar"`, `"bar"`},
		{`{"e":null}`, `{"a":1}`, `{"a":1,"e":null}`},
		{`[1,2]`, `{"a":"b","c":null}`, `{"a":"b"}`},
		{`{}`, `{"a":{"bb":{"ccc":null}}}`, `{"a":{"bb":{}}}`},
		{`{"title":"Goodbye!","author":{"givenName":"John","familyName":"Doe"},"tags":["example","sample"],"content":"This will be unchanged"}`,
			`{"title":"Hello!","phoneNumber":"+01-123-456-7890","author":{"familyName":null},"tags":["example"]}`,
			`{"author":{"givenName":"John"},"content":"This will be unchanged","phoneNumber":"+01-123-456-7890","tags":["example"],"title":"Hello!"}`},
	} {
		n := ir.Node{Strategy: ir.MergePatch}
		v, f := n.Merge([]any{decode(t, c.original), decode(t, c.patch)})
		text, err := expr.Marshal(v)
		if f != nil || err != nil || string(text) != c.want {
			t.Errorf("merge_patch of %s and %s = %s, want %s (%v, %v)", c.original, c.patch, text, c.want, f, err)
		}
	}
}
