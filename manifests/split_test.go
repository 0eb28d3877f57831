package manifests

import (
	"bytes"
	"encoding/json"
	"testing"
)

// FuzzSplit holds what encoding/json makes of a document against what we do.
func FuzzSplit(f *testing.F) {
	for _, s := range Skills() {
		f.Add(Raw(s.Name))
	}
	for _, text := range []string{
		`{}`, `[]`, ` { "a" : 1 , "b":[ 1,{"c":"}]\\""} ] ,"a":null}`, `{"\u0061\"":true}`, `[1,2 ,"x",{},[ ]]`, `1`, `"x"`, `null`, "{\"\xff\":\"\xff\"}",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) {
			return
		}
		var want map[string]json.RawMessage
		_ = json.Unmarshal(raw, &want) // leaves nil when it is no object
		got, _ := splitObject(raw)
		if len(got) != len(want) || (got == nil) != (want == nil) {
			t.Fatalf("members(%q) = %q, want %q", raw, got, want)
		}
		for name, value := range want {
			if !bytes.Equal(got[name], bytes.TrimSpace(value)) {
				t.Errorf("members(%q)[%q] = %q, want %q", raw, name, got[name], value)
			}
			var a, b string
			if text := got[name]; text[0] == '"' && (!decodeValue(text, &a) || json.Unmarshal(text, &b) != nil || a != b) {
				t.Errorf("decode(%q) = %q, want %q", text, a, b)
			}
		}
		var list []json.RawMessage
		isArray := json.Unmarshal(raw, &list) == nil && list != nil
		if elements, ok := splitArray(raw); ok != isArray || len(elements) != len(list) {
			t.Errorf("elements(%q) = %q, %v, want %q", raw, elements, ok, list)
		}
	})
}
