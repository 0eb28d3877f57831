package test

import (
	"regexp"
	"slices"
	"strings"

	"github.com/spritekit/lattice/skills/test/results"
	"github.com/spritekit/lattice/spritekit/text"
)

// newCTest builds a CMake project and runs its tests: in the build folder that is there, else in a private one, so that the
// repository stays as it is.
func newCTest() runner {
	return runner{
		name: "ctest",
		detect: func(f *folder) string {
			if f.hasFile("CTestTestfile.cmake") {
				return "CTestTestfile.cmake"
			}
			if text := f.readText("CMakeLists.txt"); strings.Contains(text, "enable_testing") || strings.Contains(text, "include(CTest)") {
				return "CMakeLists.txt"
			}
			return ""
		},
		plan: func(p *project) (plan, error) { return p.ctestPlan(nil) },
		again: func(p *project, failed []results.Case) ([]plan, error) {
			var names []string
			for _, c := range failed {
				names = append(names, regexp.QuoteMeta(c.Name))
			}
			one, err := p.ctestPlan([]string{"-R", "^(" + strings.Join(names, "|") + ")$"})
			return []plan{one}, err
		},
		none: func(_ int, tail string) bool { return strings.Contains(tail, "No tests were found!!!") },
	}
}

func (p *project) ctestPlan(more []string) (plan, error) {
	report := p.reportPath("ctest.xml")
	build, private := p.buildFolder(), ""
	switch {
	case build == ".":
	case build != "":
		private = "cmake --build " + text.ShellWord(build) + " && "
	default:
		build = p.scratch + "/build"
		private = "cmake -S . -B " + text.ShellWord(build) + " && cmake --build " + text.ShellWord(build) + " && "
	}
	tests := slices.Concat([]string{"ctest", "--test-dir", build, "--output-on-failure"}, p.args, more)
	line := private + "exec " + text.ShellLine(append(slices.Clone(tests), "--output-junit", report))
	locator := results.NewLocator()
	timeouts := map[string]bool{}
	return plan{
		shown: []string{"sh", "-c", strings.ReplaceAll(private+text.ShellLine(tests), p.scratch+"/build", "build")}, argv: []string{"sh", "-c", line},
		format: results.FormatJUnit, reports: []string{report},
		stream: func(s *results.Set) results.Stream { return &ctestOutput{results.NewCompiler(s), timeouts} },
		adjust: func(c *results.Case) {
			c.ID, c.Suite = c.Name, ""
			if c.Status == results.Skipped && strings.HasPrefix(c.Message, "Unable to find executable") {
				c.Status, c.Kind = results.Errored, results.Setup
			}
			if timeouts[c.Name] {
				c.Kind, c.Message = results.Timeout, "the test did not end in time"
			}
			locator.C(c)
		},
		mark: func(line string) (passed, failed bool) {
			return strings.Contains(line, " Test ") && strings.Contains(line, "   Passed "), strings.Contains(line, " Test ") && strings.Contains(line, "***")
		},
	}, nil
}

// buildFolder is where CMake has built before, "" for nowhere.
func (p *project) buildFolder() string {
	for _, dir := range []string{".", "build", "_build", "out", "cmake-build-debug", "cmake-build-release"} {
		if p.hasFile(dir + "/CTestTestfile.cmake") {
			return dir
		}
	}
	return ""
}

// ctestOutput reads two things that are not in the report: which tests timed out, and why the build failed.
type ctestOutput struct {
	*results.Compiler
	timeouts map[string]bool
}

// Line takes "3/5 Test #3: slow .....***Timeout 0.20 sec".
func (c *ctestOutput) Line(line string) {
	c.Compiler.Line(line)
	before, _, ok := strings.Cut(line, "***Timeout")
	if _, name, is := strings.Cut(before, ": "); ok && is {
		c.timeouts[strings.TrimRight(name, " .")] = true
	}
}
