package skills

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const goodTest = `package m

import "testing"

func TestGood(t *testing.T) {}

func TestSkip(t *testing.T) { t.Skip("later") }
`

const redTest = `package m

import "testing"

func TestTable(t *testing.T) {
	t.Run("good", func(t *testing.T) {})
	t.Run("bad one", func(t *testing.T) {
		t.Errorf("got %d,\nwant %d", 1, 2)
	})
}
`

const panicTest = `package m

import "testing"

func TestA(t *testing.T) {}

func TestB(t *testing.T) {
	var m map[string]int
	m["x"] = 1
}

func TestC(t *testing.T) {}
`

func TestGoTestsAreReported(t *testing.T) {
	type failure struct {
		ID, Kind, File string
		Line           int
	}
	type summary struct {
		Status   string
		Counts   map[string]int
		Failures []failure
		Build    []any
	}
	tests := map[string]struct {
		files map[string]string
		exit  int
		want  summary
	}{
		"green": {
			files: map[string]string{"m_test.go": goodTest},
			want:  summary{Status: "passed", Counts: map[string]int{"total": 2, "passed": 1, "skipped": 1}},
		},
		"red": {
			files: map[string]string{"sub/m_test.go": redTest, "m_test.go": goodTest}, exit: 1,
			want: summary{Status: "failed", Counts: map[string]int{"total": 4, "passed": 2, "skipped": 1, "failed": 1},
				Failures: []failure{{"example.com/m/sub:TestTable/bad_one", "assertion", "sub/m_test.go", 8}}},
		},
		"panic": {
			files: map[string]string{"m_test.go": panicTest}, exit: 1,
			want: summary{Status: "failed", Counts: map[string]int{"total": 3, "passed": 1, "failed": 1, "not_run": 1},
				Failures: []failure{{"example.com/m:TestB", "panic", "m_test.go", 9}}},
		},
		"does not build": {
			files: map[string]string{"m_test.go": "package m\n\nvar x int = \"y\"\n"}, exit: 1,
			want: summary{Status: "failed", Counts: map[string]int{"errored": 1},
				Failures: []failure{{"example.com/m", "build", "m_test.go", 3}},
				Build:    []any{map[string]any{"file": "m_test.go", "line": 3.0, "col": 13.0, "message": `cannot use "y" (untyped string constant) as int value in variable declaration`}}},
		},
		"no tests": {
			files: map[string]string{"m.go": "package m\n"}, exit: 1,
			want: summary{Status: "no_tests"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newSprite(t)
			s.write("repo/go.mod", "module example.com/m\n\ngo 1.20\n")
			for name, content := range test.files {
				s.write("repo/"+name, content)
			}
			o := s.call("test.run", `{"args":["-vet=off"]}`)
			if o.exit != test.exit {
				t.Errorf("exit %d, want %d: %s", o.exit, test.exit, o.stdout)
			}
			raw := o.result.Data
			if o.result.Error != nil {
				raw = o.result.Error.Details
			}
			var report struct {
				Status       string
				Counts       map[string]int
				Failures     []failure
				Build_errors []any //nolint:revive // matches the JSON name
				Fingerprint  string
				Report_path  string
				Log_path     string
			}
			if err := json.Unmarshal(raw, &report); err != nil {
				t.Fatal(err)
			}
			got := summary{Status: report.Status, Failures: report.Failures, Build: report.Build_errors}
			for k, v := range report.Counts {
				if v != 0 {
					if got.Counts == nil {
						got.Counts = map[string]int{}
					}
					got.Counts[k] = v
				}
			}
			if len(got.Failures) == 0 {
				got.Failures = nil
			}
			if len(got.Build) == 0 {
				got.Build = nil
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("report (-want +got):\n%s\n%s", diff, raw)
			}
			if s.read(report.Log_path) == "" || s.read(report.Report_path) == "" || report.Fingerprint == "" {
				t.Error("log, report or fingerprint is missing")
			}
			if test.exit == 1 && test.want.Status == "failed" {
				if data := s.must("test.run", `{"args":["-vet=off"],"allow_red":true}`); data["status"] != "failed" || data["fingerprint"] != report.Fingerprint {
					t.Errorf("allow_red = %v", data)
				}
			}
		})
	}
}

func TestCommandsAreTests(t *testing.T) {
	s := newSprite(t)
	s.write("repo/x", "")
	if data := s.must("test.run", `{"command":"test -f x && echo LATTICE_EVENT {}"}`); data["status"] != "passed" {
		t.Errorf("test.run = %v", data)
	}
	fault := s.fails("test.run", `{"command":["sh","-c","echo broken; exit 3"]}`, 1, "tests_failed")
	var report struct {
		Failures []struct{ Message, Excerpt string }
	}
	if err := json.Unmarshal(fault.Details, &report); err != nil {
		t.Fatal(err)
	}
	if len(report.Failures) != 1 || report.Failures[0].Message != "exit code 3" || report.Failures[0].Excerpt != "broken" {
		t.Errorf("report = %+v", report)
	}
	s.fails("test.run", `{"command":"exec /no/such/program"}`, 1, "test_error")
	s.fails("test.run", `{"command":"sleep 1000","timeout_s":0.2}`, 124, "timeout")
	s.fails("test.run", `{}`, 8, "unknown_framework")
	s.fails("test.run", `{"framework":"cobol"}`, 8, "unknown_framework")
	s.fails("test.run", `{"command":"x","cwd":"../.."}`, 7, "unsafe_path")
}
