package test

import (
	"slices"
	"strings"

	"github.com/spritekit/lattice/skills/test/results"
)

func newMocha() runner {
	return runner{
		name:   "mocha",
		detect: nodeTool("mocha", ".mocharc.js", ".mocharc.cjs", ".mocharc.yaml", ".mocharc.yml", ".mocharc.json", ".mocharc.jsonc"),
		plan:   func(p *project) (plan, error) { return p.mochaPlan(nil) },
		again: func(p *project, failed []results.Case) ([]plan, error) {
			var names []string
			for _, c := range failed {
				_, name, _ := strings.Cut(c.ID, " > ")
				names = append(names, name)
			}
			one, err := p.mochaPlan([]string{"--grep", anyOf(names)})
			return []plan{one}, err
		},
		none: func(_ int, tail string) bool { return strings.Contains(tail, "No test files found") },
	}
}

func (p *project) mochaPlan(more []string) (plan, error) {
	c, program, err := p.nodeCall("mocha")
	if err != nil {
		return plan{}, err
	}
	report := p.reportPath("mocha.json")
	shown := slices.Concat([]string{program}, withoutValued(removeFlags(c.args, "--watch", "-w"), "--reporter", "-R", "--reporter-option", "--reporter-options", "-O"), p.args, more)
	return plan{
		shown: shown, argv: append(slices.Clone(shown), "--reporter", "json", "--reporter-option", "output="+report), env: c.env,
		format: results.FormatMocha, reports: []string{report},
	}, nil
}
