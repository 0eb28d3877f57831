package test

import (
	"regexp"
	"slices"
	"strings"

	"github.com/spritekit/lattice/skills/test/results"
)

func newBats() runner {
	return runner{
		name: "bats",
		detect: func(f *folder) string {
			for _, dir := range batsFolders() {
				if found := f.globIn(dir, "*.bats"); len(found) > 0 {
					return found[0]
				}
			}
			return ""
		},
		plan: func(p *project) (plan, error) { return p.batsPlan(nil) },
		again: func(p *project, failed []results.Case) ([]plan, error) {
			var names []string
			for _, c := range failed {
				names = append(names, regexp.QuoteMeta(c.Name))
			}
			one, err := p.batsPlan([]string{"-f", "^(" + strings.Join(names, "|") + ")$"})
			return []plan{one}, err
		},
	}
}

func batsFolders() []string { return []string{".", "test", "tests", "t"} }

func (p *project) batsPlan(more []string) (plan, error) {
	program, err := p.findProgram("bats", "node_modules/.bin", "test/bats/bin", "test/libs/bats/bin")
	if err != nil {
		return plan{}, err
	}
	command := slices.Concat([]string{program, "--tap"}, p.args, more)
	for _, dir := range batsFolders() {
		if len(p.globIn(dir, "*.bats")) > 0 {
			command = append(command, dir)
		}
	}
	return plan{shown: command, stream: func(s *results.Set) results.Stream { return results.NewTAP(s, "") }}, nil
}
