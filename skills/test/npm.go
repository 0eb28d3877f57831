package test

import "strings"

// newNPM runs the script "test" of a package whose runner is none of those above: its exit code is the verdict.
func newNPM() runner {
	return runner{
		name: "npm",
		detect: func(f *folder) string {
			p, _ := f.npmPackage()
			if script := p.Scripts["test"]; script == "" || strings.Contains(script, "no test specified") {
				return ""
			}
			return "package.json: scripts.test"
		},
		plan: func(p *project) (plan, error) {
			tool := "npm"
			switch {
			case p.hasFile("pnpm-lock.yaml"):
				tool = "pnpm"
			case p.hasFile("yarn.lock"):
				tool = "yarn"
			}
			command := []string{tool, "test"}
			if len(p.args) > 0 {
				command = append(append(command, "--"), p.args...)
			}
			return plan{shown: command}, nil
		},
	}
}
