package keep

import (
	"strconv"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
)

// showStore returns a function that shows how far a work on the store has come.
func showStore(p *cli.Progress) func(api.StoreProgress) {
	return func(s api.StoreProgress) {
		if s.Of > 0 {
			p.Show(s.Doing, s.Done, s.Of, func(n uint64) string { return strconv.FormatUint(n, 10) })
		}
	}
}
