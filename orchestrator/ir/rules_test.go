package ir_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/orchestrator/ir/check"
)

// findingsOf are code and pointer of everything that is found in a document.
func findingsOf(t *testing.T, doc string) []string {
	t.Helper()
	var got []string
	_, findings := check.Parse([]byte(doc), tools)
	for _, f := range findings {
		got = append(got, f.Code+" "+f.Pointer)
	}
	return got
}

// TestCopiesAndCaches holds which calls may run in a copy of the sprite, and which may be answered from what is kept.
func TestCopiesAndCaches(t *testing.T) {
	put := func(more string) string { return doc(`{"id":"a","op":"TOOL_CALL","tool":"put",`+more+`}`, ``) }
	back := func(more string) string {
		return doc(`{"id":"a","op":"TOOL_CALL","tool":"put"},{"id":"s","op":"SET","set":{"$vars.x":1}},{"id":"b","op":"TOOL_CALL","tool":"put",`+more+`}`, `{"from":"a","to":"s"},{"from":"s","to":"b"}`)
	}
	for name, c := range map[string]struct {
		doc  string
		want []string
	}{
		"a call in a copy":                 {put(`"sprite":"fork"`), nil},
		"a copy that stays":                {put(`"sprite":"fork","keep_sprite":true,"outputs":{"sprite":"$vars.s"}`), nil},
		"a sprite that is none":            {put(`"sprite":"spoon"`), []string{"sprite_invalid /nodes/0/sprite"}},
		"nothing to keep":                  {put(`"keep_sprite":true`), []string{"field_not_allowed /nodes/0/keep_sprite"}},
		"writes at once, each in its copy": {over(`"concurrency":2`, `{"entry_node":"b","nodes":[{"id":"b","op":"TOOL_CALL","tool":"put","sprite":"fork"}]}`), nil},
		"the world at once, in copies":     {over(`"concurrency":2`, `{"entry_node":"b","nodes":[{"id":"b","op":"TOOL_CALL","tool":"any","sprite":"fork"}]}`), []string{"map_serial /nodes/0/concurrency"}},
		"a copy of an item's copy":         {over(`"sprite":"fork"`, `{"entry_node":"b","nodes":[{"id":"b","op":"TOOL_CALL","tool":"put","sprite":"fork"}]}`), nil},
		"a kept read":                      {node(`"cache":"run"`), nil},
		"a read that is kept for none":     {node(`"cache":"none"`), nil},
		"a cache of no kind":               {node(`"cache":"forever"`), []string{"cache_invalid /nodes/0/cache"}},
		"a write that is kept":             {put(`"cache":"run"`), []string{"cache_effect /nodes/0/cache"}},
		"a write by its arguments":         {put(`"cache":"run","args":{"mode":"$in.m"}`), []string{"cache_effect /nodes/0/cache"}},
		"a read that counts as more":       {node(`"cache":"run","side_effect":"world"`), []string{"cache_effect /nodes/0/cache"}},
		"an idempotent one":                {node(`"cache":"run","side_effect":"idempotent"`), nil},
		"a cache of what asks nobody":      {doc(`{"id":"a","op":"PACK","inputs":{"x":1},"cache":"run"}`, ``), []string{"field_not_allowed /nodes/0/cache"}},
		"a timeout of what takes no time":  {doc(`{"id":"a","op":"PACK","inputs":{"x":1},"timeout_s":1}`, ``), []string{"field_not_allowed /nodes/0/timeout_s"}},
		"a timeout of a MAP":               {over(`"timeout_s":3`, inBody(``)), nil},
		"files of another call":            {back(`"restore":"a"`), nil},
		"files of a node that calls none":  {back(`"restore":"s"`), []string{"restore_invalid /nodes/2/restore"}},
		"a loss that fails":                {node(`"on_loss":"fail"`), nil},
		"a loss that does something else":  {node(`"on_loss":"ignore"`), []string{"on_loss_invalid /nodes/0/on_loss"}},
		"a loss of what calls nothing":     {doc(`{"id":"a","op":"PACK","inputs":{"x":1},"on_loss":"fail"}`, ``), []string{"field_not_allowed /nodes/0/on_loss"}},
		"files of no node":                 {back(`"restore":"x"`), []string{"node_unknown /nodes/2/restore"}},
		"old files in a new copy":          {back(`"restore":"a","sprite":"fork"`), []string{"restore_invalid /nodes/2/restore"}},
		"old files in a body":              {over(`"sprite":"fork"`, `{"entry_node":"b","nodes":[{"id":"b","op":"TOOL_CALL","tool":"put"},{"id":"c","op":"TOOL_CALL","tool":"put","restore":"b"}],"edges":[{"from":"b","to":"c"}]}`), []string{"restore_invalid /nodes/0/body/nodes/1/restore"}},
	} {
		if diff := cmp.Diff(c.want, findingsOf(t, c.doc)); diff != "" {
			t.Errorf("%s: findings (-want +got):\n%s", name, diff)
		}
	}
}

