package test

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/spritekit/lattice/skills/test/results"
)

func newDotnet() runner {
	return runner{
		name: "dotnet",
		detect: func(f *folder) string {
			for _, pattern := range []string{"*.sln", "*.slnx", "*.csproj", "*.fsproj", "*.vbproj"} {
				if found := f.globIn(".", pattern); len(found) > 0 {
					return found[0]
				}
			}
			return ""
		},
		plan: func(p *project) (plan, error) { return p.dotnetPlan(nil) },
		again: func(p *project, failed []results.Case) ([]plan, error) {
			var names []string
			for _, c := range failed {
				name, _, _ := strings.Cut(c.ID, "(") // without the arguments of a theory
				if name = "FullyQualifiedName=" + strings.NewReplacer(`\`, `\\`, "|", `\|`, "&", `\&`, "=", `\=`, "!", `\!`, "~", `\~`).Replace(name); !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
			one, err := p.dotnetPlan([]string{"--filter", strings.Join(names, "|")})
			return []plan{one}, err
		},
	}
}

func (p *project) dotnetPlan(more []string) (plan, error) {
	report := p.reportPath("*.trx")
	shown := slices.Concat([]string{"dotnet", "test", "--nologo"}, p.args, more)
	return plan{
		shown: shown, argv: append(slices.Clone(shown), "--logger", "trx", "--results-directory", filepath.Dir(report)),
		env:    []string{"DOTNET_CLI_TELEMETRY_OPTOUT=1", "DOTNET_NOLOGO=1"},
		stream: func(s *results.Set) results.Stream { return results.NewCompiler(s) },
		format: results.FormatTRX, reports: []string{report},
		mark: func(line string) (passed, failed bool) {
			line = strings.TrimLeft(line, " ")
			return strings.HasPrefix(line, "Passed "), strings.HasPrefix(line, "Failed ") && strings.HasSuffix(line, "]")
		},
	}, nil
}
