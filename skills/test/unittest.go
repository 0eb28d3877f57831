package test

import (
	"strings"

	"github.com/spritekit/lattice/skills/test/results"
)

// newUnittest is for projects in Python that show no sign of pytest.
func newUnittest() runner {
	return runner{
		name: "unittest",
		detect: func(f *folder) string {
			for _, file := range f.pythonTests() {
				if strings.Contains(f.readText(file), "unittest") {
					return file
				}
			}
			return ""
		},
		plan: func(p *project) (plan, error) {
			command := []string{p.findPython(), "-m", "unittest", "discover", "-v"}
			start := p.unittestStart()
			if start != "." {
				command = append(command, "-s", start)
			}
			return p.unittestPlan(append(command, p.args...), start), nil
		},
		again: func(p *project, failed []results.Case) ([]plan, error) {
			command := []string{p.findPython(), "-m", "unittest", "-v"}
			for _, c := range failed {
				command = append(command, c.ID)
			}
			return []plan{p.unittestPlan(command, p.unittestStart())}, nil
		},
		none: func(code int, tail string) bool { return code == 5 || strings.Contains(tail, "\nRan 0 tests in ") },
	}
}

// unittestStart is the folder to search: discovery goes down into packages only.
func (p *project) unittestStart() string {
	for _, dir := range []string{".", "tests", "test"} {
		if len(p.globIn(dir, "test*.py")) > 0 {
			if dir != "." && p.hasFile(dir+"/__init__.py") {
				return "."
			}
			return dir
		}
	}
	return "."
}

func (p *project) unittestPlan(command []string, start string) plan {
	dirs := []string{}
	if start != "." {
		dirs = append(dirs, p.pathOf(start))
	}
	return plan{
		shown: command, env: p.pythonEnv(dirs...),
		stream: func(s *results.Set) results.Stream { return results.NewUnittest(s) },
		mark: func(line string) (passed, failed bool) {
			return strings.HasSuffix(line, " ... ok"), strings.HasSuffix(line, " ... FAIL") || strings.HasSuffix(line, " ... ERROR")
		},
	}
}
