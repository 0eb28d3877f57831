package leader

import (
	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/compile"
	"github.com/spritekit/lattice/orchestrator/policy"
)

// setDefaults replaces functions that are left out.
func (c *Config) setDefaults() {
	if c.Policy == nil {
		c.Policy = func() ([]policy.Layer, error) { return nil, nil }
	}
	if c.Settings == nil {
		c.Settings = func() map[string]string { return nil }
	}
	if c.Flows.Sources == nil {
		c.Flows.Sources = func() (compile.Sources, error) { return compile.Sources{Tools: manifests.Lookup}, nil }
	}
}