// TestInputSchema holds what is known of $in before a run.
func TestInputSchema(t *testing.T) {
	const schema = `"input_schema":{"type":"object","additionalProperties":false,"required":["path"],"properties":{
		"path":{"type":"string"},"n":{"type":"integer"},"list":{"type":"array","items":{"$ref":"#/$defs/who"}},"any":{},"free":{"type":"object"}},
		"$defs":{"who":{"type":"object","properties":{"name":{"type":"string"}},"additionalProperties":false}}}`
	reads := func(expression string) string {
		return doc(`{"id":"a","op":"PACK","inputs":{"p":`+expression+`}}`, ``, schema)
	}
	for name, c := range map[string]struct {
		doc  string
		want []string
	}{
		"a member":                  {reads(`"$in.path"`), nil},
		"by its other name":         {reads(`"$trigger.pth"`), []string{"member_unknown /nodes/0/inputs/p"}},
		"a member that is none":     {reads(`["$in.pth",{"concat":["$in.path","$in.x"]}]`), []string{"member_unknown /nodes/0/inputs/p/0", "member_unknown /nodes/0/inputs/p/1/concat/1"}},
		"a member of a text":        {reads(`"$in.path.x"`), []string{"member_unknown /nodes/0/inputs/p"}},
		"an element of a text":      {reads(`"$in.path[0]"`), []string{"member_unknown /nodes/0/inputs/p"}},
		"through the elements":      {reads(`"$in.list[*].name"`), nil},
		"of no element":             {reads(`"$in.list[0].nam"`), []string{"member_unknown /nodes/0/inputs/p"}},
		"below what may be all":     {reads(`["$in.any.x[0]","$in.free.y.z"]`), nil},
		"a default for what is not": {reads(`{"ref":"$in.pth","default":1}`), nil},
		"an argument of its type":   {args(`{"path":"$in.path","depth":"$in.n"}`), nil},
		"of another type":           {strings.Replace(args(`{"path":"$in.n","tags":"$in.path"}`), `"entry_node"`, schema+`,"entry_node"`, 1), []string{"arg_type /nodes/0/args/path", "arg_type /nodes/0/args/tags"}},
		"items that are no list":    {strings.Replace(over(``, inBody(``)), `"items":"$in.l"`, `"items":"$in.n"`, 1), nil},
		"items of another type":     {strings.Replace(strings.Replace(over(``, inBody(``)), `"items":"$in.l"`, `"items":"$in.n"`, 1), `"entry_node"`, schema+`,"entry_node"`, 1), []string{"items_type /nodes/0/items"}},
		"by name":                   {doc(`{"id":"a","op":"PACK","inputs":{"p":"$in.y"}}`, ``, `"input_schema":"In"`, `"schemas":{"In":{"type":"object","properties":{"x":{}},"additionalProperties":false}}`), []string{"member_unknown /nodes/0/inputs/p"}},
		"by a wrong name":           {doc(packC2, ``, `"input_schema":"Inn"`, `"schemas":{"In":{"type":"object"}}`), []string{"schema_unknown /input_schema"}},
	} {
		if diff := cmp.Diff(c.want, findingsOf(t, c.doc)); diff != "" {
			t.Errorf("%s: findings (-want +got):\n%s", name, diff)
		}
	}
}

