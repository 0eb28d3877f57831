package test

import (
	"slices"
	"strings"

	"github.com/spritekit/lattice/skills/test/results"
	"github.com/spritekit/lattice/spritekit/text"
)

// newMinitest is for projects in Ruby whose tests are classes: by their Rakefile's task test, else file by file.
func newMinitest() runner {
	return runner{
		name: "minitest",
		detect: func(f *folder) string {
			if file := f.firstFile(rakefiles...); file != "" && strings.Contains(f.readText(file), "TestTask") {
				return file + ": TestTask"
			}
			for _, file := range []string{"Gemfile", "gems.rb"} {
				if strings.Contains(f.readText(file), "minitest") {
					return file + ": minitest"
				}
			}
			if files := f.rubyTests(); len(files) > 0 {
				return files[0]
			}
			return ""
		},
		plan: func(p *project) (plan, error) { return p.minitestPlan(p.args) },
		again: func(p *project, failed []results.Case) ([]plan, error) {
			var names []string
			for _, c := range failed {
				names = append(names, c.Name)
			}
			one, err := p.minitestPlan([]string{"--name=/" + anyOf(names) + "/"})
			return []plan{one}, err
		},
		none: func(_ int, tail string) bool { return strings.Contains(tail, "0 runs, 0 assertions") },
	}
}

var rakefiles = []string{"Rakefile", "rakefile", "Rakefile.rb", "rakefile.rb"}

// rubyTests are the files of tests in the two usual forms of their names.
func (f *folder) rubyTests() []string {
	return slices.Concat(f.globIn("test", "test_*.rb"), f.globIn("test", "*_test.rb"))
}

// requireTests loads all files of tests, which then run at the end of the process.
const requireTests = `Dir["test/**/{test_*,*_test}.rb"].sort.each { |f| require File.expand_path(f) }`

// minitestPlan hands args to minitest itself.
func (p *project) minitestPlan(args []string) (plan, error) {
	var command []string
	if p.hasFile("Gemfile.lock") {
		if _, err := p.findProgram("bundle"); err == nil {
			command = []string{"bundle", "exec"}
		}
	}
	one := plan{stream: func(s *results.Set) results.Stream { return results.NewMinitest(s) }}
	if file := p.firstFile(rakefiles...); file != "" && strings.Contains(p.readText(file), "TestTask") {
		one.shown = append(command, "rake", "test", "TESTOPTS="+text.ShellLine(append([]string{"-v"}, args...)))
		return one, nil
	}
	one.shown = slices.Concat(command, []string{"ruby", "-Ilib", "-Itest", "-e", requireTests, "--", "-v"}, args)
	return one, nil
}
