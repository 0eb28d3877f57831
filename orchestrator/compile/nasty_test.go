package compile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/manifests"
)

// execDoc writes an ExecIR document entered at a.
func execDoc(nodes, edges string, more ...string) string {
	return `{"execir_version":"1.0","entry_node":"a","nodes":[` + nodes + `],"edges":[` + edges + `]` + strings.Join(append([]string{""}, more...), ",") + `}`
}

// packs is a PACK of one value, which it writes to $vars under its own name.
func packs(id, expr string) string {
	return `{"id":"` + id + `","op":"PACK","inputs":{"x":` + expr + `},"outputs":{"x":"$vars.` + id + `"}}`
}

// TestHostileDocuments holds that of documents as bad as they come everything is found at once, each at its place, and that a
// second look finds the same.
func TestHostileDocuments(t *testing.T) {
	one := packs("a", "1")
	for name, c := range map[string]struct {
		doc  string
		want []string
	}{
		"equal keys everywhere":            {`{"execir_version":"1.0","execir_version":"1.0","entry_node":"a","entry_node":"b","nodes":[{"id":"a","id":"b","op":"PACK","inputs":{"x":1,"x":{"q":1,"q":2}}}]}`, []string{"key_duplicate /entry_node", "key_duplicate /execir_version", "key_duplicate /nodes/0/id", "key_duplicate /nodes/0/inputs/x", "key_duplicate /nodes/0/inputs/x/q"}},
		"equal keys by an escape":          {execDoc(`{"id":"a","op":"PACK","inputs":{"x":1,"\u0078":2}}`, ``), []string{"key_duplicate /nodes/0/inputs/x"}},
		"unknown members everywhere":       {execDoc(`{"id":"a","op":"PACK","inputs":{"x":1},"colour":1,"x-c":2}`, `{"from":"a","to":"a","max_traversals":1,"weight":2}`, `"foo":1`, `"x-foo":1`, `"meta":[]`, `"limits":{"max_step":1}`), []string{"field_unknown /edges/0/weight", "field_unknown /foo", "field_unknown /limits/max_step", "field_unknown /nodes/0/colour"}},
		"no number":                        {execDoc(packs("a", "NaN"), ``), []string{"json_invalid "}},
		"numbers beyond a double":          {execDoc(packs("a", "[1e400,-1e400,1e-400]"), ``, `"limits":{"timeout_s":1e400}`), []string{"number_inexact /limits/timeout_s", "number_inexact /nodes/0/inputs/x/0", "number_inexact /nodes/0/inputs/x/1", "number_inexact /nodes/0/inputs/x/2"}},
		"whole numbers of 64 bits":         {execDoc(packs("a", "[9007199254740992,9007199254740993,9223372036854775807]"), ``), []string{"number_inexact /nodes/0/inputs/x/1", "number_inexact /nodes/0/inputs/x/2"}},
		"whole numbers in other forms":     {execDoc(one, ``, `"limits":{"max_steps":1e3,"max_calls":10.0,"max_tokens":-0}`), nil},
		"no whole numbers":                 {execDoc(one, ``, `"limits":{"max_steps":1.5,"max_calls":4294967296,"max_tokens":"9"}`, `"revision":0.1`), []string{"type_mismatch /limits/max_calls", "type_mismatch /limits/max_steps", "type_mismatch /limits/max_tokens", "type_mismatch /revision"}},
		"half characters":                  {execDoc(`{"id":"a","op":"PACK","inputs":{"x":"\ud83d\ude00","y":["\ud800","\\ud800","\ude00\ud83d","\ud83dx"],"\udc00":1}}`, ``), []string{"json_invalid /nodes/0/inputs", "json_invalid /nodes/0/inputs/y/0", "json_invalid /nodes/0/inputs/y/2", "json_invalid /nodes/0/inputs/y/3"}},
		"a byte order mark":                {"\xef\xbb\xbf" + execDoc(one, ``), []string{"json_invalid "}},
		"bytes that are no text":           {execDoc(packs("a", "\"\xff\""), ``), []string{"json_invalid "}},
		"something behind":                 {execDoc(one, ``) + `{}`, []string{"json_invalid "}},
		"a comment":                        {"// c\n" + execDoc(one, ``), []string{"json_invalid "}},
		"null":                             {`null`, []string{"type_mismatch "}},
		"too deep":                         {execDoc(packs("a", strings.Repeat("[", 70)+strings.Repeat("]", 70)), ``), []string{"document_too_deep "}},
		"far too deep":                     {execDoc(packs("a", strings.Repeat("[", 100_000)+strings.Repeat("]", 100_000)), ``), []string{"document_too_deep "}},
		"too large":                        {execDoc(packs("a", `"`+strings.Repeat("x", 1<<20)+`"`), ``), []string{"document_too_large "}},
		"a version that is a number":       {`{"execir_version":1.0,"entry_node":"z","nodes":[` + one + `]}`, []string{"node_unknown /entry_node", "version_invalid /execir_version"}},
		"versions that are none":           {`{"execir_version":"01.0","entry_node":"a","nodes":[` + one + `],"foo":1}`, []string{"version_invalid /execir_version", "field_unknown /foo"}},
		"a newer one":                      {`{"execir_version":"1.1","foo":1}`, []string{"version_unsupported /execir_version"}},
		"a newer plan":                     {`{"planir_version":"9.9"}`, []string{"version_unsupported /planir_version"}},
		"all of the wrong type":            {`{"execir_version":"1.0","entry_node":3,"nodes":{"a":1},"edges":null,"limits":[],"tools":"x"}`, []string{"type_mismatch /edges", "type_mismatch /entry_node", "type_mismatch /limits", "type_mismatch /nodes", "type_mismatch /tools"}},
		"cycles":                           {execDoc(packs("a", "1")+","+packs("b", "1")+","+packs("c", "1"), `{"from":"a","to":"b"},{"from":"b","to":"c"},{"from":"c","to":"a","when":{"op":"never"}},{"from":"c","to":"c"}`), []string{"cycle_unbounded /edges/2", "cycle_unbounded /edges/3"}},
		"a bound that is none":             {execDoc(one, `{"from":"a","to":"a","max_traversals":-1}`), []string{"cycle_unbounded /edges/0", "limit_invalid /edges/0/max_traversals"}},
		"edges into nothing":               {execDoc(one, `{"from":"a","to":"q"},{"from":"z","to":"a"},{"from":"","to":""}`), []string{"node_unknown /edges/0/to", "node_unknown /edges/1/from", "node_unknown /edges/2/from", "node_unknown /edges/2/to"}},
		"not written on every path":        {execDoc(one+`,`+packs("b", "1")+`,`+packs("c", `["$vars.b","$vars.nope"]`), `{"from":"a","to":"b","when":{"op":"eq","left":"$vars.a","right":1}},{"from":"a","to":"c","when":{"op":"otherwise"}},{"from":"b","to":"c"}`), []string{"ref_unset /nodes/2/inputs/x/0", "ref_unset /nodes/2/inputs/x/1"}},
		"a SWITCH without a way":           {execDoc(`{"id":"a","op":"SWITCH","cases":[{"name":"y","when":{"op":"never"}},{"name":"n","when":{"op":"always"}}]},`+packs("b", "1"), `{"from":"a","to":"b","when":{"op":"case","is":"y"}},{"from":"a","to":"b","when":{"op":"case","is":"z"}},{"from":"a","to":"b","when":{"op":"otherwise"}}`), []string{"case_unknown /edges/1/when/is", "switch_default_missing /edges/2/when", "case_edge_missing /nodes/0/cases"}},
		"a LOOP without bounds":            {execDoc(`{"id":"a","op":"LOOP","body":{"entry_node":"b","nodes":[`+packs("b", "1")+`]}}`, ``), []string{"loop_condition /nodes/0", "field_missing /nodes/0/max_iterations"}},
		"branches that write one variable": {execDoc(`{"id":"a","op":"PARALLEL","branches":[{"name":"x","body":{"entry_node":"b","nodes":[{"id":"b","op":"SET","set":{"$vars.v":1}}]}},{"name":"y","body":{"entry_node":"c","nodes":[{"id":"c","op":"SET","set":{"$vars.v":2}}]}}]}`, ``), []string{"vars_in_body /nodes/0/branches/0/body/nodes/0/set/$vars.v", "vars_in_body /nodes/0/branches/1/body/nodes/0/set/$vars.v"}},
		"ways into and out of a body":      {execDoc(`{"id":"a","op":"LOOP","until":{"op":"always"},"max_iterations":1,"body":{"entry_node":"b","nodes":[`+packs("b", "1")+`],"edges":[{"from":"b","to":"z"}]}},`+packs("z", "1"), `{"from":"a","to":"z"},{"from":"b","to":"z"}`), []string{"node_elsewhere /edges/1/from", "node_elsewhere /nodes/0/body/edges/0/to"}},
		"places that are not written":      {execDoc(`{"id":"a","op":"PACK","inputs":{"x":1,"y":2},"outputs":{"x":"$ctx.y","y":"$vars","result":"$vars.l[0]","z":"$vars.z"}}`, ``), []string{"target_invalid /nodes/0/outputs/result", "target_invalid /nodes/0/outputs/x", "target_invalid /nodes/0/outputs/y", "port_unknown /nodes/0/outputs/z"}},
		"references that are none":         {execDoc(`{"id":"a","op":"PACK","inputs":{"a":"$vars.","b":"$vars..x","c":"$nope.x","d":"$vars[","e":"$5","f":"$$x","g":"$in.x y","i":"$vars['a\\'b']"}}`, ``), []string{"ref_invalid /nodes/0/inputs/a", "ref_invalid /nodes/0/inputs/b", "ref_invalid /nodes/0/inputs/c", "ref_invalid /nodes/0/inputs/d", "ref_invalid /nodes/0/inputs/g", "ref_unset /nodes/0/inputs/i"}},
		"namespaces out of place":          {execDoc(`{"id":"a","op":"PACK","inputs":{"x":"$item","y":"$index","z":"$err.kind","o":"$out"}}`, ``), []string{"ref_scope /nodes/0/inputs/o", "ref_scope /nodes/0/inputs/x", "ref_scope /nodes/0/inputs/y", "err_unset /nodes/0/inputs/z"}},
		"rules with three faults":          {execDoc(`{"id":"a","op":"TOOL_CALL","tool":"fs.read","args":{"path":"x"},"retry":[{"on":["wrath"],"max_attempts":101,"interval_s":-1,"max_delay_s":1e9,"backoff_rate":0.5,"jitter":"some"}]}`, ``), []string{"limit_invalid /nodes/0/retry/0/backoff_rate", "limit_invalid /nodes/0/retry/0/interval_s", "jitter_invalid /nodes/0/retry/0/jitter", "limit_invalid /nodes/0/retry/0/max_attempts", "limit_invalid /nodes/0/retry/0/max_delay_s", "failure_kind_unknown /nodes/0/retry/0/on/0"}},
		"pins of templates":                {execDoc(one, ``, `"templates":{"write_v1":"sha256:00","nope_v1":"x"}`), []string{"template_unknown /templates/nope_v1", "template_changed /templates/write_v1"}},
		"members of a number":              {execDoc(one+`,{"id":"b","op":"PACK","inputs":{"y":{"ref":"$vars.a","pick":["q"]},"z":"$vars.a"},"projection":{"z":["q"]}}`, `{"from":"a","to":"b"}`), []string{"pick_type /nodes/1/inputs/y/pick", "pick_type /nodes/1/projection/z"}},
		"a misspelt option":                {execDoc(`{"id":"a","op":"PACK","inputs":{"y":{"ref":"$in.x","picks":["a"]}}}`, ``), []string{"option_unknown /nodes/0/inputs/y/picks"}},
		"a plan of broken steps":           {`{"planir_version":"1.0","goal":"g","constraints":{"mood":1},"steps":[{"id":"S1","type":"CLONE"},{"id":"S1","type":"TSET"},{"id":"1","type":"TEST","outputs":{"rep":"$vars.q"}}]}`, []string{"constraint_unused /constraints/mood", "id_duplicate /steps/1/id", "type_unknown /steps/1/type", "id_invalid /steps/2/id", "port_unknown /steps/2/outputs/rep"}},
		"a plan that reads too early":      {`{"planir_version":"1.0","goal":"g","steps":[{"id":"S1","type":"TEST","inputs":{"cwd":"$vars.S2.clone.dest"}},{"id":"S2","type":"CLONE"}]}`, []string{"ref_unset /steps/0/inputs/cwd"}},
		"a graph of step types":            {`{"workflow_version":"1.0","nodes":[{"id":"a","type":"ASK_HUMAN","in":{"qestion":"?"},"timeout_s":3},{"id":"b","type":"ASK_HUMANS"},{"id":"c","type":"TEST","in":"x"}],"edges":[{"from":"a","to":"b"},{"from":"b","to":"c"}]}`, []string{"input_unknown /nodes/0/in/qestion", "input_missing /nodes/0/in/question", "field_not_allowed /nodes/0/timeout_s", "type_unknown /nodes/1/type", "arg_type /nodes/2/in"}},
		"one id for two kinds of steps":    {`{"workflow_version":"1.0","entry_node":"a","nodes":[{"id":"a","type":"fs.read","in":{"path":"x"}},{"id":"a","type":"ASK_HUMAN","in":{"question":"?"}},{"id":"b","type":"ASK_HUMAN","in":{"question":"?"}},{"id":"b","type":"fs.read","in":{"path":"x"}}],"edges":[{"from":"a","to":"b"}]}`, []string{"id_duplicate /nodes/1/id", "id_duplicate /nodes/3/id"}},
		"a graph with ports that miss":     {`{"workflow_version":"1.0","nodes":[{"id":"a","type":"git.clone","in":{"url":"u"}},{"id":"b","type":"fs.read","in":{"path":"$vars.a.nope","offset":"$vars.a.head"}}],"edges":[{"from":"a","to":"b"}]}`, []string{"port_type /nodes/1/in/offset", "member_unknown /nodes/1/in/path"}},
	} {
		t.Run(name, func(t *testing.T) {
			flow, findings := Parse([]byte(c.doc), manifests.Lookup)
			var got []string
			for _, f := range findings {
				got = append(got, f.Code+" "+f.Pointer)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s", diff)
			}
			if _, again := Parse([]byte(c.doc), manifests.Lookup); !cmp.Equal(findings, again) {
				t.Error("a second look finds something else")
			}
			if flow != nil && len(c.want) > 0 && findings[0].Severity == "error" {
				t.Error("it is taken")
			}
		})
	}
}

