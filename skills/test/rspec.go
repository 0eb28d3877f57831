package test

import (
	"slices"
	"strings"

	"github.com/spritekit/lattice/skills/test/results"
)

func newRSpec() runner {
	return runner{
		name: "rspec",
		detect: func(f *folder) string {
			if f.hasFile(".rspec") {
				return ".rspec"
			}
			for _, file := range []string{"Gemfile", "gems.rb"} {
				if strings.Contains(f.readText(file), "rspec") {
					return file + ": rspec"
				}
			}
			if found := f.globIn("spec", "*_spec.rb"); len(found) > 0 {
				return found[0]
			}
			return ""
		},
		plan: func(p *project) (plan, error) { return p.rspecPlan(p.args) },
		again: func(p *project, failed []results.Case) ([]plan, error) {
			var ids []string
			for _, c := range failed {
				ids = append(ids, c.ID)
			}
			one, err := p.rspecPlan(ids)
			return []plan{one}, err
		},
	}
}

func (p *project) rspecPlan(args []string) (plan, error) {
	command := []string{"rspec"}
	if p.hasFile("Gemfile.lock") {
		if _, err := p.findProgram("bundle"); err == nil {
			command = []string{"bundle", "exec", "rspec"}
		}
	}
	report := p.reportPath("rspec.json")
	return plan{
		shown: slices.Concat(command, args), argv: slices.Concat(command, []string{"--no-color", "--format", "progress", "--format", "json", "--out", report}, args),
		format: results.FormatRSpec, reports: []string{report},
	}, nil
}
