// Command testreport reads the events of "go test -json" from stdin and prints a report for people: one line per
// package, the output of each failed test, and at the end each reason for which tests were skipped, with the tests.
// Its last line is "N passed, N failed, N skipped".
//
//	{ go test -json ./...; echo "exit $?"; } | testreport [-allow FILE] [-rerun N] [-slow N] [COMMAND…]
//
// The last line is the status of "go test". One that is not 0 fails the report unless the failed tests explain it.
//
// With -allow each skip must match a line of FILE: a regular expression for the reason, in front of which blank lines
// and lines that begin with # are ignored.
//
// With -rerun up to N failed tests are run again, each alone and up to twice, with COMMAND ("go test" with its flags). A
// test that passes then is listed as unstable and does not fail the report. A package that failed outside its tests is
// not run again.
//
// The last lines of the output of tests that failed are repeated before the last line.
//
// With -slow the N tests that took longest are listed, with their seconds.
//
// It exits 1 when a test or a build failed or a skip is not allowed, and 2 when FILE cannot be read.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
)

func main() {
	allow := flag.String("allow", "", "`file` of regular expressions, one of which must match each reason to skip")
	rerun := flag.Int("rerun", 0, "run up to this `number` of failed tests again, alone")
	slow := flag.Int("slow", 0, "list this `number` of the slowest tests")
	flag.Parse()
	allowed, err := readPatterns(*allow)
	if err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		os.Exit(2)
	}
	r := newReport(os.Stdout)
	if err := r.read(os.Stdin); err != nil {
		fmt.Fprintln(os.Stderr, "testreport:", err)
		os.Exit(1)
	}
	r.runAgain(*rerun, func(t id) bool { return passesAlone(flag.Args(), t) })
	r.listSlowest(*slow)
	if !r.printEnd(allowed) {
		os.Exit(1)
	}
}

// readPatterns reads the patterns of file. Without a file it returns nil, which allows every skip.
func readPatterns(file string) ([]*regexp.Regexp, error) {
	if file == "" {
		return nil, nil
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	patterns := []*regexp.Regexp{}
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		p, err := regexp.Compile(line)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		patterns = append(patterns, p)
	}
	return patterns, nil
}

// event is one line of "go test -json"; see "go doc test2json".
type event struct {
	Action, Package, Test, Output string
	Elapsed                       float64 // seconds
}

// id names a test. An empty test is the package itself.
type id struct{ pkg, test string }

type report struct {
	out                     io.Writer
	output                  map[id][]string // of tests and packages under way
	failedTests             map[string][]id // by package
	failures                map[id][]string // the output of each test that failed at first
	unstable                []id            // tests that failed at first and then passed
	status                  string          // of go test, "" if it is not known
	seconds                 map[id]float64  // of each test that ended
	passed, failed, skipped int
	reasons                 map[string][]id // the tests that each reason skipped
}

func newReport(out io.Writer) *report {
	return &report{out: out, output: map[id][]string{}, failedTests: map[string][]id{}, failures: map[id][]string{}, reasons: map[string][]id{}, seconds: map[id]float64{}}
}

