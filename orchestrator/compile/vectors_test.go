package compile

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
)

// TestRFC8785Vectors holds the canonical form to the vectors that were published with RFC 8785, which a dependency carries.
func TestRFC8785Vectors(t *testing.T) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "github.com/gowebpki/jcs").Output()
	dir := filepath.Join(strings.TrimSpace(string(out)), "testdata")
	inputs, _ := filepath.Glob(filepath.Join(dir, "input", "*.json"))
	if err != nil || len(inputs) == 0 {
		t.Skip("the vectors are not in the module cache: the canonical form is not held against them")
	}
	for _, file := range inputs {
		in, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		want, err := os.ReadFile(filepath.Join(dir, "output", filepath.Base(file)))
		if err != nil {
			t.Fatal(err)
		}
		if got, err := canonicalJSON(in); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %s, %v; want %s", filepath.Base(file), got, err, want)
		}
	}
}

// oracle has a program for Node answer lines of JSON, one for each. The package is in $LATTICE_NPM_CACHE, or the test is
// skipped; "" is none.
func oracle(t *testing.T, pkg, program string, lines []string) []string {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("node is not installed: there is nothing to compare with")
	}
	module := filepath.Join(os.Getenv("LATTICE_NPM_CACHE"), "node_modules", pkg)
	if _, err := os.Stat(module); pkg != "" && (err != nil || os.Getenv("LATTICE_NPM_CACHE") == "") {
		t.Skipf("%s is not in $LATTICE_NPM_CACHE: there is nothing to compare with", pkg)
	}
	cmd := exec.Command(node, "-e", `
		const load = async () => { const m = process.argv[1] ? await import(require("url").pathToFileURL(require.resolve(process.argv[1]))) : {}; return m.default ?? m };
		load().then(m => { `+program+`
		console.log(require("fs").readFileSync(0, "utf8").trimEnd().split("\n").map(l => answer(JSON.parse(l))).join("\n")) })`, module)
	if pkg == "" {
		cmd.Args = cmd.Args[:3]
	}
	cmd.Stdin = strings.NewReader(strings.Join(lines, "\n"))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("ask %s: %v", pkg, err)
	}
	answers := strings.Split(strings.TrimSuffix(string(out), "\n"), "\n")
	if len(answers) != len(lines) {
		t.Fatalf("%d answers to %d lines", len(answers), len(lines))
	}
	return answers
}

// TestNumbersAsECMAScript writes numbers as ECMAScript does, as RFC 8785, section 3.2.2.3, wants it: random bits and edges.
func TestNumbersAsECMAScript(t *testing.T) {
	r := rand.New(rand.NewPCG(8785, 1))
	var lines []string
	for _, f := range []float64{0, math.Copysign(0, -1), math.SmallestNonzeroFloat64, math.MaxFloat64, 1e21, 999999999999999900000, 1e-6, 1e-7, 9007199254740991, 9007199254740992, 295147905179352830000, 5e-324, 1.7976931348623157e308} {
		lines = append(lines, fmt.Sprintf("%.17g", f))
	}
	for len(lines) < 5000 {
		if f := math.Float64frombits(r.Uint64()); !math.IsNaN(f) && !math.IsInf(f, 0) {
			lines = append(lines, fmt.Sprintf("%.17g", f))
		}
	}
	for i, want := range oracle(t, "", `const answer = JSON.stringify;`, lines) {
		if got, err := canonicalJSON([]byte(lines[i])); err != nil || string(got) != want {
			t.Errorf("canonical(%s) = %s, %v; want %s", lines[i], got, err, want)
		}
	}
}

// TestCanonicalOracle compares the canonical form of random documents with that of the package by the RFC's own author.
func TestCanonicalOracle(t *testing.T) {
	lines := randomJSON(8785, 500)
	for i, want := range oracle(t, "canonicalize", `const answer = m;`, lines) {
		if got, err := canonicalJSON([]byte(lines[i])); err != nil || string(got) != want {
			t.Errorf("canonical(%s) = %s, %v; want %s", lines[i], got, err, want)
		}
	}
}

// TestMergePatchOracle compares MERGE by merge_patch with another implementation of RFC 7396, and with the RFC's appendix.
func TestMergePatchOracle(t *testing.T) {
	docs := randomJSON(7396, 1200)
	var lines []string
	for i := 0; i+1 < len(docs); i += 2 {
		lines = append(lines, "["+docs[i]+","+docs[i+1]+"]")
	}
	lines = append(lines, `[{"a":"b"},{"a":"c"}]`, `[{"a":"b"},{"b":"c"}]`, `[{"a":"b"},{"a":null}]`, `[{"a":"b","b":"c"},{"a":null}]`, `[{"a":["b"]},{"a":"c"}]`,
		`[{"a":"c"},{"a":["b"]}]`, `[{"a":{"b":"c"}},{"a":{"b":"d","c":null}}]`, `[{"a":[{"b":"c"}]},{"a":[1]}]`, `[["a","b"],["c","d"]]`, `[{"a":"b"},["c"]]`,
		`[{"a":"foo"},null]`, `[{"a":"foo"},"bar"]`, `[{"e":null},{"a":1}]`, `[[1,2],{"a":"b","c":null}]`, `[{},{"a":{"bb":{"ccc":null}}}]`)
	merge := &ir.Node{Op: ir.OpMerge, Strategy: ir.MergePatch}
	for i, want := range oracle(t, "json-merge-patch", `const answer = ([a, b]) => JSON.stringify(m.apply(a, b) ?? null);`, lines) {
		v, err := expr.Decode([]byte(lines[i]))
		if err != nil {
			t.Fatal(err)
		}
		out, f := merge.Merge(v.([]any))
		text, err := expr.Marshal(out)
		if err == nil {
			text, err = canonicalJSON(text)
		}
		canon, bad := canonicalJSON([]byte(want))
		if f != nil || err != nil || bad != nil || string(text) != string(canon) {
			t.Errorf("merge of %s = %s, %v; want %s", lines[i], text, f, canon)
		}
	}
}

// randomJSON makes n documents, each on a line: shallow and deep, with names of every plane of Unicode, the same ones often.
func randomJSON(seed uint64, n int) []string {
	r := rand.New(rand.NewPCG(seed, 2))
	names := []string{"a", "b", "c", "é", "€", "\U0001f600", "\ufb33", "\u0080", "", "a/b", "~", "10", "9"}
	var value func(depth int) any
	value = func(depth int) any {
		switch k := r.IntN(9); {
		case k < 3 && depth < 4:
			o := map[string]any{}
			for range r.IntN(5) {
				o[names[r.IntN(len(names))]] = value(depth + 1)
			}
			return o
		case k == 3 && depth < 4:
			l := []any{}
			for range r.IntN(4) {
				l = append(l, value(depth+1))
			}
			return l
		case k == 4:
			return nil
		case k == 5:
			return r.IntN(2) == 0
		case k == 6:
			return math.Float64frombits(r.Uint64()&^(0x7ff<<52) | uint64(1023-40+r.IntN(120))<<52)
		case k == 7:
			return r.IntN(2000) - 1000
		}
		return names[r.IntN(len(names))] + string(rune(r.IntN(0x500))) + "\u2028<&>\\\"\x7f"
	}
	lines := make([]string, n)
	for i := range lines {
		text, err := json.Marshal(map[string]any{"v": value(0), "w": value(1)})
		if err != nil {
			panic(err) // made of what can be written
		}
		lines[i] = string(text)
	}
	return lines
}
