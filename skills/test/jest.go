package test

import (
	"slices"
	"strings"

	"github.com/spritekit/lattice/skills/test/results"
)

func newJest() runner {
	direct := nodeTool("jest", "jest.config.js", "jest.config.ts", "jest.config.mjs", "jest.config.cjs", "jest.config.json")
	scripts := nodeTool("react-scripts")
	return runner{
		name: "jest",
		detect: func(f *folder) string {
			if evidence := direct(f); evidence != "" {
				return evidence
			}
			return scripts(f)
		},
		plan: func(p *project) (plan, error) { return p.jestPlan(nil) },
		again: func(p *project, failed []results.Case) ([]plan, error) {
			files, names := p.filesAndNames(failed)
			one, err := p.jestPlan(append([]string{"--testNamePattern", anyOf(names), "--runTestsByPath"}, files...))
			return []plan{one}, err
		},
		none: func(_ int, tail string) bool { return strings.Contains(tail, "No tests found") },
	}
}

func (p *project) jestPlan(more []string) (plan, error) {
	c, program, err := p.nodeCall("jest")
	command := []string{program, "--ci"}
	if pkg, _ := p.npmPackage(); nodeTool("react-scripts")(&p.folder) != "" && strings.Contains(pkg.Scripts["test"], "react-scripts") {
		if c, program, err = p.nodeCall("react-scripts"); err == nil {
			command = []string{program, "test", "--watchAll=false"}
			c.args = removeFlags(c.args, "test")
		}
	}
	if err != nil {
		return plan{}, err
	}
	report := p.reportPath("jest.json")
	flags := []string{"--json", "--outputFile=" + report, "--testLocationInResults"}
	rest := slices.Concat(withoutValued(removeFlags(c.args, "--watch", "--watchAll", "--json", "--ci"), "--outputFile"), p.args, more)
	return plan{
		shown: slices.Concat(command, rest), argv: slices.Concat(command, flags, rest), env: c.env,
		format: results.FormatJest, reports: []string{report},
		mark: func(line string) (passed, failed bool) {
			return strings.HasPrefix(line, "PASS "), strings.HasPrefix(line, "FAIL ")
		},
	}, nil
}