// read takes events until the stream ends. A line that is not an event is printed unchanged.
func (r *report) read(in io.Reader) error {
	lines := bufio.NewReader(in)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if status, ok := strings.CutPrefix(string(line), "exit "); ok {
				r.status = strings.TrimSpace(status)
			} else if !bytes.HasPrefix(line, []byte("{")) || json.Unmarshal(line, &e) != nil || e.Action == "" {
				r.out.Write(line)
			} else {
				r.takeEvent(e)
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (r *report) takeEvent(e event) {
	at := id{e.Package, e.Test}
	switch e.Action {
	case "output":
		r.output[at] = append(r.output[at], e.Output)
		return
	case "build-output":
		fmt.Fprint(r.out, e.Output)
		return
	case "pass", "fail", "skip":
	default:
		return
	}
	if e.Test == "" {
		r.endPackage(e)
	} else {
		r.endTest(e.Action, at)
		r.seconds[at] = e.Elapsed
		delete(r.output, at)
	}
}

func (r *report) endTest(action string, at id) {
	switch action {
	case "pass":
		r.passed++
	case "fail":
		r.failed++
		r.failedTests[at.pkg] = append(r.failedTests[at.pkg], at)
		r.failures[at] = r.output[at]
		fmt.Fprint(r.out, strings.Join(r.output[at], ""))
	case "skip":
		r.skipped++
		reason := skipReason(r.output[at])
		r.reasons[reason] = append(r.reasons[reason], at)
	}
}

// endPackage prints the package's line. A package whose tests did not all end (a panic, a timeout, a build) counts as a
// failure beside those of its tests, and everything it printed follows.
func (r *report) endPackage(e event) {
	ended := slices.Contains(r.output[id{e.Package, ""}], "FAIL\n") // package testing prints it after the last test
	if e.Action == "fail" && !(ended && len(r.failedTests[e.Package]) > 0) {
		r.failed++
		for at, output := range r.output {
			if at.pkg == e.Package && at.test != "" {
				fmt.Fprint(r.out, strings.Join(output, ""))
			}
		}
		own := r.output[id{e.Package, ""}]
		fmt.Fprint(r.out, strings.Join(own[:max(0, len(own)-1)], ""))
	}
	if own := r.output[id{e.Package, ""}]; len(own) > 0 {
		fmt.Fprint(r.out, own[len(own)-1]) // "ok  	package	1.2s", as go test prints it
	}
	for at := range r.output {
		if at.pkg == e.Package {
			delete(r.output, at)
		}
	}
}

// place matches the file and line that testing writes in front of a message.
var place = regexp.MustCompile(`^\s*[\w.-]+\.go:\d+: `)

// scriptSkip matches the command of a testscript that skips it, behind its conditions, as the script's log shows it.
var scriptSkip = regexp.MustCompile(`^\s*> (?:\[[^]]*\] *)*skip '?(.*?)'?$`)

// skipReason returns the message of t.Skip in the output of a test, which is its last message. The message of a
// testscript is its whole log: the reason is the argument of its last skip, since one whose condition does not hold is
// logged too.
func skipReason(output []string) string {
	var message []string
	script := ""
	for line := range strings.Lines(strings.Join(output, "")) {
		trimmed := strings.TrimSpace(line)
		skip := scriptSkip.FindStringSubmatch(strings.TrimRight(line, "\n"))
		switch {
		case skip != nil:
			script = skip[1]
		case trimmed == "", strings.HasPrefix(trimmed, "=== "), strings.HasPrefix(trimmed, "--- "):
		case place.MatchString(line):
			message = []string{strings.TrimSpace(place.ReplaceAllString(line, ""))}
		default:
			message = append(message, trimmed)
		}
	}
	if reason := cmp.Or(script, strings.Join(message, " ")); reason != "" {
		return reason
	}
	return "no reason given"
}

// printEnd prints the skipped tests by reason and the closing line. It reports whether all is well.
func (r *report) printEnd(allowed []*regexp.Regexp) bool {
	reasons := slices.Collect(maps.Keys(r.reasons))
	slices.SortFunc(reasons, func(a, b string) int {
		return cmp.Or(cmp.Compare(len(r.reasons[b]), len(r.reasons[a])), cmp.Compare(a, b))
	})
	if len(reasons) > 0 {
		fmt.Fprintf(r.out, "\nSkipped, by reason:\n")
	}
	refused := 0
	for _, reason := range reasons {
		tests := r.reasons[reason]
		mark := " "
		if !isAllowed(allowed, reason) {
			mark = "!"
			refused += len(tests)
		}
		fmt.Fprintf(r.out, "%s %3d  %s\n", mark, len(tests), reason)
		for i, at := range tests {
			if i == 3 && mark == " " {
				fmt.Fprintf(r.out, "         and %d more\n", len(tests)-i)
				break
			}
			fmt.Fprintf(r.out, "         %s %s\n", at.pkg, at.test)
		}
	}
	if refused > 0 {
		fmt.Fprintf(r.out, "\n%d skips, marked with !, are not expected here: install what they need, or list the reason.\n", refused)
	}
	r.repeatFailures()
	if len(r.unstable) > 0 {
		fmt.Fprintf(r.out, "\nUnstable, since they failed at first and passed alone:\n")
		for _, at := range r.unstable {
			fmt.Fprintf(r.out, "         %s %s\n", at.pkg, at.test)
		}
	}
	fmt.Fprintf(r.out, "\n%d passed, %d failed, %d skipped\n", r.passed, r.failed, r.skipped)
	if r.failed == 0 && len(r.unstable) == 0 && r.status != "" && r.status != "0" {
		fmt.Fprintf(r.out, "go test ended with %s, although no test failed\n", r.status)
		return false
	}
	return r.failed == 0 && refused == 0
}

// repeatFailures prints the last lines of each failed test again, where those who read only the end of a long log see them.
func (r *report) repeatFailures() {
	for _, at := range slices.SortedFunc(maps.Keys(r.failures), compareIDs) {
		lines := r.failures[at]
		fmt.Fprintf(r.out, "\nFailed: %s %s\n%s", at.pkg, at.test, strings.Join(lines[max(0, len(lines)-40):], ""))
	}
}

func compareIDs(a, b id) int { return cmp.Or(cmp.Compare(a.pkg, b.pkg), cmp.Compare(a.test, b.test)) }

// listSlowest prints the limit slowest tests that have no subtests.
func (r *report) listSlowest(limit int) {
	tests := maps.Clone(r.seconds)
	for at := range r.seconds {
		for end := strings.LastIndexByte(at.test, '/'); end > 0; end = strings.LastIndexByte(at.test[:end], '/') {
			delete(tests, id{at.pkg, at.test[:end]})
		}
	}
	slowest := slices.SortedFunc(maps.Keys(tests), func(a, b id) int {
		return cmp.Or(cmp.Compare(tests[b], tests[a]), cmp.Compare(a.pkg, b.pkg), cmp.Compare(a.test, b.test))
	})
	slowest = slowest[:min(limit, len(slowest))]
	if len(slowest) > 0 {
		fmt.Fprintf(r.out, "\nSlowest tests:\n")
	}
	for _, at := range slowest {
		fmt.Fprintf(r.out, "%8.1f s  %s %s\n", tests[at], at.pkg, at.test)
	}
}

// runAgain asks passes about each failed test and counts those that pass. It does nothing if more than limit tests failed:
// then the fault is rarely in the tests.
func (r *report) runAgain(limit int, passes func(id) bool) {
	var failed []id
	for _, tests := range r.failedTests {
		for _, t := range tests {
			if !slices.ContainsFunc(tests, func(sub id) bool { return strings.HasPrefix(sub.test, t.test+"/") }) {
				failed = append(failed, t)
			}
		}
	}
	if len(failed) > limit {
		return
	}
	slices.SortFunc(failed, compareIDs)
	for _, t := range failed {
		for range 2 {
			fmt.Fprintf(r.out, "run again: %s %s\n", t.pkg, t.test)
			if passes(t) {
				r.unstable = append(r.unstable, t)
				r.countAsPassed(t)
				break
			}
		}
	}
}

// countAsPassed counts a failed test as passed, and each test around it that has no other failed test.
func (r *report) countAsPassed(t id) {
	for {
		tests := slices.DeleteFunc(r.failedTests[t.pkg], func(other id) bool { return other == t })
		r.failedTests[t.pkg] = tests
		r.failed--
		r.passed++
		end := strings.LastIndexByte(t.test, '/')
		if end < 0 {
			return
		}
		t.test = t.test[:end]
		if !slices.Contains(tests, t) || slices.ContainsFunc(tests, func(sub id) bool { return strings.HasPrefix(sub.test, t.test+"/") }) {
			return
		}
	}
}

// passesAlone runs one test alone.
func passesAlone(command []string, t id) bool {
	if len(command) == 0 {
		command = []string{"go", "test"}
	}
	elements := strings.Split(t.test, "/")
	for i, e := range elements {
		elements[i] = "^" + regexp.QuoteMeta(e) + "$"
	}
	args := append(slices.Clone(command[1:]), "-count=1", "-run", strings.Join(elements, "/"), t.pkg)
	cmd := exec.Command(command[0], args...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd.Run() == nil
}

func isAllowed(allowed []*regexp.Regexp, reason string) bool {
	if allowed == nil {
		return true
	}
	return slices.ContainsFunc(allowed, func(p *regexp.Regexp) bool { return p.MatchString(reason) })
}
