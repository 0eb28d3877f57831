package templates

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/spritekit/lattice/manifests/schemas"
)

// A template's bytes are pinned by documents: whoever changes one gives it another id.
var published = map[string]string{
	"choose_attachment_v1": "sha256:c7ed0f5e55a08ce8b54b8f4f2c97bd1d0bc554acf58847bdb83af1a0870c2bd5",
	"choose_contact_v1":    "sha256:439a02a58cb40e1e1bfbe57c89e307b415da2e2d9454f47e23f5621d4215943d",
	"choose_v1":            "sha256:02742a11e6b8bee56f7105abab38e8be0aa9831e52be0929c0aa089dec818454",
	"classify_v1":          "sha256:057a3cdc20f9de84f5a38708950f201e826b8d99ae2f98c113d25c0fe452cc3b",
	"draft_email_v1":       "sha256:1781df40185a4dde55da13af43addb1994803c6cfa99f3a0d9081aee21621a09",
	"draft_email_v2":       "sha256:d04ed0cb62333b8258f7b7bf2a627ac66ec50ff5db3736acb3bb2d25d1e9b9cd",
	"extract_intent_v1":    "sha256:fe2b6af043338ef97b8b4f3f1907bf041f66a19309a299bc9c5dd1aea5e8d38c",
	"extract_v1":           "sha256:d394047996dfc856bb4a4c0c11614f45593d373b81a6c544d97ce3f4a4e1d32b",
	"write_v1":             "sha256:44c58a75f5195e29df13b3fd8b88ef41e41c04bf81b3ccc4eeab817cbfbaba36",
}

func TestBuiltins(t *testing.T) {
	t.Parallel()
	if len(IDs()) < 8 {
		t.Fatalf("IDs() = %v", IDs())
	}
	for _, id := range IDs() {
		data, err := os.ReadFile(id + ".json")
		if err != nil {
			t.Fatal(err)
		}
		tmpl, err := Parse(data)
		if err != nil || tmpl.ID != id {
			t.Errorf("%s: id %q, %v", id, tmpl.ID, err)
			continue
		}
		if _, ok := schemas.Builtin(tmpl.OutputSchema); tmpl.OutputSchema != "" && !ok {
			t.Errorf("%s is for schema %s, which does not exist", id, tmpl.OutputSchema)
		}
		if want := published[id]; tmpl.SHA256 != want {
			t.Errorf("%s is %s, published as %s: documents pin its bytes; give what is new another id", id, tmpl.SHA256, want)
		}
	}
	for _, name := range schemas.Names() {
		schema, _ := schemas.Builtin(name)
		if !json.Valid(schema) {
			t.Errorf("schema %s is not JSON", name)
		}
	}
	for _, id := range []string{"", "../schemas/Label", "nope_v1", "choose_contact_v0"} {
		if _, ok := Builtin(id); ok {
			t.Errorf("Builtin(%q) exists", id)
		}
	}
}

func TestTemplatesThatAreRefused(t *testing.T) {
	t.Parallel()
	const good = `{"id":"t_v1","op":"LLM_WRITE","version":"1","input_ports":{"a":{}},"system":"s {{output_schema}}","user":["u","{{a}}"],"repair":"r {{packet}}","max_prompt_bytes":100}`
	if _, err := Parse([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct{ old, new, says string }{
		"no JSON":                {good, "{", "invalid prompt template"},
		"an unknown member":      {`"version"`, `"code":"x","version"`, "unknown field"},
		"an id without version":  {"t_v1", "t", `id "t"`},
		"an op of none":          {"LLM_WRITE", "PACK", "op is one of"},
		"a port in the system":   {"s {{", "s {{a}} {{", "{{a}} has no meaning in system"},
		"an unknown port":        {"{{a}}", "{{a}} {{b}}", "{{b}} has no meaning in user"},
		"a port that is unused":  {`"{{a}}"`, `"x"`, "port a has no"},
		"a packet to the user":   {"{{a}}", "{{a}} {{packet}}", "{{packet}} has no meaning in user"},
		"a repair without it":    {"r {{packet}}", "r", "repair has no"},
		"a port that is a mark":  {`"a":{}`, `"a":{},"packet":{}`, `"packet" is no name`},
		"no bound":               {`,"max_prompt_bytes":100`, ``, "max_prompt_bytes is"},
		"something executable":   {"{{a}}", "{{a}} {{range .}}", "{{range .}}"},
		"a text that is no text": {`"r {{packet}}"`, `[1]`, "invalid prompt template"},
	} {
		_, err := Parse([]byte(strings.Replace(good, tt.old, tt.new, 1)))
		if err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: Parse = %v, want %q", name, err, tt.says)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, id := range IDs() {
		data, err := files.ReadFile(id + ".json")
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if tmpl, err := Parse(data); err == nil && (tmpl.ID == "" || tmpl.User == "" || !strings.HasPrefix(tmpl.SHA256, "sha256:")) {
			t.Errorf("Parse(%q) = %+v", data, tmpl)
		}
	})
}
