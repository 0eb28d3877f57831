package sprite

import (
	"context"
	"errors"
	"io/fs"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/leader"
	"github.com/spritekit/lattice/orchestrator/leader/home"
	"github.com/spritekit/lattice/orchestrator/setup"
)

// findOwners are the runs that have not ended, by the name of their sprite.
func findOwners(ctx context.Context, env *setup.Env) (map[string]api.RunView, error) {
	home := home.Home(env.Home)
	client := api.NewClient(home.Socket())
	defer client.Close()
	runs, err := client.Runs(ctx, api.RunList{Open: true})
	if errors.Is(err, api.ErrGone) { // there is no leader: the sprites are remote
		runs, err = leader.Peek(env.StoreAddress(), 0)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil
		}
	}
	owners := map[string]api.RunView{}
	for _, r := range runs {
		if r.Sprite != "" && !r.Status.Ended() {
			owners[r.Sprite] = r
		}
	}
	return owners, err
}
