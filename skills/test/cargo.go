package test

import (
	"path"
	"path/filepath"
	"strings"

	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/skills/test/results"
)

// newCargo runs cargo nextest where that is installed and its profile "ci" writes JUnit, else cargo test, whose text is
// read: its JSON is not stable.
func newCargo() runner {
	return runner{
		name:   "cargo",
		detect: func(f *folder) string { return f.firstFile("Cargo.toml") },
		plan: func(p *project) (plan, error) {
			if report := p.nextestReport(); report != "" {
				return p.nextestPlan(report, p.args), nil
			}
			return cargoPlan(append([]string{"cargo", "test", "--no-fail-fast"}, p.args...)), nil
		},
		again: func(p *project, failed []results.Case) ([]plan, error) {
			if report := p.nextestReport(); report != "" {
				var tests []string
				for _, c := range failed {
					tests = append(tests, "test(="+strings.NewReplacer(`\`, `\\`, ")", `\)`).Replace(c.Name)+")")
				}
				return []plan{p.nextestPlan(report, append(beforeDashes(p.args), "-E", strings.Join(tests, "|")))}, nil
			}
			command := append([]string{"cargo", "test", "--no-fail-fast"}, beforeDashes(p.args)...)
			command = append(command, "--", "--exact")
			for _, c := range failed {
				command = append(command, c.Name)
			}
			return []plan{cargoPlan(command)}, nil
		},
	}
}

func cargoPlan(command []string) plan {
	return plan{
		shown: command, env: []string{"CARGO_TERM_COLOR=never"},
		stream: func(s *results.Set) results.Stream { return results.NewLibtest(s) },
	}
}

func (p *project) nextestPlan(report string, args []string) plan {
	locator := results.NewLocator()
	return plan{
		shown: append([]string{"cargo", "nextest", "run", "--profile", "ci", "--no-fail-fast"}, args...), env: []string{"CARGO_TERM_COLOR=never"},
		stream: func(s *results.Set) results.Stream { return results.NewCompiler(s) },
		format: results.FormatJUnit, reports: []string{report},
		adjust: func(c *results.Case) {
			c.ID = c.Suite + " " + c.Name // as nextest says it
			locator.Rust(c)
		},
		mark: func(line string) (passed, failed bool) {
			line = strings.TrimLeft(line, " ")
			return strings.HasPrefix(line, "PASS ["), strings.HasPrefix(line, "FAIL [")
		},
	}
}

// nextestReport is where nextest writes the report of profile ci, "" when it is not installed or writes none.
func (p *project) nextestReport() string {
	if _, err := proc.LookPath("cargo-nextest", proc.Getenv(p.env, "PATH", proc.DefaultPath)); err != nil {
		return ""
	}
	file, inside := "", false
	for line := range strings.Lines(p.readText(".config/nextest.toml")) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") {
			inside = line == "[profile.ci.junit]"
		} else if key, value, ok := strings.Cut(line, "="); inside && ok && strings.TrimSpace(key) == "path" {
			file = strings.Trim(strings.TrimSpace(value), `"'`)
		}
	}
	if file == "" || !filepath.IsLocal(filepath.FromSlash(file)) {
		return ""
	}
	return path.Join(proc.Getenv(p.env, "CARGO_TARGET_DIR", "target"), "nextest/ci", file)
}

// beforeDashes returns the arguments for the tool itself, without those for the program that it runs.
func beforeDashes(args []string) []string {
	for i, a := range args {
		if a == "--" {
			args = args[:i]
			break
		}
	}
	return append([]string{}, args...)
}
