package contract

import (
	"fmt"
	"os"
)

// Status is the verdict on a promise.
type Status string

const (
	Kept    Status = "kept"
	Broken  Status = "broken"
	Skipped Status = "skipped" // the target does not claim it; Findings says why
)

// Report holds the findings of one check.
type Report struct {
	Check    string   `json:"check"`
	Status   Status   `json:"status"`
	Findings []string `json:"findings,omitempty"`
}

// Test drives target through all checks, in workspaces below dir, and yields a report for each as it is known.
func Test(dir string, target Target, yield func(Report)) {
	for _, check := range Checks() {
		yield(runCheck(dir, check, target))
	}
}

func runCheck(dir string, check Check, target Target) Report {
	r := &recorder{dir: dir, report: Report{Check: check.Name, Status: Kept}}
	defer r.removeAll()
	func() {
		defer func() {
			if p := recover(); p != nil && p != (abandoned{}) {
				panic(p)
			}
		}()
		check.Run(r, target)
	}()
	return r.report
}

// recorder is the T of Test.
type recorder struct {
	dir    string
	made   []string
	report Report
}

// abandoned ends a check early.
type abandoned struct{}

func (r *recorder) Helper() {}

func (r *recorder) Errorf(format string, args ...any) {
	r.report.Status = Broken
	r.report.Findings = append(r.report.Findings, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	panic(abandoned{})
}

func (r *recorder) Skip(reason ...any) {
	if r.report.Status == Kept {
		r.report.Status = Skipped
		r.report.Findings = []string{fmt.Sprint(reason...)}
	}
	panic(abandoned{})
}

func (r *recorder) TempDir() string {
	dir, err := os.MkdirTemp(r.dir, "check-")
	if err != nil {
		r.Fatalf("make a workspace: %v", err)
	}
	r.made = append(r.made, dir)
	return dir
}

func (r *recorder) removeAll() {
	for _, dir := range r.made {
		os.RemoveAll(dir) // in the caller's folder, which removes the rest
	}
}
