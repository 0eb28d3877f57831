package test

import (
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spritekit/lattice/skills/test/results"
)

const frameworkGo = "go"

func newGolang() runner {
	return runner{
		name:   frameworkGo,
		detect: func(f *folder) string { return f.firstFile("go.mod", "go.work") },
		plan: func(p *project) (plan, error) {
			own, binary := splitGoArgs(p.args)
			command := append([]string{"go", "test", "-json"}, own...)
			if !slices.ContainsFunc(own, isGoPackage) {
				command = append(command, p.goPackages()...)
			}
			return p.goPlan(append(command, binary...)), nil
		},
		again: func(p *project, failed []results.Case) ([]plan, error) {
			var plans []plan
			tests := map[string][]string{}
			for _, c := range failed {
				if tests[c.Suite] == nil {
					plans = append(plans, plan{shown: []string{c.Suite}})
				}
				if tests[c.Suite] = append(tests[c.Suite], goPattern(c.Name)); c.Package {
					tests[c.Suite] = []string{""}
				}
			}
			for i, group := range plans {
				pkg := group.shown[0]
				own, binary := splitGoArgs(p.args)
				rest := goFlags(own)
				if pattern := strings.Join(tests[pkg], "|"); pattern != "" {
					rest = append(rest, "-run", pattern)
				}
				rest = slices.Concat(rest, []string{pkg}, binary)
				plans[i] = p.goPlan(append([]string{"go", "test", "-count=1"}, rest...))
				plans[i].argv = append([]string{"go", "test", "-json", "-count=1", "-vet=off"}, rest...)
			}
			return plans, nil
		},
		packages: true,
	}
}

func (p *project) goPlan(command []string) plan {
	modules := p.goModules()
	return plan{shown: command, stream: func(s *results.Set) results.Stream { return results.NewGoTest(s, p.dir, modules) }}
}

// goPattern matches one test exactly, with each level of sub-tests.
func goPattern(name string) string {
	parts := strings.Split(name, "/")
	for i, p := range parts {
		parts[i] = "^" + regexp.QuoteMeta(p) + "$"
	}
	return strings.Join(parts, "/")
}

func isGoPackage(arg string) bool {
	return arg == "." || arg == ".." || arg == "..." || arg == "all" || strings.HasPrefix(arg, "./") || strings.HasPrefix(arg, "../")
}

// splitGoArgs splits arguments at -args: the first part is for the go command, the second for the test binary.
func splitGoArgs(args []string) (own, binary []string) {
	for i, a := range args {
		if a == "-args" || a == "--args" {
			return args[:i:i], args[i:]
		}
	}
	return args, nil
}

// goFlags returns the arguments of the caller without packages and without flags that select tests.
func goFlags(args []string) []string {
	var kept []string
	for i := 0; i < len(args); i++ {
		name, _, joined := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		switch {
		case isGoPackage(args[i]):
		case strings.HasPrefix(args[i], "-") && slices.Contains([]string{"run", "skip", "count", "vet", "failfast", "shuffle"}, name):
			if !joined && name != "failfast" && name != "vet" {
				i++ // its value
			}
		default:
			kept = append(kept, args[i])
		}
	}
	return kept
}

// goListFlags are those of a caller's flags that say how to build a package, for a list of its tests.
func goListFlags(args []string) []string {
	var kept []string
	args, _ = splitGoArgs(args)
	for i := 0; i < len(args); i++ {
		name, _, joined := strings.Cut(strings.TrimLeft(args[i], "-"), "=")
		if !strings.HasPrefix(args[i], "-") {
			continue
		}
		switch name {
		case "race", "msan", "asan", "trimpath", "vet", "buildvcs":
			kept = append(kept, args[i])
		case "tags", "mod", "modfile", "overlay", "ldflags", "gcflags", "asmflags", "exec", "toolexec", "buildmode", "installsuffix":
			kept = append(kept, args[i])
			if i++; !joined && i < len(args) {
				kept = append(kept, args[i])
			} else {
				i--
			}
		}
	}
	return kept
}

// goChooses reports whether arguments choose tests, so that those that did not run are not missing.
func goChooses(args []string) bool {
	return slices.ContainsFunc(args, func(a string) bool {
		a = strings.TrimLeft(a, "-")
		return strings.HasPrefix(a, "run") || strings.HasPrefix(a, "skip")
	})
}

// goPackages are all below the folder that the caller named; in a workspace of several modules those of each.
func (p *project) goPackages() []string {
	if p.below != "." {
		return []string{"./" + filepath.ToSlash(p.below) + "/..."}
	}
	if p.hasFile("go.mod") {
		return []string{"./..."}
	}
	var all []string
	for _, dir := range p.goUses() {
		all = append(all, "./"+path.Join(dir, "..."))
	}
	if all == nil {
		all = []string{"./..."}
	}
	return all
}

// goUses reads the folders that go.work names; those outside of it are left out.
func (p *project) goUses() []string {
	var dirs []string
	inside := false
	for line := range strings.Lines(p.readText("go.work")) {
		line, _, _ = strings.Cut(line, "//")
		words := strings.Fields(line)
		switch {
		case len(words) == 0:
		case words[0] == "use" && len(words) > 1 && words[1] == "(":
			inside = true
		case words[0] == ")":
			inside = false
		case words[0] == "use" && len(words) > 1:
			dirs = append(dirs, strings.Trim(words[1], `"`))
		case inside:
			dirs = append(dirs, strings.Trim(words[0], `"`))
		}
	}
	return slices.DeleteFunc(dirs, func(dir string) bool { return !filepath.IsLocal(filepath.FromSlash(dir)) })
}

// goModules maps the modules here to their folders.
func (p *project) goModules() map[string]string {
	modules := map[string]string{}
	for _, dir := range append(p.goUses(), ".") {
		for line := range strings.Lines(p.readText(path.Join(dir, "go.mod"))) {
			if words := strings.Fields(line); len(words) >= 2 && words[0] == "module" {
				modules[strings.Trim(words[1], `"`)] = path.Clean(dir)
				break
			}
		}
	}
	return modules
}
