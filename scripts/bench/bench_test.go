package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"reflect"
	"strings"
	"testing"
)

func TestParseBench(t *testing.T) {
	got, err := parseBench(`goos: linux
BenchmarkX/runs=1-8   	     100	  12.5 ns/op	  3 x-json
BenchmarkX/runs=1-8   	     100	  13.5 ns/op	  1 x-json
BenchmarkX/runs=1-8   	     100	  100 ns/op	  2 x-json
BenchmarkOdd-name-2   	       1	  7 steps/s
PASS
`)
	want := map[string]map[string]float64{
		"BenchmarkX/runs=1": {"ns/op": 13.5, "x-json": 2},
		"BenchmarkOdd-name": {"steps/s": 7},
	}
	if !reflect.DeepEqual(got, want) || err != nil {
		t.Errorf("parseBench = %v, %v; want %v", got, err, want)
	}
	if _, err := parseBench("BenchmarkX-8 100 fast ns/op\n"); err == nil {
		t.Error("a value that is no number is no error")
	}
}

func TestMedian(t *testing.T) {
	for _, tt := range []struct {
		of   []float64
		want float64
	}{{[]float64{5}, 5}, {[]float64{9, 1, 5}, 5}, {[]float64{4, 1, 2, 9}, 3}} {
		if got := median(tt.of); got != tt.want {
			t.Errorf("median(%v) = %v, want %v", tt.of, got, tt.want)
		}
	}
}

// TestRace: everybody runs once a round after the one that does not count, who is not there is passed over, and nobody
// is fast by failing.
func TestRace(t *testing.T) {
	dir := t.TempDir()
	counts := &contender{name: "counts", argv: []string{"sh", "-c", "echo run >>runs; echo done"}, seen: "done"}
	missing := &contender{name: "missing", argv: []string{"no-such-program-anywhere"}}
	if err := race(t.Context(), dir, 3, []*contender{counts, missing}); err != nil {
		t.Fatal(err)
	}
	runs, err := os.ReadFile(dir + "/runs")
	if err != nil || strings.Count(string(runs), "run") != 4 || len(counts.times) != 3 || !missing.missing {
		t.Errorf("ran %q, %v; %d times; missing %v", runs, err, len(counts.times), missing.missing)
	}
	figures := others("", "s", counts, []*contender{counts, missing}, func(s float64) float64 { return s })
	if len(figures) != 2 || figures[0].Value <= 0 || figures[1].Skipped == "" {
		t.Errorf("figures are %+v", figures)
	}
	for why, c := range map[string]*contender{
		"exit status 3":       {name: "fails", argv: []string{"sh", "-c", "exit 3"}},
		`lacks "something"`:   {name: "silent", argv: []string{"true"}, seen: "something"},
		"no such file or dir": {name: "no input", argv: []string{"true"}, stdin: dir + "/none"},
	} {
		if err := race(t.Context(), dir, 1, []*contender{c}); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, want an error with %q", c.name, err, why)
		}
	}
}

func TestPrint(t *testing.T) {
	r := report{Machine: machine{Time: "2026-01-02 03:04 UTC", CPU: "CPU", CPUs: 2, System: "Linux", Commit: "abc",
		Versions: []string{"go version go1.26"}, LoadBefore: "0.1", LoadAfter: "1.0", Folder: "/tmp", CommitsPerSecond: 1234.5}}
	err := r.add([]figure{
		figure{Name: "a call", Value: 1.23456, Unit: "ms", Ratio: 1.5, Beside: "nothing"}.atMost(1.5, 1.8),
		figure{Name: "a parser", Value: 2, Unit: "GB/s"}.atLeast(0.5, 1),
		{Name: "python3", Unit: "ms", Skipped: "not on this machine"},
	}, nil)
	var out bytes.Buffer
	if err := r.print(&out); err != nil {
		t.Fatal(err)
	}
	want := `2026-01-02 03:04 UTC, 2 × CPU, Linux
commit abc, load 0.1 before and 1.0 after
raw commits (write 4 KiB + fdatasync) in /tmp: 1234/s
go version go1.26

figure    value                         ×     beside   target
a call    1.235 ms                      1.50  nothing  ≤ 1.8 met
a parser  2 GB/s                                       ≥ 1 missed
python3   skipped: not on this machine
`
	if out.String() != want || err != nil {
		t.Errorf("print: %v\n%s\nwant\n%s", err, out.String(), want)
	}
}

// TestInterruptLeavesNothing: whenever it is interrupted, its folder is gone.
func TestInterruptLeavesNothing(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var out, progress bytes.Buffer
	for _, err := range []error{bench(ctx, true, false, "", &out, &progress), benchPeers(ctx, true, false, &out, &progress)} {
		if err == nil {
			t.Error("an interrupted bench ends well")
		}
	}
	if left, err := os.ReadDir(tmp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// --only takes names, in any order, and answers a wrong one with all of them.
func TestChoose(t *testing.T) {
	all := []stage{{name: "git"}, {name: "session"}, {name: "sizes"}}
	for _, tc := range []struct {
		only, want, problem string
	}{
		{"", "git session sizes", ""},
		{"session", "session", ""},
		{"sizes,git", "git sizes", ""},
		{"git,", "", `there is no group ""; --only takes git, session, sizes`},
		{"Git", "", `there is no group "Git"; --only takes git, session, sizes`},
	} {
		chosen, err := choose(tc.only, all)
		var names []string
		for _, s := range chosen {
			names = append(names, s.name)
		}
		if got := strings.Join(names, " "); got != tc.want || (err == nil) != (tc.problem == "") || err != nil && err.Error() != tc.problem {
			t.Errorf("choose(%q) = %q, %v; want %q, %q", tc.only, got, err, tc.want, tc.problem)
		}
	}
}

// A group that fails, minutes after the first, takes nothing along that was measured before.
func TestWriteKeepsWhatWasFound(t *testing.T) {
	var r report
	var out bytes.Buffer
	broken := errors.New("broken")
	err := r.write(&out, false, io.Discard, []stage{
		{"first", "the first", func() error { return r.add([]figure{{Name: "found", Value: 1, Unit: "ms"}}, nil) }},
		{"second", "the second", func() error { return r.add([]figure{{Name: "half", Value: 2, Unit: "ms"}}, broken) }},
		{"third", "the third", func() error { t.Error("it goes on"); return nil }},
	})
	if !errors.Is(err, broken) || !strings.Contains(out.String(), "found") || !strings.Contains(out.String(), "half") {
		t.Errorf("%v\n%s", err, out.String())
	}
}
