package results_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/skills/test/results"
	"github.com/spritekit/lattice/skills/test/results/export"
)

var update = flag.Bool("update", false, "write the golden files anew")

// recorded are the reports below ../testdata; see generate.sh there.
func recorded() map[string]results.Format {
	return map[string]results.Format{
		"reports/bats.tap":          results.FormatTAP,
		"reports/cargo.txt":         results.FormatLibtest,
		"reports/cargo-broken.txt":  results.FormatLibtest,
		"reports/ctest.xml":         results.FormatJUnit,
		"reports/go-build.jsonl":    results.FormatGo,
		"reports/go-panic.jsonl":    results.FormatGo,
		"reports/go-sample.jsonl":   results.FormatGo,
		"reports/go-subtests.jsonl": results.FormatGo,
		"reports/go-timeout.jsonl":  results.FormatGo,
		"reports/jest.json":         results.FormatJest,
		"reports/mocha.json":        results.FormatMocha,
		"reports/node-20.tap":       results.FormatTAP,
		"reports/node-24.tap":       results.FormatTAP,
		"reports/phpunit.xml":       results.FormatJUnit,
		"reports/prove-calc.tap":    results.FormatTAP,
		"reports/prove-dies.tap":    results.FormatTAP,
		"reports/prove-skipped.tap": results.FormatTAP,
		"reports/pytest.xml":        results.FormatJUnit,
		"reports/rspec.json":        results.FormatRSpec,
		"reports/surefire.xml":      results.FormatJUnit,
		"reports/unittest.txt":      results.FormatUnittest,
		"reports/vitest.json":       results.FormatJest,
		"documented/ctrf.json":      results.FormatCTRF,
		"documented/dotnet.trx":     results.FormatTRX,
		"documented/gradle.xml":     results.FormatJUnit,
		"documented/nextest.xml":    results.FormatJUnit,
		"documented/tap14.tap":      results.FormatTAP,
	}
}

