package test

import (
	"regexp"
	"slices"
	"strings"

	"github.com/spritekit/lattice/skills/test/results"
)

func newVitest() runner {
	return runner{
		name:   "vitest",
		detect: nodeTool("vitest", "vitest.config.ts", "vitest.config.js", "vitest.config.mts", "vitest.config.mjs", "vitest.workspace.ts"),
		plan:   func(p *project) (plan, error) { return p.vitestPlan(nil) },
		again: func(p *project, failed []results.Case) ([]plan, error) {
			files, names := p.filesAndNames(failed)
			one, err := p.vitestPlan(append(files, "-t", anyOf(names)))
			return []plan{one}, err
		},
		none: func(_ int, tail string) bool { return strings.Contains(tail, "No test files found") },
	}
}

func (p *project) vitestPlan(more []string) (plan, error) {
	c, program, err := p.nodeCall("vitest")
	if err != nil {
		return plan{}, err
	}
	args := withoutValued(removeFlags(c.args, "run", "watch", "dev", "--run", "--watch", "-w", "--ui"), "--reporter", "--outputFile")
	shown := slices.Concat([]string{program, "run"}, args, p.args, more)
	report := p.reportPath("vitest.json")
	return plan{
		shown: shown, argv: append(slices.Clone(shown), "--reporter=default", "--reporter=json", "--outputFile.json="+report), env: c.env,
		format: results.FormatJest, reports: []string{report},
		mark: func(line string) (passed, failed bool) {
			line = strings.TrimLeft(line, " ")
			return strings.HasPrefix(line, "✓ "), strings.HasPrefix(line, "× ")
		},
	}, nil
}

// filesAndNames returns the files of tests, each once, and the names that jest and vitest match: titles with spaces
// between.
func (p *project) filesAndNames(cases []results.Case) (files, names []string) {
	for _, c := range cases {
		if file := p.fromTop(c.Suite); !slices.Contains(files, file) {
			files = append(files, file)
		}
		names = append(names, strings.TrimPrefix(c.ID, c.Suite+" > "))
	}
	return files, names
}

// anyOf is a pattern that matches each of the names, whole.
func anyOf(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = regexp.QuoteMeta(name)
	}
	return "^(" + strings.Join(quoted, "|") + ")$"
}
