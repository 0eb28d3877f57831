package setup

import (
	"path/filepath"
	"strings"

	"github.com/spritekit/lattice/orchestrator/fleet"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Fleet reads a fleet file; "" is fleet.toml next to the settings. It reports all findings at once.
func (env *Env) Fleet(file string) (fleet.Document, error) {
	if file == "" {
		config, _ := SettingsPath(env.Getenv)
		file = filepath.Join(filepath.Dir(config), "fleet.toml")
	}
	text, err := ReadBounded(file)
	if err != nil {
		return fleet.Document{}, fault.BadInput("fleet_unreadable", "read the fleet file: %v", err).WithHint("name a file, or write %s; lattice fleet --help shows one", file)
	}
	d, findings := fleet.Parse(text)
	if len(findings) == 0 {
		return d, nil
	}
	lines := []string{}
	for _, f := range findings {
		line := f.Text()
		if f.Hint != "" {
			line += " (" + f.Hint + ")"
		}
		lines = append(lines, line)
	}
	p := fault.BadInput("fleet_invalid", "the fleet file %s is refused:\n  %s", file, strings.Join(lines, "\n  ")).WithHint("edit %s", file)
	return d, p.WithDetails(map[string]any{"file": file, "findings": findings})
}
