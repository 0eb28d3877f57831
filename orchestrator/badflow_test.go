package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/compile"
	"github.com/spritekit/lattice/orchestrator/program"
	"github.com/spritekit/lattice/orchestrator/setup"
)

// badDocument is what people get wrong in a document that they write: they are told a code, the place, and what to do (part of
// the hint), and the command ends with the exit code of the code. Where the place says all, the hint is empty.
type badDocument struct{ what, command, document, code, pointer, hint string }

// badDocuments is a function, since the test binary runs as lattice too, which needs none of them.
func badDocuments() []badDocument {
	return []badDocument{
		// Any document.
		{"not JSON", "flow", `{"execir_version":`, "json_invalid", "", ""},
		{"not UTF-8", "flow", "{\"execir_version\":\"1.0\",\"id\":\"\xff\"}", "json_invalid", "", "UTF-8"},
		{"no object", "flow", `["1.0"]`, "type_mismatch", "", ""},
		{"too large", "flow", `{"execir_version":"1.0","meta":"` + strings.Repeat("x", 1<<20) + `"}`, "document_too_large", "", "as a file"},
		{"too deep", "flow", `{"execir_version":"1.0","meta":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, "document_too_deep", "", ""},
		{"no version", "flow", `{"nodes":[]}`, "version_missing", "", `"planir_version": "1.0" or "execir_version": "1.0"`},
		{"two versions", "flow", `{"workflow_version":"1.0","execir_version":"1.0"}`, "version_ambiguous", "", "keep the one"},
		{"a plan without a goal", "flow", `{"planir_version":"1.0"}`, "field_missing", "/goal", ""},

		// ExecIR.
		{"newer ExecIR", "flow", `{"execir_version":"1.9"}`, "version_unsupported", "/execir_version", "lattice of that version"},
		{"odd version", "flow", `{"execir_version":1.0}`, "version_invalid", "/execir_version", `"execir_version": "1.0"`},
		{"same key twice", "flow", execIR(`{"id":"a","op":"PACK","op":"PACK","inputs":{"x":1}}`), "key_duplicate", "/nodes/0/op", "remove one"},
		{"unknown member", "flow", execIR(`{"id":"a","op":"PACK","input":{"x":1},"inputs":{"x":1}}`), "field_unknown", "/nodes/0/input", `did you mean "inputs"?`},
		{"member of another op", "flow", execIR(`{"id":"a","op":"PACK","tool":"fs.read","inputs":{"x":1}}`), "field_not_allowed", "/nodes/0/tool", ""},
		{"wrong type", "flow", execIR(`{"id":"a","op":"PACK","inputs":[1]}`), "type_mismatch", "/nodes/0/inputs", ""},
		{"unknown op", "flow", execIR(`{"id":"a","op":"TOOLCALL"}`), "op_unknown", "/nodes/0/op", `did you mean "TOOL_CALL"?`},
		{"question without a model", "flow", execIR(`{"id":"a","op":"LLM_WRITE"}`), "field_missing", "/nodes/0/model_class", ""},
		{"no op", "flow", execIR(`{"id":"a"}`), "field_missing", "/nodes/0/op", "known: "},
		{"no id", "flow", execIR(`{"id":"","op":"PACK","inputs":{"x":1}}`), "field_missing", "/nodes/0/id", ""},
		{"odd id", "flow", execIR(`{"id":"a","op":"PACK","inputs":{"x":1}},{"id":"b c","op":"PACK","inputs":{"x":1}}`), "id_invalid", "/nodes/1/id", "letters, digits"},
		{"unknown entry", "flow", `{"execir_version":"1.0","entry_node":"b","nodes":[{"id":"a","op":"PACK","inputs":{"x":1}}]}`, "node_unknown", "/entry_node", `did you mean "a"?`},
		{"unknown skill", "flow", execIR(`{"id":"a","op":"TOOL_CALL","tool":"git.clon"}`), "tool_unknown", "/nodes/0/tool", `did you mean "git.clone"?`},
		{"skill not on the list", "flow", execIR(`{"id":"a","op":"TOOL_CALL","tool":"git.status"}`, `"tools":["fs.read"]`), "tool_not_allowed", "/nodes/0/tool", "add it to tools"},
		{"unknown argument", "flow", execIR(`{"id":"a","op":"TOOL_CALL","tool":"git.status","args":{"rep":"."}}`), "arg_unknown", "/nodes/0/args/rep", `did you mean "repo"?`},
		{"missing argument", "flow", execIR(`{"id":"a","op":"TOOL_CALL","tool":"fs.read"}`), "arg_missing", "/nodes/0/args/path", ""},
		{"argument of another type", "flow", execIR(`{"id":"a","op":"TOOL_CALL","tool":"fs.read","args":{"path":1}}`), "arg_type", "/nodes/0/args/path", ""},
		{"odd reference", "flow", execIR(`{"id":"a","op":"PACK","inputs":{"x":"$var.y"}}`), "ref_invalid", "/nodes/0/inputs/x", `"$$x" is the text "$x"`},
		{"reference to nothing", "flow", execIR(`{"id":"a","op":"PACK","inputs":{"x":"$vars.y"}}`), "ref_unset", "/nodes/0/inputs/x", `"default"`},
		{"unknown condition", "flow", execIR(`{"id":"a","op":"SWITCH","cases":[{"name":"c","when":{"op":"equals"}}],"default":"c"}`), "cond_op_unknown", "/nodes/0/cases/0/when/op", ""},
		{"case without an edge", "flow", execIR(`{"id":"a","op":"SWITCH","cases":[{"name":"c","when":{"op":"never"}}]}`), "case_edge_missing", "/nodes/0/cases", `"is":"c"`},
		{"circle", "flow", execIR(`{"id":"a","op":"PACK","inputs":{"x":1}}`, `"edges":[{"from":"a","to":"a"}]`), "cycle_unbounded", "/edges/0", "max_traversals"},
		{"read-only target", "flow", execIR(`{"id":"a","op":"PACK","inputs":{"x":1},"outputs":{"x":"$in.x"}}`), "target_invalid", "/nodes/0/outputs/x", "$tmp.name"},
		{"odd limit", "flow", execIR(`{"id":"a","op":"PACK","inputs":{"x":1}}`, `"limits":{"max_steps":-1}`), "limit_invalid", "/limits/max_steps", ""},

		// Workflow graphs.
		{"newer workflow", "flow", `{"workflow_version":"2.0","nodes":[]}`, "version_unsupported", "/workflow_version", "lattice of that version"},
		{"no steps", "flow", `{"workflow_version":"1.0","nodes":[]}`, "field_missing", "/nodes", ""},
		{"step without a type", "flow", graphOf(`{"id":"a"}`), "field_missing", "/nodes/0/type", "git.clone"},
		{"step of unknown type", "flow", graphOf(`{"id":"a","type":"fs.raed"}`), "tool_unknown", "/nodes/0/type", `did you mean "fs.read"?`},
		{"step of a later version", "flow", graphOf(`{"id":"a","type":"choose"}`), "type_unsupported", "/nodes/0/type", "name a skill"},
		{"two names of a skill", "flow", graphOf(`{"id":"a","type":"git.status","tool":"git.status"}`), "field_not_allowed", "/nodes/0/tool", `"type": "tool"`},
		{"ExecIR's member in a step", "flow", graphOf(`{"id":"a","type":"git.status","args":{}}`), "field_unknown", "/nodes/0/args", ""},
		{"unknown input", "flow", graphOf(`{"id":"a","type":"git.status","in":{"rep":"."}}`), "arg_unknown", "/nodes/0/in/rep", `did you mean "repo"?`},
		{"missing input", "flow", graphOf(`{"id":"a","type":"fs.read"}`), "arg_missing", "/nodes/0/in/path", ""},
		{"output of another type", "flow", graphOf(`{"id":"a","type":"git.clone","in":{"url":"u"}},{"id":"b","type":"fs.read","in":{"path":"$vars.a.files"}}`, `"edges":[{"from":"a","to":"b"}]`), "port_type", "/nodes/1/in/path", "makes text of it"},
		{"unconnected steps", "flow", graphOf(`{"id":"a","type":"git.status"},{"id":"b","type":"git.status"}`), "entry_ambiguous", "/entry_node", "edges"},
		{"edge to nowhere", "flow", graphOf(`{"id":"a","type":"git.status"}`, `"edges":[{"from":"a","to":"b"}]`), "node_unknown", "/edges/0/to", `did you mean "a"?`},
		{"two ways at once", "flow", graphOf(`{"id":"a","type":"git.status"},{"id":"b","type":"git.status"},{"id":"c","type":"git.status"}`, `"edges":[{"from":"a","to":"b"},{"from":"a","to":"c"}]`), "edges_ambiguous", "/edges/1", "condition"},
		{"number that is none", "flow", graphOf(`{"id":"a","type":"fs.read","in":{"path":"p","offset":9007199254740993}}`), "number_inexact", "/nodes/0/in/offset", "as text"},

		// Manifests of skills.
		{"manifest is no JSON", "skill", `{"name":`, "json_invalid", "", ""},
		{"manifest without a name", "skill", `{}`, "name_invalid", "/name", "contacts.search"},
		{"misspelt member", "skill", `{"name":"a.b","permission":[]}`, "field_unknown", "/permission", `did you mean "permissions"?`},
		{"unknown input type", "skill", `{"name":"a.b","inputs":[{"name":"x","type":"text"}]}`, "inputs_invalid", "/inputs/0/type", `"type":"string"`},
		{"unknown class", "skill", `{"name":"a.b","side_effect":"none"}`, "side_effect_invalid", "/side_effect", `"read"`},
		{"odd permission", "skill", `{"name":"a.b","permissions":["fs read"]}`, "permissions_invalid", "/permissions/0", "fs:read"},
		{"odd timeout", "skill", `{"name":"a.b","timeout_s":-5}`, "timeout_s_invalid", "/timeout_s", "more than 0"},
		{"example that does not fit", "skill", `{"name":"a.b","inputs":["x"],"examples":[{}]}`, "example_invalid", "/examples/0/x", ""},
		{"manifest says a thing twice", "skill", `{"name":"a.b","name":"a.c"}`, "key_duplicate", "/name", "remove one"},
	}
}

func execIR(nodes string, more ...string) string {
	return `{"execir_version":"1.0","entry_node":"a","nodes":[` + strings.Join(append([]string{nodes + "]"}, more...), ",") + `}`
}

func graphOf(nodes string, more ...string) string {
	return `{"workflow_version":"1.0","nodes":[` + strings.Join(append([]string{nodes + "]"}, more...), ",") + `}`
}

func TestBadInput(t *testing.T) {
	for _, c := range badDocuments() {
		t.Run(c.what, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "document.json")
			if err := os.WriteFile(file, []byte(c.document), 0o600); err != nil {
				t.Fatal(err)
			}
			var out, diagnosis bytes.Buffer
			env := &setup.Env{Console: &cli.Console{Out: &out, Err: &diagnosis, Getenv: func(string) string { return "" }}}
			if exit := program.Execute(t.Context(), env, []string{c.command, "validate", file, "--json"}); exit != 2 {
				t.Errorf("exit code %d, want 2: %s", exit, &diagnosis)
			}
			var report compile.Report
			if err := json.Unmarshal(out.Bytes(), &report); err != nil {
				t.Fatalf("%v: %s", err, &out)
			}
			if report.OK {
				t.Error("ok")
			}
			for _, f := range report.Findings {
				if f.Code == c.code && f.Pointer == c.pointer {
					if f.Severity != "error" || f.Message == "" || !strings.Contains(f.Hint, c.hint) {
						t.Errorf("%+v, want a hint with %q", f, c.hint)
					}
					return
				}
			}
			t.Errorf("no %s at %q in %s", c.code, c.pointer, &out)
		})
	}
}