// TestEqualDocuments holds that documents which say the same give equal bytes and one digest, however they are written.
func TestEqualDocuments(t *testing.T) {
	docs := map[string]string{
		"graph": `{"workflow_version":"1.0","nodes":[{"id":"a","type":"git.clone","in":{"url":"u"}},{"id":"t","type":"TEST","in":{"cwd":"$vars.a.dest","allow_red":true}},{"id":"h","type":"ASK_HUMAN","in":{"question":{"concat":["é ","$vars.t.report.status"]}},"catch":[{"on":["ALL"],"to":"t2"}]},{"id":"t2","type":"TEST","in":{"cwd":"x"}}],"edges":[{"from":"a","to":"t"},{"from":"t","to":"h"}],"limits":{"timeout_s":1500,"max_steps":40}}`,
		"plan":  `{"planir_version":"1.0","goal":"g €","steps":[{"id":"S1","type":"CLONE","inputs":{"url":"u"}},{"id":"S2","type":"TEST","inputs":{"cwd":"$vars.S1.clone.dest"}}],"limits":{"timeout_s":0.25}}`,
	}
	for name, doc := range docs {
		first, findings := Parse([]byte(doc), manifests.Lookup)
		if first == nil {
			t.Fatalf("%s: %+v", name, findings)
		}
		for seed := range uint64(20) {
			text := rewritten(t, doc, seed)
			again, _ := Parse(text, manifests.Lookup)
			if again == nil || !bytes.Equal(again.ExecIR, first.ExecIR) || again.Program.Digest != first.Program.Digest {
				t.Fatalf("%s: %s is lowered to something else", name, text)
			}
			exec, _ := Parse(rewritten(t, string(first.ExecIR), seed), manifests.Lookup)
			if exec == nil || exec.Program.Digest != first.Program.Digest {
				t.Fatalf("%s: its program has another digest when it is written otherwise", name)
			}
		}
	}
}

