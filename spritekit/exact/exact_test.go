package exact_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spritekit/lattice/spritekit/exact"
)

type inner struct {
	Old string `json:"old"`
}

type tree map[string]tree

type embedded struct {
	Deep *inner `json:"deep"`
}

type outer struct {
	Path  string           `json:"path"`
	Edits []inner          `json:"edits"`
	By    map[string]inner `json:"by"`
	At    time.Time        `json:"at"`
	Raw   json.RawMessage  `json:"raw"`
	Any   any              `json:"any"`
	Plain int
	Tree  tree `json:"tree"`
	embedded
}

func TestUnknown(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"path":"a","edits":[{"old":"x"}],"by":{"Any/name":{"old":""}},"at":"2026-01-02T03:04:05Z","raw":{"Old":1},"any":{"Old":1},"deep":{"old":""}}`: "",
		`{"edits":null,"deep":null,"by":null}`: "",
		`null`:                                 "",
		`{"plain":1}`:                          "",
		`{"tree":{"A":{"a":{}}}}`:              "",
		`{"Path":"a"}`:                         "/Path",
		`{"edits":[{"old":"x"},{"Old":"x"}]}`:  "/edits/1/Old",
		`{"by":{"a/b~":{"OLD":""}}}`:           "/by/a~1b~0/OLD",
		`{"deep":{"olD":""}}`:                  "/deep/olD",
		`{"Deep":{"old":""}}`:                  "/Deep",
	} {
		var v outer
		if err := json.Unmarshal([]byte(text), &v); err != nil {
			t.Fatal(err)
		}
		if got := exact.Unknown([]byte(text), reflect.TypeFor[outer]()); got != want {
			t.Errorf("Unknown(%s) = %q, want %q", text, got, want)
		}
	}
}

func TestDuplicates(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("k", 1<<20)
	for text, want := range map[string][]string{
		`{"a":1,"b":{"a":1},"A":1}`:               nil,
		`{"a":1,"a":1}`:                           {"/a"},
		`{"a":1,"\u0061":1,"a":{"x":1,"x":1}}`:    {"/a", "/a", "/a/x"},
		`[1,{"b/~":[{"c":1,"c":1e999}]},{"d":1}]`: {"/1/b~1~0/0/c"},
		`{"a":1,"a":1,"b":1,,"b":1}`:              {"/a"},
		`{"a":1,"a"`:                              {"/a"},
		``:                                        nil,
		strings.Repeat("[", 100_000):              nil,
		// The pointers of all values of such a text together are much longer than the text.
		`{"` + long + `":[` + strings.Repeat("1,", 1<<20) + `{"a":1,"a":2}],"é":1,"é":2}`: {"/" + long[:255] + "…", "/é"},
		`{"` + long + `":{` + strings.Repeat(`"a":1,`, 1<<10) + `"b":2}}`:                 slices.Repeat([]string{"/" + long[:255] + "…"}, 1<<10-1),
	} {
		if got := exact.Duplicates([]byte(text)); !slices.Equal(got, want) {
			t.Errorf("Duplicates(%.60s) = %.200q, want %.200q", text, got, want)
		}
	}
}