func readFile(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("../testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func parse(f results.Format, data []byte) (*results.Set, error) {
	var s results.Set
	err := f.Parse(bytes.NewReader(data), "base", &s)
	return &s, err
}

// What the real runners wrote is read as the golden files say.
func TestRecordedReports(t *testing.T) {
	for name, format := range recorded() {
		t.Run(name, func(t *testing.T) {
			s, err := parse(format, readFile(t, name))
			if err != nil {
				t.Fatal(err)
			}
			check(t, s)
			var verdicts []string
			for _, c := range s.Cases {
				verdicts = append(verdicts, string(c.Status)+" "+c.ID)
			}
			for i := range s.Failing {
				s.Failing[i].Duration = 0
			}
			got, err := json.MarshalIndent(map[string]any{"counts": s.Counts, "cases": verdicts, "failing": s.Failing, "build": s.Build, "bail": s.Bail}, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", filepath.Base(name)+".golden")
			if *update {
				if err := os.WriteFile(golden, append(got, '\n'), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)+"\n"); diff != "" {
				t.Errorf("%s (-want +got):\n%s", name, diff)
			}
		})
	}
}

// However a report is cut into reads, it says the same.
func TestReadsOfOneByte(t *testing.T) {
	for name, format := range recorded() {
		data := readFile(t, name)
		whole, err := parse(format, data)
		if err != nil {
			t.Fatal(err)
		}
		var s results.Set
		if err := format.Parse(iotest.OneByteReader(bytes.NewReader(data)), "base", &s); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if diff := cmp.Diff(whole.Failing, s.Failing); diff != "" || whole.Counts != s.Counts {
			t.Errorf("%s byte by byte: %+v, want %+v\n%s", name, s.Counts, whole.Counts, diff)
		}
	}
}

// check holds for every set, whatever it was read from.
func check(t testing.TB, s *results.Set) {
	t.Helper()
	c := s.Counts
	packages := 0
	for i := range s.Failing {
		f := &s.Failing[i]
		if f.Package {
			packages++
		}
		if f.ID == "" && f.Name+f.Suite != "" || f.Message == "" || f.Kind == "" || !f.Failing() {
			t.Errorf("a failure without id, message or kind: %+v", f)
		}
		for _, text := range []string{f.ID, f.Name, f.Suite, f.File, f.Message, f.Detail} {
			if results.Clean(text) != text {
				t.Errorf("not clean: %q", text)
			}
		}
		if len(f.Message) > results.MaxMessage || len(f.Detail) > results.MaxDetail || strings.Count(f.Detail, "\n") > results.MaxLines+1 || f.Line < 0 {
			t.Errorf("too large: %+v", f)
		}
	}
	if s.Omitted == 0 && c.Total+packages != c.Passed+c.Failed+c.Skipped+c.Errored+c.Flaky+c.NotRun {
		t.Errorf("%+v with %d packages does not add up", c, packages)
	}
	if s.Omitted == 0 && len(s.Failing) != c.Failed+c.Errored+c.Flaky {
		t.Errorf("%d failures for %+v", len(s.Failing), c)
	}
}

// Whatever a report holds, its reader ends, and its set holds what it promises.
func FuzzReports(f *testing.F) {
	seeds := 0
	for name, format := range recorded() {
		for i, known := range results.Formats() {
			if known == format {
				f.Add(readFile(f, name), i)
				seeds++
			}
		}
	}
	if seeds == 0 {
		f.Fatal("no seeds")
	}
	f.Fuzz(func(t *testing.T, data []byte, format int) {
		all := results.Formats()
		if format < 0 || format >= len(all) {
			return
		}
		s, _ := parse(all[format], data) // it may be anything
		check(t, s)
		var out bytes.Buffer
		if err := export.JUnit(&out, s, export.Run{Tool: "t"}); err != nil {
			t.Error(err)
		}
		back, err := parse(results.FormatJUnit, out.Bytes())
		if err != nil {
			t.Errorf("read our own JUnit: %v", err)
		}
		if s.Omitted == 0 && (back.Counts.Failed != s.Counts.Failed || back.Counts.Errored != s.Counts.Errored || back.Counts.Flaky != s.Counts.Flaky) {
			t.Errorf("JUnit says %+v of %+v", back.Counts, s.Counts)
		}
	})
}

// A package whose process ends while tests run names them: nothing else says which one called os.Exit or hung.
func TestGoNamesTheTestsThatRan(t *testing.T) {
	stream := `{"Action":"run","Package":"p","Test":"TestDone"}
{"Action":"pass","Package":"p","Test":"TestDone"}
{"Action":"run","Package":"p","Test":"TestParent"}
{"Action":"run","Package":"p","Test":"TestParent/kid"}
{"Action":"output","Package":"p","Output":"FAIL\tp\t0.004s\n"}
{"Action":"fail","Package":"p","Elapsed":0.004}
`
	set := &results.Set{}
	g := results.NewGoTest(set, "/p", nil)
	for line := range strings.Lines(stream) {
		g.Line(strings.TrimSuffix(line, "\n"))
	}
	g.Done()
	if len(set.Failing) != 1 || set.Failing[0].Message != "the process ended while TestParent/kid ran" || set.Counts.NotRun != 1 {
		t.Errorf("failing = %+v, counts %+v", set.Failing, set.Counts)
	}
}

// An interrupted pytest writes a testcase without a name for the test that it was in: that one did not pass.
func TestJUnitOfAnInterruptedPytest(t *testing.T) {
	set := &results.Set{}
	report := `<testsuites><testsuite name="pytest"><testcase classname="a" name="test_0"/><testcase time="0.000"/></testsuite></testsuites>`
	if err := results.FormatJUnit.Parse(strings.NewReader(report), "r.xml", set); err != nil {
		t.Fatal(err)
	}
	if set.Counts.Passed != 1 || set.Counts.NotRun != 1 {
		t.Errorf("counts %+v", set.Counts)
	}
}