// TestAnswersThatNobodyCanGive holds that a question whose answer is refused whatever a person says is found before a run.
func TestAnswersThatNobodyCanGive(t *testing.T) {
	asks := func(more string) string { return human(`"prompt":"?",` + more) }
	bad := []string{"answer_impossible /nodes/0/answer_schema"}
	for name, c := range map[string]struct {
		doc  string
		want []string
	}{
		"what is asked":              {asks(`"expected_inputs":{"n":"integer"},"answer_schema":{"type":"object","required":["n"],"properties":{"n":{"type":"number","minimum":1}},"additionalProperties":false}`), nil},
		"what is not":                {asks(`"expected_inputs":{"n":"integer"},"answer_schema":{"required":["n","m"]}`), bad},
		"two that are not":           {asks(`"answer_schema":{"required":["n","m"]}`), append(bad, bad...)},
		"approved and comments":      {asks(`"expected_inputs":{"n":"integer"},"answer_schema":{"required":["approved","comments"]}`), nil},
		"of another type":            {asks(`"expected_inputs":{"n":"string"},"answer_schema":{"properties":{"n":{"type":"integer"}}}`), bad},
		"closed against what is":     {asks(`"choices":["a"],"answer_schema":{"properties":{"n":{}},"additionalProperties":false}`), bad},
		"choices that are none":      {asks(`"choices":["a","b"],"answer_schema":{"properties":{"choice":{"enum":["c"]}}}`), bad},
		"a choice that is one":       {asks(`"choices":["a","b"],"answer_schema":{"properties":{"choice":{"enum":["b","c"]}}}`), nil},
		"no object":                  {asks(`"answer_schema":{"type":"string"}`), bad},
		"by name":                    {doc(`{"id":"a","op":"HUMAN","prompt":"?","answer_schema":"A"}`, ``, `"schemas":{"A":{"type":"object","required":["who"]}}`), bad},
		"a list, a map":              {asks(`"expected_inputs":{"l":"array<string>","m":"map"},"answer_schema":{"properties":{"l":{"type":"array"},"m":{"type":["object","null"]}}}`), nil},
		"what is combined is judged": {asks(`"answer_schema":{"allOf":[{"required":["x"]}]}`), nil},
	} {
		want := c.want
		if len(want) == 2 { // the same place twice: two sentences
			want = bad
			if got := findingsOf(t, c.doc); len(got) != 2 {
				t.Errorf("%s: %v, want two findings", name, got)
			}
			continue
		}
		if diff := cmp.Diff(want, findingsOf(t, c.doc)); diff != "" {
			t.Errorf("%s: findings (-want +got):\n%s", name, diff)
		}
	}
}

// TestInputSchemaIsReadOnce holds that a large schema costs a document with many references no more than one with few.
func TestInputSchemaIsReadOnce(t *testing.T) {
	var properties, nodes []string
	for i := range 3000 {
		properties = append(properties, fmt.Sprintf(`"p%d":{"type":"string","description":%q}`, i, strings.Repeat("x", 80)))
	}
	for i := range 900 {
		nodes = append(nodes, fmt.Sprintf(`{"id":"n%d","op":"PACK","inputs":{"x":"$in.p%d"}}`, i, i))
	}
	schema := `"input_schema":{"type":"object","additionalProperties":false,"properties":{` + strings.Join(properties, ",") + `}}`
	many := testing.AllocsPerRun(1, func() {
		check.Parse([]byte(`{"execir_version":"1.0","entry_node":"n0","nodes":[`+strings.Join(nodes, ",")+`],`+schema+`}`), tools)
	})
	few := testing.AllocsPerRun(1, func() {
		check.Parse([]byte(`{"execir_version":"1.0","entry_node":"n0","nodes":[`+strings.Join(nodes[:9], ",")+`],`+schema+`}`), tools)
	})
	if many > 4*few {
		t.Errorf("900 references allocate %g times, 9 allocate %g times", many, few)
	}
}
