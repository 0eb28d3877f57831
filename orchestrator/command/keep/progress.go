package keep

import (
	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
)

// showStore returns a function that shows how far a work on the store has come.
func showStore(p *cli.Progress) func(api.StoreProgress) {
	return func(s api.StoreProgress) {
		if s.Of > 0 {
			p.ShowPart(s.Doing, s.Done, s.Of)
		}
	}
}
