package test

import (
	"slices"
	"strings"

	"github.com/spritekit/lattice/skills/test/results"
)

// newGradle reads the reports below build/test-results. Gradle does not run tests again that are up to date, and their old
// report does not describe this run; so the results are removed first.
func newGradle() runner {
	return runner{
		name: "gradle",
		detect: func(f *folder) string {
			return f.firstFile("build.gradle", "build.gradle.kts", "settings.gradle", "settings.gradle.kts")
		},
		plan: func(p *project) (plan, error) { return p.gradlePlan(nil), nil },
		again: func(p *project, failed []results.Case) ([]plan, error) {
			var more []string
			for _, test := range javaTests(failed, ".") {
				more = append(more, "--tests", test)
			}
			return []plan{p.gradlePlan(more)}, nil
		},
	}
}

func (p *project) gradlePlan(more []string) plan {
	program := "gradle"
	if p.hasFile("gradlew") {
		program = "./gradlew"
	}
	one := javaPlan(slices.Concat([]string{program, "--console=plain", "--continue", "cleanTest", "test"}, p.args, more), ".")
	one.reports = []string{"**/build/test-results/**/TEST-*.xml"}
	one.module = func(report string) string {
		i := strings.LastIndex("/"+report, "/build/test-results/")
		return "." + ("/" + report)[:max(i, 0)]
	}
	one.mark = func(line string) (passed, failed bool) {
		return strings.HasSuffix(line, " PASSED"), strings.HasSuffix(line, " FAILED")
	}
	return one
}
