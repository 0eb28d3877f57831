package test

import (
	"path"
	"slices"
	"strings"

	"github.com/spritekit/lattice/skills/test/results"
)

// newMaven reads the reports of surefire, which are in the project's own folders: only those that this run wrote count.
func newMaven() runner {
	return runner{
		name:   "maven",
		detect: func(f *folder) string { return f.firstFile("pom.xml") },
		plan: func(p *project) (plan, error) {
			return p.mavenPlan(nil)
		},
		again: func(p *project, failed []results.Case) ([]plan, error) {
			one, err := p.mavenPlan([]string{"-Dtest=" + strings.Join(javaTests(failed, "#"), ","), "-DfailIfNoTests=false", "-Dsurefire.failIfNoSpecifiedTests=false"})
			return []plan{one}, err
		},
	}
}

func (p *project) mavenPlan(more []string) (plan, error) {
	program := "mvn"
	if p.hasFile("mvnw") {
		program = "./mvnw"
	}
	one := javaPlan(slices.Concat([]string{program, "-B", "-fae"}, p.args, more, []string{"test"}), "#")
	one.reports = []string{"**/target/surefire-reports/TEST-*.xml"}
	one.module = func(report string) string { return path.Dir(path.Dir(path.Dir(report))) }
	one.mark = nil
	return one, nil
}

// javaPlan makes the parts of a plan that Maven and Gradle share. Their names of tests differ in the part before the method.
func javaPlan(command []string, before string) plan {
	locator := results.NewLocator()
	return plan{
		shown: command, format: results.FormatJUnit,
		stream: func(s *results.Set) results.Stream { return results.NewCompiler(s) },
		adjust: func(c *results.Case) {
			locator.Java(c)
			c.ID = c.Suite + before + strings.TrimSuffix(c.Name, "()")
			if c.Name == "" || c.Name == c.Suite { // its set-up failed
				c.ID, c.Package = c.Suite, c.Status == results.Errored
			}
		},
	}
}

// javaTests are classes and methods, each once, without the parameters that tell the runs of one method apart.
func javaTests(cases []results.Case, before string) []string {
	var tests []string
	for _, c := range cases {
		method := c.Name
		if i := strings.IndexAny(method, "([{ "); i > 0 {
			method = method[:i]
		}
		if test := c.Suite + before + method; !slices.Contains(tests, test) {
			tests = append(tests, test)
		}
	}
	return tests
}
