package skillset

import (
	"context"
	"slices"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// maxDropIns bounds how many skills of a sprite are looked at.
const maxDropIns = 1000

// ListNames lists the entries of /skills that have the name of a skill. Nothing else that the sprite says is trusted.
func ListNames(ctx context.Context, c *sprites.Client, sprite string) ([]string, error) {
	entries, err := c.Files().List(ctx, sprite, skillsDir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if manifests.ValidName(e.Name) && len(names) < maxDropIns {
			names = append(names, e.Name)
		}
	}
	slices.Sort(names)
	return names, nil
}