// rewritten is a document with its members in another order, other forms of its numbers, and letters escaped at random.
func rewritten(t *testing.T, doc string, seed uint64) []byte {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 3))
	d := json.NewDecoder(strings.NewReader(doc))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	text := func(s string) {
		b.WriteByte('"')
		for _, c := range s {
			if r.IntN(4) == 0 && c < 0x10000 || c == '"' || c == '\\' {
				fmt.Fprintf(&b, `\u%04X`, c)
			} else {
				b.WriteRune(c)
			}
		}
		b.WriteByte('"')
	}
	var write func(v any)
	write = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			b.WriteString("{ ")
			names := make([]string, 0, len(v))
			for k := range v {
				names = append(names, k)
			}
			r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
			for i, k := range names {
				if i > 0 {
					b.WriteString(" ,\n")
				}
				text(k)
				b.WriteString("\t: ")
				write(v[k])
			}
			b.WriteString("}")
		case []any:
			b.WriteString("[")
			for i, e := range v {
				if i > 0 {
					b.WriteString(",")
				}
				write(e)
			}
			b.WriteString(" ]")
		case string:
			text(v)
		case json.Number:
			b.WriteString(v.String() + []string{"", "e0", "E+00"}[r.IntN(3)])
		default:
			fmt.Fprint(&b, map[any]string{nil: "null", true: "true", false: "false"}[v])
		}
	}
	write(v)
	return []byte(b.String())
}
