package ir

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/ir/expr"
)

// TestRFC6901 reads the pointers of RFC 6901, section 5, as texts and as fragments.
func TestRFC6901(t *testing.T) {
	doc, err := expr.Decode([]byte(`{"foo":["bar","baz"],"":0,"a/b":1,"c%d":2,"e^f":3,"g|h":4,"i\\j":5,"k\"l":6," ":7,"m~n":8}`))
	if err != nil {
		t.Fatal(err)
	}
	for pointer, want := range map[string]string{
		"/foo": `["bar","baz"]`, "/foo/0": `"bar"`, "/": "0", "/a~1b": "1", "/c%d": "2", "/e^f": "3", "/g|h": "4", `/i\j`: "5", `/k"l`: "6", "/ ": "7", "/m~0n": "8",
	} {
		v, ok := atPointer(doc, pointer)
		if text, err := expr.Marshal(v); !ok || err != nil || string(text) != want {
			t.Errorf("at %q: %s, %v; want %s", pointer, text, ok, want)
		}
	}
	for fragment, want := range map[string]string{"#/c%25d": "2", "#/a~1b": "1", "#/%20": "7", "#/m~0n": "8"} {
		v, ok := followPointer(doc, fragment)
		if text, err := expr.Marshal(v); !ok || err != nil || string(text) != want {
			t.Errorf("at %q: %s, %v; want %s", fragment, text, ok, want)
		}
	}
	for _, none := range []string{"foo", "/foo/2", "/foo/-", "/foo/01", "/foo/-0", "/foo/1e0", "/nope", "/foo/0/x"} {
		if v, ok := atPointer(doc, none); ok {
			t.Errorf("at %q there is %v", none, v)
		}
	}
}

// TestPointerVectors reads the pointers of the published suite for RFC 6902, in its operation test.
func TestPointerVectors(t *testing.T) {
	dir := filepath.Join(os.Getenv("LATTICE_NPM_CACHE"), "node_modules", "json-patch-test-suite")
	n := 0
	for _, name := range []string{"tests.json", "spec_tests.json"} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Skip("json-patch-test-suite is not in $LATTICE_NPM_CACHE: its pointers are not tried")
		}
		var cases []struct {
			Doc      json.RawMessage
			Patch    []map[string]json.RawMessage
			Error    string
			Disabled bool
			Comment  string
		}
		if err := json.Unmarshal(data, &cases); err != nil {
			t.Fatal(err)
		}
		for _, c := range cases {
			var op, path string
			if c.Disabled || len(c.Patch) != 1 || json.Unmarshal(c.Patch[0]["op"], &op) != nil || op != "test" || json.Unmarshal(c.Patch[0]["path"], &path) != nil || c.Patch[0]["value"] == nil {
				continue
			}
			n++
			doc, err := expr.Decode(c.Doc)
			if err != nil {
				t.Fatal(err)
			}
			want, err := expr.Decode(c.Patch[0]["value"])
			if err != nil {
				t.Fatal(err)
			}
			got, ok := atPointer(doc, path)
			if same := ok && reflect.DeepEqual(got, want); same != (c.Error == "") {
				t.Errorf("%s: at %q of %s: %v, %v; want %v (%s)", c.Comment, path, c.Doc, got, ok, want, c.Error)
			}
		}
	}
	if n < 10 {
		t.Errorf("only %d pointers were tried", n)
	}
}

func TestExactDouble(t *testing.T) {
	for literal, want := range map[string]bool{
		"0": true, "-0": true, "0.0e9": true, "1": true, "1.50": true, "0.1": true, "1e3": true, "9007199254740992": true, "1E400": false,
		"9007199254740993": false, "1e-999999999": false, "0.1000000000000000055": false, "1e999999999999": false, strings.Repeat("9", 1000): false,
	} {
		if got := expr.ExactDouble(literal); got != want {
			t.Errorf("exactDouble(%.40s) = %v, want %v", literal, got, want)
		}
	}
}
