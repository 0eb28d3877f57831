package test

import (
	"regexp"
	"slices"
	"strings"

	"github.com/spritekit/lattice/skills/test/results"
)

func newPHPUnit() runner {
	return runner{
		name: "phpunit",
		detect: func(f *folder) string {
			if file := f.firstFile("phpunit.xml", "phpunit.xml.dist", "phpunit.dist.xml"); file != "" {
				return file
			}
			if strings.Contains(f.readText("composer.json"), `"phpunit/phpunit"`) {
				return "composer.json: phpunit/phpunit"
			}
			return ""
		},
		plan: func(p *project) (plan, error) { return p.phpunitPlan(nil) },
		again: func(p *project, failed []results.Case) ([]plan, error) {
			var names []string
			for _, c := range failed {
				names = append(names, strings.ReplaceAll(regexp.QuoteMeta(c.ID), "/", `\/`))
			}
			one, err := p.phpunitPlan([]string{"--filter", "/^(" + strings.Join(names, "|") + ")( |$)/"})
			return []plan{one}, err
		},
		none: func(_ int, tail string) bool { return strings.Contains(tail, "No tests executed!") },
	}
}

func (p *project) phpunitPlan(more []string) (plan, error) {
	program, err := p.findProgram("phpunit", "vendor/bin")
	if err != nil {
		return plan{}, err
	}
	report := p.reportPath("phpunit.xml")
	locator := results.NewLocator()
	shown := slices.Concat([]string{program}, p.args, more)
	return plan{
		shown: shown, argv: append(slices.Clone(shown), "--log-junit", report),
		format: results.FormatJUnit, reports: []string{report},
		adjust: func(c *results.Case) {
			c.ID = c.Suite + "::" + c.Name
			if first, rest, ok := strings.Cut(c.Detail, "\n"); ok && strings.HasPrefix(first, c.ID) { // it repeats the name
				c.Message, _ = strings.CutPrefix(c.Message, first)
				c.Message = strings.TrimSpace(c.Message)
				c.Detail = rest
			}
			locator.PHP(c)
		},
	}, nil
}
