package test

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spritekit/lattice/skills/test/results"
)

// newProve runs Perl tests, or any program that prints TAP. The harness keeps the output of each file, because its own output
// describes failures only.
func newProve() runner {
	return runner{
		name: "prove",
		detect: func(f *folder) string {
			if found := f.globIn("t", "*.t"); len(found) > 0 {
				return found[0]
			}
			return ""
		},
		plan: func(p *project) (plan, error) { return p.provePlan([]string{"-r", "t"}) },
		again: func(p *project, failed []results.Case) ([]plan, error) {
			var files []string
			for _, c := range failed {
				if !slices.Contains(files, c.Suite) {
					files = append(files, c.Suite)
				}
			}
			one, err := p.provePlan(files)
			return []plan{one}, err
		},
		none: func(_ int, tail string) bool { return strings.Contains(tail, "Result: NOTESTS") },
	}
}

func (p *project) provePlan(what []string) (plan, error) {
	report := p.reportPath("**")
	dir := filepath.Dir(report)
	command := []string{"prove", "--merge"}
	if p.hasDir("lib") {
		command = append(command, "-l")
	}
	return plan{
		shown: slices.Concat(command, p.args, what), env: []string{"PERL_TEST_HARNESS_DUMP_TAP=" + dir},
		format: results.FormatTAP, reports: []string{path.Join(dir, "**")},
		suite: func(report string) string {
			rel, err := filepath.Rel(dir, report)
			if err != nil {
				return ""
			}
			return filepath.ToSlash(rel)
		},
		mark: func(line string) (passed, failed bool) {
			return strings.HasSuffix(line, ".. ok"), strings.HasPrefix(line, "Failed ") && strings.Contains(line, " subtests")
		},
	}, nil
}
