package test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/skills/proc"
)

// fold reads a recording of go test -json, made with Go 1.26 in /src.
func fold(text string, exit int) Report {
	g := newGolang("/src", "example.com/m")
	for line := range strings.Lines(text) {
		g.line(strings.TrimSuffix(line, "\n"))
	}
	var r Report
	g.fill(&r, proc.Exit{Code: exit}, nil)
	return r
}

func TestRecordingsAreFolded(t *testing.T) {
	type failure struct {
		ID, Kind, File string
		Line           int
		Message        string
	}
	tests := map[string]struct {
		status   Status
		counts   Counts
		failures []failure
		build    int
	}{
		"build": {StatusFailed, Counts{Errored: 1}, []failure{{"example.com/m/broke", kindBuild, "broke/m_test.go", 3,
			`cannot use "y" (untyped string constant) as int value in variable declaration`}}, 1},
		"panic": {StatusFailed, Counts{Total: 2, Passed: 1, Failed: 1}, []failure{{"example.com/m/boom:TestB/sub", kindPanic, "boom/m_test.go", 9,
			"panic: assignment to entry in nil map [recovered, repanicked]"}}, 0},
		"subtests": {StatusFailed, Counts{Total: 3, Passed: 1, Failed: 1, Skipped: 1}, []failure{{"example.com/m/leaf:TestTable/bad_one", kindAssertion,
			"leaf/m_test.go", 7, "got 1,\nwant 2"}}, 0},
		"timeout": {StatusFailed, Counts{Total: 1, Failed: 1}, []failure{{"example.com/m/slow:TestSlow", kindTimeout, "slow/m_test.go", 5,
			"panic: test timed out after 200ms"}}, 0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile(filepath.Join("testdata", name+".jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			r := fold(string(data), 1)
			var got []failure
			for _, f := range r.Failures {
				got = append(got, failure{f.ID, f.Kind, f.File, f.Line, f.Message})
			}
			if diff := cmp.Diff(test.failures, got); diff != "" {
				t.Errorf("failures (-want +got):\n%s", diff)
			}
			if r.Status != test.status || r.Counts != test.counts || len(r.BuildErrors) != test.build {
				t.Errorf("fill = %s, %+v, build errors %v, want %s, %+v, %d of them", r.Status, r.Counts, r.BuildErrors, test.status, test.counts, test.build)
			}
		})
	}
}

// Tests that were running when another one panicked have no verdict.
func TestTestsCutOffAreNotRun(t *testing.T) {
	r := fold(`{"Action":"run","Package":"p","Test":"TestA"}
{"Action":"run","Package":"p","Test":"TestB"}
{"Action":"output","Package":"p","Test":"TestB","Output":"panic: no\n"}
{"Action":"fail","Package":"p","Test":"TestB"}
{"Action":"fail","Package":"p"}
`, 1)
	if want := (Counts{Total: 2, Failed: 1, NotRun: 1}); r.Counts != want {
		t.Errorf("counts = %+v, want %+v", r.Counts, want)
	}
}

func FuzzGoEvents(f *testing.F) {
	recordings, err := filepath.Glob("testdata/*.jsonl")
	if err != nil || len(recordings) == 0 {
		f.Fatalf("no recordings: %v", err)
	}
	for _, name := range recordings {
		data, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(data), 1)
	}
	f.Fuzz(func(t *testing.T, text string, exit int) {
		r := fold(text, exit)
		c := r.Counts
		if c.Total != c.Passed+c.Failed+c.Skipped+c.NotRun || len(r.Failures) != c.Failed+c.Errored {
			t.Errorf("%+v with %d failures does not add up", c, len(r.Failures))
		}
		if r.Status == StatusPassed && (c.Failed+c.Errored > 0 || exit != 0) {
			t.Errorf("passed with %+v and exit %d", c, exit)
		}
	})
}
