package ir_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/check"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/ir/finding"
)

// tools is a small world of skills for the tests: every declared type, a required input, a variant.
func tools(name string) (manifests.Skill, bool) {
	skills := map[string]manifests.Skill{
		"look": {
			Name: "look", SideEffect: manifests.ClassRead, Permissions: []string{"fs:read"},
			Inputs:  []manifests.Field{{Name: "path", Type: "string", Required: true}, {Name: "depth", Type: "integer"}, {Name: "tags", Type: "array<string>"}},
			Outputs: []manifests.Field{{Name: "text", Type: "string", Required: true}, {Name: "size", Type: "integer", Required: true}},
		},
		"put": {
			Name: "put", SideEffect: manifests.ClassSprite, Permissions: []string{"git:read"},
			Inputs: []manifests.Field{{Name: "mode", Type: "string"}},
			Variants: &manifests.Variants{Input: "mode", Default: "request", Cases: map[string]manifests.Variant{
				"request": {Permissions: []string{"git:read"}, SideEffect: manifests.ClassSprite},
				"direct":  {Permissions: []string{"git:read", "git:push"}, SideEffect: manifests.ClassWorld},
			}},
		},
		"any": {Name: "any", Permissions: []string{"exec"}},
	}
	s, ok := skills[name]
	return s, ok
}

// doc writes a document with these nodes and edges, entered at the node "a".
func doc(nodes, edges string, more ...string) string {
	return `{"execir_version":"1.0","entry_node":"a","nodes":[` + nodes + `],"edges":[` + edges + `]` + strings.Join(append([]string{""}, more...), ",") + `}`
}

const (
	look  = `{"id":"a","op":"TOOL_CALL","tool":"look","args":{"path":"x"},"outputs":{"result":"$vars.got"}}`
	packB = `{"id":"b","op":"PACK","inputs":{"x":"$vars.got.text"}}`
	packC = `{"id":"c","op":"PACK","inputs":{"x":1}}`
	aToB  = `{"from":"a","to":"b"}`
)

// node writes one TOOL_CALL of look with more members.
func node(more string) string {
	return doc(`{"id":"a","op":"TOOL_CALL","tool":"look","args":{"path":"x"},`+more+`}`, ``)
}

func args(args string) string {
	return doc(`{"id":"a","op":"TOOL_CALL","tool":"look","args":`+args+`}`, ``)
}

func when(cond string) string {
	return doc(look+`,`+packB, `{"from":"a","to":"b","when":`+cond+`},{"from":"a","to":"b","when":{"op":"otherwise"}}`)
}

func human(more string) string {
	return doc(`{"id":"a","op":"HUMAN",`+more+`}`, ``)
}

func merge(more string) string {
	return doc(`{"id":"a","op":"MERGE",`+more+`}`, ``)
}

// over writes a MAP over $in.l; more comes before what it would say twice.
func over(more, body string) string {
	if !strings.Contains(more, "max_items") {
		more = strings.TrimPrefix(more+`,"max_items":3`, ",")
	}
	return doc(`{"id":"a","op":"MAP","items":"$in.l",`+more+`,"body":`+body+`}`, ``)
}

// inBody writes a body of one TOOL_CALL of look with more members, and other nodes.
func inBody(more string, others ...string) string {
	call := `{"id":"b","op":"TOOL_CALL","tool":"look","args":{"path":"$item"}` + more + `}`
	return `{"entry_node":"b","nodes":[` + strings.Join(append([]string{call}, others...), ",") + `]}`
}

const greenSwitch = `{"id":"a","op":"SWITCH","cases":[{"name":"green","when":{"op":"eq","left":"$in.x","right":1}}],"default":"red"}`

func switched(edges string) string {
	return doc(greenSwitch+`,{"id":"b","op":"PACK","inputs":{"x":1}},`+packC, edges)
}

