package setup

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/policy"
	"github.com/spritekit/lattice/orchestrator/settings"
	"github.com/spritekit/lattice/spritekit/fault"
)

// policyPath returns the path of the server's policy, next to the settings.
func policyPath(getenv func(string) string) string {
	path, _ := SettingsPath(getenv)
	return filepath.Join(filepath.Dir(path), "policy.toml")
}

// ServerPolicy returns the layers of the server's policy: policy.toml, then the tables of the settings.
func (env *Env) ServerPolicy() ([]policy.Layer, error) {
	path := policyPath(env.Getenv)
	config, _ := SettingsPath(env.Getenv)
	short := settingsLayer(config, env.Settings)
	text, err := ReadBounded(path)
	if errors.Is(err, fs.ErrNotExist) {
		return []policy.Layer{short}, nil
	}
	if err != nil {
		return nil, fault.BadInput("policy_invalid", "read the policy: %v", err).WithHint("make %s a file that you can read", path)
	}
	layer, err := ParsePolicy(path, text, false)
	return []policy.Layer{layer, short}, err
}

// policyDigest returns the server's rules as text to compare.
func (env *Env) policyDigest() any {
	layers, err := env.ServerPolicy()
	if err != nil {
		return err.Error()
	}
	for i := range layers {
		layers[i].Source = "" // the same rules in another file are the same
	}
	return layers
}

// settingsLayer returns the rules that the settings hold.
func settingsLayer(path string, s settings.Settings) policy.Layer {
	l := policy.Layer{Source: path}
	l.World.Allow = s.World.Allow
	if len(s.Actions) > 0 {
		l.Actions = map[string]policy.Action{}
	}
	for name, rule := range s.Actions {
		l.Actions[name] = policy.Action{Decision: lattice.Verdict(rule)}
	}
	b := s.Budgets
	l.Budgets = policy.Budgets{Run: budgetOf(b.Run), WorkItem: budgetOf(b.WorkItem), Repository: budgetOf(b.Repository), Day: budgetOf(b.Day)}
	return l
}

// budgetOf returns a budget of the settings as a policy has it.
func budgetOf(b settings.Budget) policy.Budget {
	out := policy.Budget{Time: policy.Duration(b.Time)}
	if b.USD != nil {
		out.USD = *b.USD
	}
	if b.Tokens != nil {
		out.Tokens = int64(*b.Tokens)
	}
	return out
}

// ParsePolicy reads a policy file and reports all findings at once.
func ParsePolicy(path string, text []byte, repository bool) (policy.Layer, error) {
	layer, findings := policy.Parse(path, text)
	if repository {
		findings = append(findings, policy.CheckRepository(layer)...)
	}
	if len(findings) == 0 {
		return layer, nil
	}
	lines := []string{}
	for _, f := range findings {
		lines = append(lines, f.Text())
	}
	p := fault.BadInput("policy_invalid", "the policy in %s is refused:\n  %s", path, strings.Join(lines, "\n  ")).WithHint("edit %s; lattice policy show --default prints an example", path)
	return layer, p.WithDetails(map[string]any{"file": path, "findings": findings})
}
