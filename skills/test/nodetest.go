package test

import (
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spritekit/lattice/skills/test/results"
)

// nodeTest is the runner that comes with node. Its TAP is read, which tells more than its JUnit.
func nodeTest() runner {
	return runner{
		name:   "node:test",
		detect: detectNodeTest,
		plan: func(p *project) (plan, error) {
			flags, files := p.nodeTestCall()
			return p.nodePlan(append(flags, p.args...), files)
		},
		again: func(p *project, failed []results.Case) ([]plan, error) {
			flags, _ := p.nodeTestCall()
			var files []string
			for _, c := range failed {
				// A pattern matches the name of a test or of a suite, and a test runs only if those above it do.
				for name := range strings.SplitSeq(c.Name, " > ") {
					if pattern := "--test-name-pattern=" + anyOf([]string{name}); !slices.Contains(flags, pattern) {
						flags = append(flags, pattern)
					}
				}
				if file := p.fromTop(c.File); c.File != "" && !slices.Contains(files, file) {
					files = append(files, file)
				}
			}
			one, err := p.nodePlan(flags, files)
			return []plan{one}, err
		},
	}
}

func detectNodeTest(f *folder) string {
	p, ok := f.npmPackage()
	if scriptTool(p.Scripts["test"]) == "node" {
		return "package.json: scripts.test"
	}
	if !ok || p.Scripts["test"] != "" && !strings.Contains(p.Scripts["test"], "no test specified") {
		return ""
	}
	for _, dir := range []string{".", "test", "tests"} {
		for _, pattern := range []string{"*.test.js", "*.test.mjs", "*.test.cjs", "*.test.ts", "test-*.js", "*.js", "*.mjs"} {
			for _, file := range f.globIn(dir, pattern) {
				if text := f.readText(file); strings.Contains(text, `"node:test"`) || strings.Contains(text, `'node:test'`) {
					return file
				}
			}
		}
	}
	return ""
}

// nodeTestCall takes the project's own flags and files from its script, patterns expanded as the shell would.
func (p *project) nodeTestCall() (flags, files []string) {
	pkg, _ := p.npmPackage()
	c, ok := scriptCall(pkg.Scripts["test"], "node")
	if !ok {
		return nil, nil
	}
	for i := 0; i < len(c.args); i++ {
		switch a := c.args[i]; {
		case a == "--test" || a == "--watch" || strings.HasPrefix(a, "--test-reporter"):
			if a == "--test-reporter" || a == "--test-reporter-destination" {
				i++
			}
		case a == "--import" || a == "--require" || a == "-r" || a == "--loader" || a == "--experimental-loader" || a == "--env-file":
			flags = append(flags, a)
			if i++; i < len(c.args) {
				flags = append(flags, c.args[i])
			}
		case strings.HasPrefix(a, "-"):
			flags = append(flags, a)
		case strings.ContainsAny(a, "*?[") && filepath.IsLocal(a):
			if found := p.globIn(path.Dir(a), path.Base(a)); len(found) > 0 && !strings.ContainsAny(path.Dir(a), "*?[") {
				files = append(files, found...)
			} else {
				files = append(files, a) // a newer node expands it itself
			}
		default:
			files = append(files, a)
		}
	}
	return flags, files
}

func (p *project) nodePlan(flags, files []string) (plan, error) {
	report := p.reportPath("node.tap")
	return plan{
		shown: slices.Concat([]string{"node", "--test"}, flags, files),
		argv: slices.Concat([]string{
			"node", "--test", "--test-reporter=spec", "--test-reporter-destination=stdout", "--test-reporter=tap", "--test-reporter-destination=" + report,
		}, flags, files),
		format: results.FormatTAP, reports: []string{report},
		mark: func(line string) (passed, failed bool) {
			line = strings.TrimLeft(line, " ")
			return strings.HasPrefix(line, "✔ "), strings.HasPrefix(line, "✖ ")
		},
	}, nil
}

// fromTop is a file of the report, which is relative to the repository, relative to the project's folder.
func (p *project) fromTop(file string) string {
	if filepath.IsAbs(file) {
		return file
	}
	rel, err := filepath.Rel(p.dir, filepath.Join(p.top, file))
	if err != nil {
		return file
	}
	return filepath.ToSlash(rel)
}