// Every code has a case, and each case gets exactly the findings named, as "code pointer".
func TestParseFindings(t *testing.T) {
	deep := strings.Repeat(`[`, 70) + strings.Repeat(`]`, 70)
	notNot := `{"op":"always"}`
	for range 17 {
		notNot = `{"op":"not","args":[` + notNot + `]}`
	}
	for name, c := range map[string]struct {
		doc  string
		want []string
	}{
		"empty":                        {``, []string{"json_invalid "}},
		"truncated":                    {`{"execir_version":`, []string{"json_invalid "}},
		"trailing":                     {`{} {}`, []string{"json_invalid "}},
		"not utf-8":                    {"{\"a\":\"\xff\"}", []string{"json_invalid "}},
		"lone surrogate":               {doc(packC2, ``, `"id":"a"`, `"meta":"\ud800"`), []string{"json_invalid /meta"}},
		"no object":                    {`[]`, []string{"type_mismatch "}},
		"too large":                    {`{"x":"` + strings.Repeat("x", ir.MaxDocumentBytes) + `"}`, []string{"document_too_large "}},
		"too deep":                     {`{"x":` + deep + `}`, []string{"document_too_deep "}},
		"far too deep":                 {strings.Repeat(`[`, 20000) + strings.Repeat(`]`, 20000), []string{"document_too_deep "}},
		"no version":                   {`{}`, []string{"version_missing /execir_version"}},
		"no text version":              {`{"execir_version":1.0,"entry_node":"a","nodes":[` + look + `]}`, []string{"version_invalid /execir_version"}},
		"odd version":                  {`{"execir_version":"1"}`, []string{"version_invalid /execir_version", "field_missing /nodes"}},
		"version and more":             {`{"execir_version":null,"entry_node":"z","nodes":[` + look + `],"brand":1}`, []string{"field_unknown /brand", "node_unknown /entry_node", "version_invalid /execir_version"}},
		"newer minor":                  {`{"execir_version":"1.1","brand":"new"}`, []string{"version_unsupported /execir_version"}},
		"newer major":                  {`{"execir_version":"2.0"}`, []string{"version_unsupported /execir_version"}},
		"nothing":                      {`{"execir_version":"1.0"}`, []string{"field_missing /nodes"}},
		"duplicate key":                {doc(look, ``, `"id":"x"`, `"id":"y"`), []string{"key_duplicate /id"}},
		"nested duplicate":             {args(`{"path":"x","path":"y"}`), []string{"key_duplicate /nodes/0/args/path"}},
		"unknown members":              {doc(look, ``, `"Entry":1`, `"meta":{"any":1}`, `"x-mine":1`, `"$schema":"s"`), []string{"field_unknown /Entry"}},
		"case of a member":             {node(`"Retry":[]`), []string{"field_unknown /nodes/0/Retry"}},
		"wrong types":                  {doc(look, ``, `"id":1`, `"tools":{}`, `"revision":1.5`), []string{"type_mismatch /id", "type_mismatch /revision", "type_mismatch /tools"}},
		"no entry":                     {`{"execir_version":"1.0","nodes":[` + look + `]}`, []string{"field_missing /entry_node"}},
		"unknown entry":                {`{"execir_version":"1.0","entry_node":"z","nodes":[` + look + `]}`, []string{"node_unknown /entry_node"}},
		"bad ids":                      {doc(look+`,{"id":"1","op":"PACK","inputs":{"x":1}}`, `{"from":"a","to":"1"}`), []string{"id_invalid /nodes/1/id"}},
		"duplicate ids":                {doc(look+`,`+look, ``), []string{"id_duplicate /nodes/1/id"}},
		"no op":                        {doc(`{"id":"a"}`, ``), []string{"field_missing /nodes/0/op"}},
		"parallel":                     {doc(`{"id":"a","op":"PARALLEL","join":"settled","outputs":{"x":"$vars.x"},"branches":[{"name":"x","body":`+strings.Replace(inBody(`,"outputs":{"text":"$tmp.t"}`), "$item", "x", 1)+`,"result":"$tmp.t"}]}`, ``), nil},
		"parallel members":             {doc(`{"id":"a","op":"PARALLEL","join":"some","outputs":{"y":"$vars.y"},"branches":[{"name":"x","body":{"entry_node":"p","nodes":[{"id":"p","op":"PACK","inputs":{"v":"$item"},"outputs":{"v":"$vars.v"}}]}},{"name":"x"}]}`, ``), []string{"ref_scope /nodes/0/branches/0/body/nodes/0/inputs/v", "vars_in_body /nodes/0/branches/0/body/nodes/0/outputs/v", "field_missing /nodes/0/branches/1/body", "branch_duplicate /nodes/0/branches/1/name", "join_invalid /nodes/0/join", "port_unknown /nodes/0/outputs/y"}},
		"branches that write":          {doc(`{"id":"a","op":"PARALLEL","branches":[{"name":"x","body":`+strings.Replace(inBody(`,"side_effect":"sprite"`), "$item", "x", 1)+`},{"name":"y","body":{"entry_node":"q","nodes":[{"id":"q","op":"PACK","inputs":{"v":1}}]}}]}`, ``), []string{"branches_serial /nodes/0/branches"}},
		"loop":                         {doc(`{"id":"a","op":"LOOP","until":{"op":"ge","left":"$index","right":"$vars.n"},"max_iterations":3,"body":{"entry_node":"s","nodes":[{"id":"s","op":"SET","set":{"$vars.n":2}}]}},{"id":"b","op":"SET","set":{"$vars.m":"$vars.n"}}`, `{"from":"a","to":"b"}`), nil},
		"loop that may not run":        {doc(`{"id":"a","op":"LOOP","while":{"op":"never"},"max_iterations":3,"body":{"entry_node":"s","nodes":[{"id":"s","op":"SET","set":{"$vars.n":2}}]}},{"id":"b","op":"SET","set":{"$vars.m":"$vars.n"}}`, `{"from":"a","to":"b"}`), []string{"ref_unset /nodes/1/set/$vars.m"}},
		"loop members":                 {doc(`{"id":"a","op":"LOOP","until":{"op":"otherwise"},"while":{"op":"never"},"max_iterations":10001,"body":{"entry_node":"s","nodes":[{"id":"s","op":"SET"}]}}`, ``), []string{"loop_condition /nodes/0", "field_missing /nodes/0/body/nodes/0/set", "limit_invalid /nodes/0/max_iterations", "cond_misplaced /nodes/0/until"}},
		"set":                          {doc(`{"id":"a","op":"SET","set":{"$vars.x.y":1,"$vars.x":{},"$ctx.z":"$vars.none"},"outputs":{"result":"$vars.q"}}`, ``), []string{"field_not_allowed /nodes/0/outputs", "ref_unset /nodes/0/set/$ctx.z", "target_invalid /nodes/0/set/$ctx.z", "target_conflict /nodes/0/set/$vars.x.y"}},
		"wait":                         {doc(`{"id":"a","op":"WAIT","seconds":-1},{"id":"b","op":"WAIT","at":"tomorrow"},{"id":"c","op":"WAIT"}`, `{"from":"a","to":"b"},{"from":"b","to":"c"}`), []string{"limit_invalid /nodes/0/seconds", "wait_time /nodes/1/at", "wait_time /nodes/2"}},
		"ends":                         {doc(`{"id":"a","op":"FAIL","kind":"cancelled","when_skip":{"op":"never"}},{"id":"b","op":"END"}`, `{"from":"a","to":"b"}`), []string{"edge_unreachable /edges/0", "failure_kind_unknown /nodes/0/kind", "field_missing /nodes/0/message", "field_not_allowed /nodes/0/when_skip"}},
		"emit":                         {doc(`{"id":"a","op":"EMIT","event":{"kind":"k","msg":"m"}}`, ``), []string{"event_invalid /nodes/0/event/message", "event_invalid /nodes/0/event/msg"}},
		"a skipped node's output":      {doc(`{"id":"a","op":"PACK","inputs":{"v":1},"outputs":{"v":"$vars.v"},"when_skip":{"op":"never"}},{"id":"b","op":"SET","set":{"$vars.w":"$vars.v"}}`, `{"from":"a","to":"b"}`), []string{"ref_unset /nodes/1/set/$vars.w"}},
		"a subgraph that is not there": {doc(`{"id":"a","op":"SUBGRAPH","ref":"s"},{"id":"b","op":"SUBGRAPH","ref":"s@sha256:`+strings.Repeat("0", 64)+`"}`, `{"from":"a","to":"b"}`), []string{"subgraph_ref /nodes/0/ref", "subgraph_unknown /nodes/1/ref"}},
		"a subgraph of another digest": {doc(`{"id":"a","op":"SUBGRAPH","ref":"s@sha256:`+strings.Repeat("0", 64)+`"}`, ``, `"subgraphs":{"s":{"digest":"sha256:`+strings.Repeat("0", 64)+`","document":{"execir_version":"1.0","entry_node":"n","nodes":[{"id":"n","op":"PAK"}],"limits":{}}}}`), []string{"subgraph_digest /subgraphs/s/digest", "field_not_allowed /subgraphs/s/document/limits", "op_unknown /subgraphs/s/document/nodes/0/op"}},
		"a subgraph in itself":         {doc(`{"id":"a","op":"END"}`, ``, `"subgraphs":{"s":{"digest":"","document":{"execir_version":"1.0","entry_node":"n","nodes":[{"id":"n","op":"SUBGRAPH","ref":"s@sha256:`+strings.Repeat("0", 64)+`"}]}}}`), []string{"subgraph_digest /subgraphs/s/digest", "subgraph_digest /subgraphs/s/document/nodes/0/ref", "subgraph_recursive /subgraphs/s/document/nodes/0/ref"}},
		"compensate":                   {node(`"compensate":{"tool":"loook","args":{"a":"$item","b":"$out.x"}}`), []string{"ref_scope /nodes/0/compensate/args/a", "tool_unknown /nodes/0/compensate/tool"}},
		"unknown op":                   {doc(`{"id":"a","op":"TOOLCALL"}`, ``), []string{"op_unknown /nodes/0/op"}},
		"unknown answer schema":        {doc(`{"id":"a","op":"HUMAN","prompt":"?","answer_schema":"Nothing"}`, ``), []string{"schema_unknown /nodes/0/answer_schema"}},
		"other sprite":                 {node(`"sprite":"other"`), []string{"sprite_invalid /nodes/0/sprite"}},
		"member of other op":           {node(`"cases":[]`), []string{"field_not_allowed /nodes/0/cases"}},
		"input schema of a text":       {doc(look, ``, `"input_schema":{"type":"string"}`), []string{"schema_no_object /input_schema"}},
		"input schema unknown":         {doc(look, ``, `"input_schema":"Nope"`), []string{"schema_unknown /input_schema"}},
		"input schema no schema":       {doc(look, ``, `"input_schema":[3]`), []string{"type_mismatch /input_schema"}},
		"limits":                       {doc(look, ``, `"limits":{"max_steps":-1,"timeout_s":1e12}`), []string{"limit_invalid /limits/max_steps", "limit_invalid /limits/timeout_s"}},
		"node timeout":                 {node(`"timeout_s":-1`), []string{"limit_invalid /nodes/0/timeout_s"}},
		"unreachable":                  {doc(look+`,`+packC, ``), []string{"node_unreachable /nodes/1"}},
		"reached by catch":             {doc(look2(`"catch":[{"on":["ALL"],"to":"c"}]`)+`,`+packC, ``), nil},
		"dangling edge":                {doc(look, `{"from":"a","to":"nowhere"}`), []string{"node_unknown /edges/0/to"}},
		"dangling catch":               {node(`"catch":[{"on":["timeout"],"to":"z"}]`), []string{"node_unknown /nodes/0/catch/0/to"}},
		"cycle":                        {doc(look+`,`+packB, aToB+`,{"from":"b","to":"a"}`), []string{"cycle_unbounded /edges/1"}},
		"bounded cycle":                {doc(look+`,`+packB+`,`+packC, aToB+`,{"from":"b","to":"a","max_traversals":2,"when":{"op":"eq","left":1,"right":1}},{"from":"b","to":"c"}`), nil},
		"bad bound":                    {doc(look+`,`+packB, `{"from":"a","to":"b","max_traversals":-1}`), []string{"limit_invalid /edges/0/max_traversals"}},
		"catch cycle":                  {node(`"catch":[{"on":["ALL"],"to":"a"}]`), []string{"cycle_unbounded /nodes/0/catch/0/to"}},
		"two unconditional":            {doc(look+`,`+packB+`,`+packC, aToB+`,{"from":"a","to":"c"}`), []string{"edges_ambiguous /edges/1"}},
		"edge behind always":           {doc(look+`,`+packB+`,`+packC, aToB+`,{"from":"a","to":"c","when":{"op":"never"}}`), []string{"edge_unreachable /edges/1"}},
		"priority decides":             {doc(look+`,`+packB+`,`+packC, aToB+`,{"from":"a","to":"c","priority":1,"when":{"op":"never"}}`), nil},
		"otherwise twice":              {doc(look+`,`+packB+`,`+packC, `{"from":"a","to":"b","when":{"op":"otherwise"}},{"from":"a","to":"c","when":{"op":"otherwise"}}`), []string{"otherwise_misplaced /edges/1/when"}},
		"case without switch":          {doc(look+`,`+packB, `{"from":"a","to":"b","when":{"op":"case","is":"x"}}`), []string{"cond_misplaced /edges/0/when"}},
		"switch":                       {switched(`{"from":"a","to":"b","when":{"op":"case","is":"green"}},{"from":"a","to":"c","when":{"op":"otherwise"}}`), nil},
		"switch case missing":          {switched(`{"from":"a","to":"b","when":{"op":"case","is":"green"}},{"from":"b","to":"c"}`), []string{"case_edge_missing /nodes/0/cases"}},
		"switch case unknown":          {switched(`{"from":"a","to":"b","when":{"op":"case","is":"green"}},{"from":"a","to":"c","when":{"op":"case","is":"rad"}},{"from":"a","to":"c","when":{"op":"case","is":"red"}}`), []string{"case_unknown /edges/1/when/is"}},
		"switch case twice":            {switched(`{"from":"a","to":"b","when":{"op":"case","is":"green"}},{"from":"a","to":"c","when":{"op":"case","is":"green"}},{"from":"a","to":"c","when":{"op":"case","is":"red"}}`), []string{"case_edge_duplicate /edges/1"}},
		"switch plain edge":            {switched(`{"from":"a","to":"b","when":{"op":"case","is":"green"}},{"from":"a","to":"c","when":{"op":"case","is":"red"}},{"from":"a","to":"c"}`), []string{"cond_misplaced /edges/2/when"}},
		"switch no default":            {doc(`{"id":"a","op":"SWITCH","cases":[{"name":"g","when":{"op":"always"}}]},`+packC, `{"from":"a","to":"c","when":{"op":"case","is":"g"}},{"from":"a","to":"c","when":{"op":"otherwise"}}`), []string{"switch_default_missing /edges/1/when"}},
		"switch cases":                 {doc(`{"id":"a","op":"SWITCH","cases":[{"name":"g","when":{"op":"always"}},{"name":"g","when":{"op":"otherwise"}}]},`+packC, `{"from":"a","to":"c","when":{"op":"case","is":"g"}}`), []string{"case_duplicate /nodes/0/cases/1/name", "cond_misplaced /nodes/0/cases/1/when"}},
		"kinds":                        {node(`"retry":[{"on":["ALL"]},{"on":["tool_eror"]},{"on":["ALL","timeout"]},{"on":[]}]`), []string{"all_misplaced /nodes/0/retry/0/on/0", "failure_kind_unknown /nodes/0/retry/1/on/0", "all_misplaced /nodes/0/retry/2/on/0", "field_missing /nodes/0/retry/3/on"}},
		"retry numbers":                {node(`"retry":[{"on":["timeout"],"max_attempts":101},{"on":["timeout"],"backoff_rate":0.5},{"on":["timeout"],"jitter":"some"}]`), []string{"limit_invalid /nodes/0/retry/0/max_attempts", "limit_invalid /nodes/0/retry/1/backoff_rate", "jitter_invalid /nodes/0/retry/2/jitter"}},
		"bind":                         {doc(look2(`"catch":[{"on":["ALL"],"to":"c","bind":"$ctx.e"}]`)+`,`+packC, ``), []string{"target_invalid /nodes/0/catch/0/bind"}},
		"targets":                      {node(`"outputs":{"result":"$in.x","text":"$vars","size":"$vars.a[0]"}`), []string{"target_invalid /nodes/0/outputs/result", "target_invalid /nodes/0/outputs/size", "target_invalid /nodes/0/outputs/text"}},
		"ports":                        {node(`"outputs":{"txt":"$vars.x"}`), []string{"port_unknown /nodes/0/outputs/txt"}},
		"overlapping targets":          {node(`"outputs":{"result":"$vars.x","text":"$vars.x.t"}`), []string{"target_conflict /nodes/0/outputs/result"}},
		"tool unknown":                 {doc(`{"id":"a","op":"TOOL_CALL","tool":"test.runn"}`, ``), []string{"tool_unknown /nodes/0/tool"}},
		"tool missing":                 {doc(`{"id":"a","op":"TOOL_CALL"}`, ``), []string{"field_missing /nodes/0/tool"}},
		"tool not listed":              {doc(look, ``, `"tools":["any","any","none"]`), []string{"tool_not_allowed /nodes/0/tool", "tool_duplicate /tools/1", "tool_unknown /tools/2"}},
		"args":                         {args(`{"pat":"x","depth":"3","tags":["a",1]}`), []string{"arg_type /nodes/0/args/depth", "arg_unknown /nodes/0/args/pat", "arg_missing /nodes/0/args/path", "arg_type /nodes/0/args/tags/1"}},
		"args by reference":            {args(`"$in.args"`), nil},
		"arg by reference":             {args(`{"path":"$in.path","depth":{"ref":"$in.d","default":"zero"}}`), nil},
		"literal args":                 {args(`{"lit":{"path":"$in.path"}}`), nil},
		"null is absent":               {args(`{"path":null,"depth":null}`), []string{"arg_missing /nodes/0/args/path"}},
		"args list":                    {args(`[]`), []string{"arg_type /nodes/0/args"}},
		"weaker class":                 {doc(`{"id":"a","op":"TOOL_CALL","tool":"put","side_effect":"read"}`, ``), []string{"class_weakened /nodes/0/side_effect"}},
		"stricter class":               {node(`"side_effect":"world"`), nil},
		"unknown class":                {node(`"side_effect":"write"`), []string{"class_invalid /nodes/0/side_effect"}},
		"bad references":               {args(`{"path":"$HOME","depth":"$vars.x y","tags":["$$ok","$5","$out.x"]}`), []string{"ref_invalid /nodes/0/args/depth", "ref_invalid /nodes/0/args/path", "ref_scope /nodes/0/args/tags/2"}},
		"item out of place":            {args(`{"path":"$item.x"}`), []string{"ref_scope /nodes/0/args/path"}},
		"bad operators":                {args(`{"path":{"concat":"x"},"depth":{"ref":"$in.d","pick":"a","pik":1,"truncate_items":-1}}`), []string{"expr_invalid /nodes/0/args/depth/pick", "expr_invalid /nodes/0/args/depth/pik", "expr_invalid /nodes/0/args/depth/truncate_items", "expr_invalid /nodes/0/args/path/concat"}},
		"pack empty":                   {doc(`{"id":"a","op":"PACK"}`, ``), []string{"field_missing /nodes/0/inputs"}},
		"pack projection":              {doc(`{"id":"a","op":"PACK","inputs":{"x":{"ref":"$in.x","pick":["a"]}},"projection":{"x":["a"],"y":[]}}`, ``), []string{"projection_twice /nodes/0/projection/x", "port_unknown /nodes/0/projection/y"}},
		"human":                        {human(`"prompt":"go?"`), nil},
		"human empty":                  {human(`"on_timeout":"default"`), []string{"field_missing /nodes/0/default_answer", "field_missing /nodes/0/prompt", "field_missing /nodes/0/timeout_s"}},
		"human inputs":                 {human(`"prompt":"?","expected_inputs":{"n":"number","l":"array<array<string>>","1":"map","open":"array<map","shut":"string>"},"choices":["a","a"],"on_timeout":"wait"`), []string{"choice_invalid /nodes/0/choices/1", "id_invalid /nodes/0/expected_inputs/1", "expected_type_invalid /nodes/0/expected_inputs/n", "expected_type_invalid /nodes/0/expected_inputs/open", "expected_type_invalid /nodes/0/expected_inputs/shut", "on_timeout_invalid /nodes/0/on_timeout"}},
		"never written":                {doc(packB2(`"$vars.nope"`), ``), []string{"ref_unset /nodes/0/inputs/x"}},
		"default saves":                {doc(packB2(`{"ref":"$vars.nope","default":0}`), ``), nil},
		"member unknown":               {doc(look+`,{"id":"b","op":"PACK","inputs":{"x":"$vars.got.txt"}}`, aToB), []string{"member_unknown /nodes/1/inputs/x"}},
		"not behind catch":             {doc(look2(`"outputs":{"result":"$vars.got"},"catch":[{"on":["ALL"],"to":"b","bind":"$tmp.err"}]`)+`,`+packB, ``), []string{"ref_unset /nodes/1/inputs/x"}},
		"err behind catch":             {doc(look2(`"catch":[{"on":["ALL"],"to":"b","bind":"$tmp.e.x"}]`)+`,{"id":"b","op":"PACK","inputs":{"x":"$err.kind","y":"$tmp.e.x.kind"}}`, ``), nil},
		"err elsewhere":                {doc(packB2(`"$err.kind"`), ``), []string{"err_unset /nodes/0/inputs/x"}},
		"one path of two":              {doc(greenSwitch+`,{"id":"b","op":"PACK","inputs":{"x":1},"outputs":{"x":"$vars.x"}},{"id":"c","op":"PACK","inputs":{"x":"$vars.x"}}`, `{"from":"a","to":"b","when":{"op":"case","is":"green"}},{"from":"a","to":"c","when":{"op":"otherwise"}},{"from":"b","to":"c"}`), []string{"ref_unset /nodes/2/inputs/x"}},
		"output of ends":               {doc(greenSwitch+`,{"id":"b","op":"PACK","inputs":{"x":1},"outputs":{"x":"$vars.x"}},`+packC, `{"from":"a","to":"b","when":{"op":"case","is":"green"}},{"from":"a","to":"c","when":{"op":"otherwise"}}`, `"output":{"x":"$vars.x"}`), []string{"ref_unset /output/x"}},
		"guarded":                      {when(`{"op":"and","args":[{"op":"exists","ref":"$tmp.x"},{"op":"eq","left":"$tmp.x","right":1}]}`), nil},
		"unguarded":                    {when(`{"op":"or","args":[{"op":"exists","ref":"$tmp.x"},{"op":"eq","left":"$tmp.x","right":1}]}`), []string{"ref_unset /edges/0/when/args/1/left"}},
		"cond op":                      {when(`{"op":"equals"}`), []string{"cond_op_unknown /edges/0/when/op"}},
		"cond members":                 {when(`{"op":"eq","left":1,"rigth":2}`), []string{"field_missing /edges/0/when/right", "field_unknown /edges/0/when/rigth"}},
		"cond args":                    {when(`{"op":"not","args":[]}`), []string{"cond_invalid /edges/0/when/args"}},
		"cond type":                    {when(`{"op":"type_is","ref":"$in.x","type":"text"}`), []string{"cond_invalid /edges/0/when/type"}},
		"cond pattern":                 {when(`{"op":"matches","left":"$in.x","pattern":"(?=x)"}`), []string{"pattern_invalid /edges/0/when/pattern"}},
		"cond long pattern":            {when(`{"op":"matches","left":"$in.x","pattern":"` + strings.Repeat("x", 257) + `"}`), []string{"pattern_invalid /edges/0/when/pattern"}},
		"cond deep":                    {when(notNot), []string{"cond_too_deep /edges/0/when" + strings.Repeat("/args/0", 16)}},
		"cond large":                   {when(`{"op":"and","args":[` + strings.TrimSuffix(strings.Repeat(`{"op":"always"},`, 256), ",") + `]}`), []string{"cond_too_large /edges/0/when"}},
		"merge":                        {merge(`"strategy":"by_key","key":"id","from":["$in.a",[{"id":1}]],"on_conflict":"error"`), nil},
		"merge empty":                  {merge(`"from":[]`), []string{"field_missing /nodes/0/from", "field_missing /nodes/0/strategy"}},
		"merge strategy":               {merge(`"strategy":"shalow","from":["$in.a"],"on_conflict":"both"`), []string{"on_conflict_invalid /nodes/0/on_conflict", "strategy_invalid /nodes/0/strategy"}},
		"merge key":                    {merge(`"strategy":"by_key","from":["$in.a"]`), []string{"field_missing /nodes/0/key"}},
		"merge keys":                   {merge(`"strategy":"by_key","key":"id","from":[[{"id":1},{"ID":2}]]`), []string{"merge_key /nodes/0/from/0/1"}},
		"merge foreign":                {merge(`"strategy":"concat","key":"id","on_conflict":"last","from":["$in.a"],"inputs":{}`), []string{"field_not_allowed /nodes/0/inputs", "field_not_allowed /nodes/0/key", "field_not_allowed /nodes/0/on_conflict"}},
		"merge types":                  {merge(`"strategy":"deep","from":["$in.a",[],{"len":"$in.a"},{"lit":"x"},{}]`), []string{"merge_type /nodes/0/from/1", "merge_type /nodes/0/from/2", "merge_type /nodes/0/from/3"}},
		"merge type of port":           {doc(look+`,{"id":"b","op":"MERGE","strategy":"shallow","from":["$vars.got","$vars.got.size"]}`, aToB), []string{"merge_type /nodes/1/from/1"}},
		"merge patch":                  {merge(`"strategy":"merge_patch","from":[1,null,[]]`), nil},
		"merge reads":                  {merge(`"strategy":"concat","from":["$vars.nope"]`), []string{"ref_unset /nodes/0/from/0"}},
		"map":                          {over(`"concurrency":2,"on_error":"collect","tolerated_failures":1,"as":"$item","result":"$tmp.t"`, inBody(`,"outputs":{"text":"$tmp.t"}`)), nil},
		"map empty":                    {doc(`{"id":"a","op":"MAP"}`, ``), []string{"field_missing /nodes/0/body", "field_missing /nodes/0/items", "field_missing /nodes/0/max_items"}},
		"map members":                  {over(`"max_items":10001,"concurrency":5,"on_error":"stop","tolerated_failures":1,"as":"$file","tool":"look","retry":[{"on":["ALL"]}]`, inBody(``)), []string{"as_invalid /nodes/0/as", "limit_invalid /nodes/0/concurrency", "limit_invalid /nodes/0/max_items", "on_error_invalid /nodes/0/on_error", "field_not_allowed /nodes/0/tool"}},
		"map tolerance":                {over(`"tolerated_failures":0`, inBody(``)), []string{"field_not_allowed /nodes/0/tolerated_failures"}},
		"map concurrency":              {doc(`{"id":"a","op":"MAP","items":[],"max_items":1,"concurrency":8,"body":`+inBody(``)+`}`, ``, `"limits":{"max_parallel":8}`), nil},
		"map items":                    {doc(`{"id":"a","op":"MAP","items":{"x":1},"max_items":1,"body":`+inBody(``)+`}`, ``), []string{"items_type /nodes/0/items"}},
		"map items of port":            {doc(look+`,{"id":"b","op":"MAP","items":"$vars.got.text","max_items":1,"body":{"entry_node":"x","nodes":[{"id":"x","op":"PACK","inputs":{"x":1}}]}}`, aToB), []string{"items_type /nodes/1/items"}},
		"map of writes":                {over(`"concurrency":2`, `{"entry_node":"b","nodes":[{"id":"b","op":"TOOL_CALL","tool":"put"}]}`), []string{"map_serial /nodes/0/concurrency"}},
		"map of writes in copies":      {over(`"concurrency":2,"sprite":"fork"`, `{"entry_node":"b","nodes":[{"id":"b","op":"TOOL_CALL","tool":"put"}]}`), nil},
		"map in another sprite":        {over(`"sprite":"other"`, inBody(``)), []string{"sprite_invalid /nodes/0/sprite"}},
		"copies of copies":             {over(`"sprite":"fork"`, `{"entry_node":"b","nodes":[{"id":"b","op":"MAP","items":[],"max_items":1,"sprite":"fork","body":{"entry_node":"c","nodes":[{"id":"c","op":"TOOL_CALL","tool":"put"}]}}]}`), []string{"fork_nested /nodes/0/sprite"}},
		"merge best of nothing":        {merge(`"strategy":"best","from":["$in.a"]`), []string{"field_missing /nodes/0/by"}},
		"merge by without best":        {merge(`"strategy":"concat","from":["$in.a"],"by":["x"]`), []string{"field_not_allowed /nodes/0/by"}},
		"map of questions":             {over(`"concurrency":2`, `{"entry_node":"b","nodes":[{"id":"b","op":"HUMAN","prompt":"?"}]}`), []string{"map_serial /nodes/0/concurrency"}},
		"map of nothing known":         {over(`"concurrency":2`, `{"entry_node":"b","nodes":[{"id":"b","op":"TOOL_CALL","tool":"nope"}]}`), []string{"tool_unknown /nodes/0/body/nodes/0/tool"}},
		"map of strict reads":          {over(`"concurrency":2`, inBody(`,"side_effect":"sprite"`)), []string{"map_serial /nodes/0/concurrency"}},
		"map of writes, one":           {over(`"concurrency":1`, `{"entry_node":"b","nodes":[{"id":"b","op":"TOOL_CALL","tool":"put"}]}`), nil},
		"map in map":                   {over(`"concurrency":2`, `{"entry_node":"b","nodes":[{"id":"b","op":"MAP","items":"$item","max_items":1,"body":{"entry_node":"c","nodes":[{"id":"c","op":"TOOL_CALL","tool":"put"}]}}]}`), []string{"map_serial /nodes/0/concurrency"}},
		"body members":                 {over(``, `{"entry_node":"b","nodes":[{"id":"b","op":"PACK","inputs":{"x":1},"colour":1},{"id":"b","op":"PACK","inputs":{"x":1}}],"edge":[]}`), []string{"field_unknown /nodes/0/body/edge", "field_unknown /nodes/0/body/nodes/0/colour", "id_duplicate /nodes/0/body/nodes/1/id"}},
		"body empty":                   {over(``, `{}`), []string{"field_missing /nodes/0/body/nodes"}},
		"body is no graph":             {over(``, `[]`), []string{"type_mismatch /nodes/0/body"}},
		"body entry":                   {over(``, `{"entry_node":"a","nodes":[{"id":"b","op":"PACK","inputs":{"x":1}}]}`), []string{"node_elsewhere /nodes/0/body/entry_node"}},
		"edge into body":               {doc(`{"id":"a","op":"MAP","items":[],"max_items":1,"body":`+inBody(``)+`}`, `{"from":"a","to":"b"}`), []string{"node_elsewhere /edges/0/to"}},
		"catch out of body":            {doc(`{"id":"a","op":"MAP","items":[],"max_items":1,"body":`+inBody(`,"catch":[{"on":["ALL"],"to":"c"}]`)+`},`+packC, `{"from":"a","to":"c"}`), []string{"node_elsewhere /nodes/0/body/nodes/0/catch/0/to"}},
		"cycle in body":                {over(``, `{"entry_node":"b","nodes":[{"id":"b","op":"PACK","inputs":{"x":1}}],"edges":[{"from":"b","to":"b"}]}`), []string{"cycle_unbounded /nodes/0/body/edges/0"}},
		"unreachable in body":          {over(``, `{"entry_node":"b","nodes":[{"id":"b","op":"PACK","inputs":{"x":1}},{"id":"c","op":"PACK","inputs":{"x":1}}]}`), []string{"node_unreachable /nodes/0/body/nodes/1"}},
		"vars in body":                 {over(``, inBody(`,"outputs":{"text":"$vars.t"},"catch":[{"on":["ALL"],"to":"e","bind":"$vars.e"}]`, `{"id":"e","op":"PACK","inputs":{"x":1}}`)), []string{"vars_in_body /nodes/0/body/nodes/0/catch/0/bind", "vars_in_body /nodes/0/body/nodes/0/outputs/text"}},
		"body reads":                   {doc(`{"id":"a","op":"PACK","inputs":{"x":1},"outputs":{"x":"$vars.x","result":"$tmp.y"}},{"id":"m","op":"MAP","items":"$in.l","max_items":1,"outputs":{"result":"$vars.r","failures":"$vars.f","count":"$vars.c"},"result":["$vars.x","$tmp.y","$tmp.later"],"body":{"entry_node":"b","nodes":[{"id":"b","op":"PACK","inputs":{"v":"$vars.x","t":"$tmp.y","r":"$vars.r","e":"$err.kind"}}]}}`, `{"from":"a","to":"m"}`), []string{"err_unset /nodes/1/body/nodes/0/inputs/e", "ref_unset /nodes/1/body/nodes/0/inputs/r", "ref_unset /nodes/1/body/nodes/0/inputs/t", "port_unknown /nodes/1/outputs/count", "ref_unset /nodes/1/result/1", "ref_unset /nodes/1/result/2"}},
		"body conditions":              {over(``, `{"entry_node":"b","nodes":[{"id":"b","op":"PACK","inputs":{"x":"$item"}},{"id":"c","op":"PACK","inputs":{"x":"$index"}}],"edges":[{"from":"b","to":"c","when":{"op":"gt","left":"$item.n","right":"$index"}},{"from":"b","to":"c","when":{"op":"otherwise"}}]}`), nil},
		"item behind the map":          {doc(`{"id":"a","op":"MAP","items":[],"max_items":1,"body":`+inBody(``)+`},`+packC, `{"from":"a","to":"c","when":{"op":"eq","left":"$item","right":1}},{"from":"a","to":"c","when":{"op":"otherwise"}}`), []string{"ref_scope /edges/0/when/left"}},
		"key of all items":             {over(``, `{"entry_node":"b","nodes":[{"id":"b","op":"TOOL_CALL","tool":"put","idempotency_key":"$in.order"},{"id":"c","op":"TOOL_CALL","tool":"put","idempotency_key":{"concat":["$in.order","$index"]}}],"edges":[{"from":"b","to":"c"}]}`), []string{"key_shared /nodes/0/body/nodes/0/idempotency_key"}},
		"cond item":                    {when(`{"op":"any","items":"$in.l","where":{"op":"eq","left":"$item.x","right":"$index"}}`), nil},
	} {
		t.Run(name, func(t *testing.T) {
			p, findings := check.Parse([]byte(c.doc), tools)
			var got []string
			for _, f := range findings {
				got = append(got, f.Code+" "+f.Pointer)
				if f.Message == "" || f.Severity == "" || f.Hint == "" {
					t.Errorf("finding without message, severity or hint: %+v", f)
				}
				if in := strings.Contains(f.Pointer, "nodes/") || strings.Contains(f.Pointer, "edges/"); in != (f.Node != "") && name != "no id" {
					t.Errorf("finding at %s names the node %q", f.Pointer, f.Node)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("findings (-want +got):\n%s\n%+v", diff, findings)
			}
			if (p == nil) != finding.HasErrors(findings) {
				t.Errorf("program %v with findings %v", p != nil, findings)
			}
			if _, again := check.Parse([]byte(c.doc), tools); !cmp.Equal(findings, again) {
				t.Error("a second Parse finds something else")
			}
		})
	}
}

const packC2 = `{"id":"a","op":"PACK","inputs":{"x":1}}`

func packB2(expression string) string {
	return `{"id":"a","op":"PACK","inputs":{"x":` + expression + `}}`
}

func look2(more string) string {
	return `{"id":"a","op":"TOOL_CALL","tool":"look","args":{"path":"x"},` + more + `}`
}

func TestHints(t *testing.T) {
	for name, c := range map[string]struct{ doc, hint string }{
		"tool":     {doc(`{"id":"a","op":"TOOL_CALL","tool":"test.runn"}`, ``), `did you mean "test.run"?`},
		"op":       {doc(`{"id":"a","op":"TOOLCALL"}`, ``), `did you mean "TOOL_CALL"?`},
		"node":     {doc(look, `{"from":"a","to":"A"}`), `did you mean "a"?`},
		"version":  {`{"execir_version":"1.7"}`, "run it with a lattice of that version"},
		"cond op":  {when(`{"op":"sometimes"}`), "known: " + strings.Join(expr.CondOps(), ", ")},
		"kind":     {node(`"retry":[{"on":["oops"]}]`), "known: " + strings.Join(expr.FailureKinds(), ", ")},
		"type":     {human(`"prompt":"?","expected_inputs":{"n":"number"}`), "known: string, integer, boolean, map, array<T>; the protocol has no fractions: ask for a string"},
		"end":      {`{"execir_version":`, "the document is truncated: close all brackets and quotes"},
		"more":     {`{} {}`, "a document is one object; remove what follows it"},
		"comment":  {`{ // x`, `strings need "double quotes", commas go between members only, and comments are not allowed`},
		"too deep": {strings.Repeat(`[`, 70) + strings.Repeat(`]`, 70), "flatten it, or pass the deep part as input"},
	} {
		_, findings := check.Parse([]byte(c.doc), tools)
		if len(findings) != 1 || findings[0].Hint != c.hint {
			t.Errorf("%s: findings = %+v, want one with hint %q", name, findings, c.hint)
		}
	}
}

func TestDigestIsCanonical(t *testing.T) {
	a, _ := check.Parse([]byte(`{"execir_version":"1.0","entry_node":"a","nodes":[{"id":"a","op":"PACK","inputs":{"x":1}}]}`), tools)
	b, _ := check.Parse([]byte("{ \"nodes\" : [{\"inputs\":{\"x\":1.0},\"op\":\"PACK\",\"id\":\"a\"}],\n\"entry_node\":\"\\u0061\",\"execir_version\":\"1.0\"}"), tools)
	if a == nil || b == nil || a.Digest != b.Digest || !strings.HasPrefix(a.Digest, "sha256:") {
		t.Errorf("two spellings of one document: %+v and %+v", a, b)
	}
}

func TestClassAndPreflight(t *testing.T) {
	parse := func(mode string) *ir.Program {
		p, findings := check.Parse([]byte(doc(`{"id":"a","op":"TOOL_CALL","tool":"put","args":{"mode":`+mode+`}}`, ``)), tools)
		if p == nil {
			t.Fatalf("mode %s: %+v", mode, findings)
		}
		return p
	}
	for mode, want := range map[string][]string{
		`null`: nil, `"request"`: nil, `"direct"`: {"error"}, `"$in.mode"`: {"warning"},
	} {
		var got []string
		for _, f := range parse(mode).Preflight(ir.DefaultGrants()) {
			got = append(got, f.Severity)
			if !strings.Contains(f.Hint, "--allow git:push") {
				t.Errorf("mode %s: hint %q does not name git:push", mode, f.Hint)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("mode %s: Preflight (-want +got):\n%s", mode, diff)
		}
		if f := parse(mode).Preflight([]string{"*"}); len(f) > 0 {
			t.Errorf("mode %s: * grants all, yet %+v", mode, f)
		}
	}
	p := parse(`"$in.mode"`)
	for args, want := range map[string]manifests.Class{`{}`: manifests.ClassSprite, `{"mode":"direct"}`: manifests.ClassWorld} {
		if got, _ := p.Class(p.Node("a"), json.RawMessage(args)); got != want {
			t.Errorf("Class(%s) = %s, want %s", args, got, want)
		}
	}
}

// What calls in a body need is asked for before the run, like all else, and a flow whose only calls are there needs a
// sprite.
func TestProgramKnowsBodies(t *testing.T) {
	p, findings := check.Parse([]byte(over(`"concurrency":3`, `{"entry_node":"b","nodes":[{"id":"b","op":"TOOL_CALL","tool":"put","args":{"mode":"direct"}}]}`)), tools)
	if p == nil {
		t.Fatal(findings)
	}
	var got []string
	for _, f := range p.Preflight(ir.DefaultGrants()) {
		got = append(got, f.Code+" "+f.Pointer)
	}
	if diff := cmp.Diff([]string{"permission_missing /nodes/0/body/nodes/0/tool"}, got); diff != "" {
		t.Errorf("Preflight (-want +got):\n%s", diff)
	}
	if !p.CallsSkills() || p.Node("b") == nil || p.Width(p.Node("a")) != 1 || p.MaxParallel() != ir.DefaultMaxParallel {
		t.Errorf("calls %v, node %v, width %d, max_parallel %d", p.CallsSkills(), p.Node("b"), p.Width(p.Node("a")), p.MaxParallel())
	}
	if p, _ := check.Parse([]byte(over(`"concurrency":3`, inBody(``))), tools); p == nil || p.Width(p.Node("a")) != 3 {
		t.Errorf("a body that reads does not run at once")
	}
}

// FuzzParse: no document makes Parse panic, and what it accepts it accepts again with the same digest.
func FuzzParse(f *testing.F) {
	seeds, err := filepath.Glob("../../manifests/flows/*.json")
	if err != nil || len(seeds) == 0 {
		f.Fatalf("no seeds: %v", err)
	}
	for _, name := range seeds {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte(switched(`{"from":"a","to":"b","when":{"op":"case","is":"green"}},{"from":"a","to":"c","when":{"op":"otherwise"}}`)))
	f.Add([]byte(human(`"prompt":"?","choices":["a","b"],"timeout_s":1`)))
	f.Add([]byte(node(`"retry":[{"on":["ALL"],"jitter":"full"}],"catch":[{"on":["ALL"],"to":"a","bind":"$tmp.e"}]`)))
	f.Add([]byte(over(`"concurrency":2,"on_error":"collect","tolerated_failures":1,"result":"$tmp.x"`, `{"entry_node":"b","nodes":[{"id":"b","op":"MAP","items":"$item","max_items":1,"body":{"entry_node":"c","nodes":[{"id":"c","op":"MERGE","strategy":"by_key","key":"id","from":["$item"]}]},"outputs":{"result":"$tmp.x"}}]}`)))
	f.Fuzz(func(t *testing.T, data []byte) {
		p, _ := check.Parse(data, manifests.Lookup)
		if p == nil {
			return
		}
		p.Preflight(nil)
		p.MissingInputs(map[string]any{"x": nil, "l": []any{json.Number("1")}})
		again, _ := check.Parse(bytes.Clone(data), manifests.Lookup)
		if again == nil || again.Digest != p.Digest {
			t.Fatalf("a second Parse gives %+v", again)
		}
	})
}

// A document built to be slow is refused or done in moments: nothing in Parse grows with the square of its size.
func TestParseBounds(t *testing.T) {
	var outputs []string
	for i := range 20_000 {
		outputs = append(outputs, fmt.Sprintf(`"p%d":"$vars.v%d"`, i, i))
	}
	_, findings := check.Parse([]byte(doc(look2(`"outputs":{`+strings.Join(outputs, ",")+`}`), ``)), tools)
	if len(findings) == 0 || findings[0].Code != "document_too_large" {
		t.Errorf("20000 outputs: %d findings, want document_too_large", len(findings))
	}
	nodes := []string{look}
	for i := range 1000 {
		nodes = append(nodes, fmt.Sprintf(`{"id":"n%d","op":"PACK","inputs":{"x":1}}`, i))
	}
	_, findings = check.Parse([]byte(doc(strings.Join(nodes, ","), ``)), tools)
	if len(findings) != 1 || findings[0].Code != "document_too_large" {
		t.Errorf("1001 nodes: %d findings, want document_too_large", len(findings))
	}
}
