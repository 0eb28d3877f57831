package test

import (
	"cmp"
	"slices"
	"strings"
)

// newMakefile runs the target "test" or "check": its exit code is the verdict.
func newMakefile() runner {
	return runner{
		name: "make",
		detect: func(f *folder) string {
			if file, target := f.makeTarget(); target != "" {
				return file + ": " + target
			}
			return ""
		},
		plan: func(p *project) (plan, error) {
			_, target := p.makeTarget()
			target = cmp.Or(target, "test")
			return plan{shown: append([]string{"make", target}, p.args...)}, nil
		},
	}
}

// makeTarget finds the rule to run.
func (f *folder) makeTarget() (file, target string) {
	if file = f.firstFile("GNUmakefile", "makefile", "Makefile"); file == "" {
		return "", ""
	}
	for line := range strings.Lines(f.readText(file)) {
		names, rest, ok := strings.Cut(line, ":")
		if !ok || strings.HasPrefix(line, "\t") || strings.HasPrefix(line, "#") || strings.HasPrefix(rest, "=") {
			continue
		}
		for _, name := range []string{"test", "check"} {
			if slices.Contains(strings.Fields(names), name) && (target == "" || name == "test") {
				target = name
			}
		}
	}
	return file, target
}
