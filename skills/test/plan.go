package test

import "github.com/spritekit/lattice/skills/test/results"

// runner is a test runner as data: how to detect its projects, which command to run, where the verdict is, and
// how to run single tests again. There is one file for each.
type runner struct {
	name string
	// detect returns the evidence that a folder has tests of this kind, "" if it has none.
	detect func(*folder) string
	// plan is how to run all tests of a project, with the caller's arguments.
	plan func(*project) (plan, error)
	// again makes the plans that run only these tests; nil if the runner cannot. Other tests that run with them
	// does no harm: only the verdicts on these are looked at.
	again func(*project, []results.Case) ([]plan, error)
	// packages: again takes packages that failed outside of their tests, too.
	packages bool
	// none tells from exit code and last output that there was no test, for runners that fail then.
	none func(code int, tail string) bool
}

// plan is one command and where its verdicts are.
type plan struct {
	shown []string // as a person would type it
	argv  []string // with the flags for a report; empty if there are none
	env   []string // beyond the call's
	// stream reads the lines of the output, stdout and stderr; may be nil.
	stream func(*results.Set) results.Stream
	// format and reports describe the files that the command writes: patterns below the project's folder, or paths of project.report.
	format  results.Format
	reports []string
	// suite is the name of the suite of a report that names none, and module the folder whose tests it tells of,
	// relative to the project's; both may be nil.
	suite  func(report string) string
	module func(report string) string
	// adjust names and places cases as this runner's users know them; may be nil.
	adjust func(*results.Case)
	// mark tells from a line of the output that a test ended, for progress; may be nil.
	mark func(line string) (passed, failed bool)
}
