package setup

import (
	"os"

	"github.com/spritekit/lattice/orchestrator/board"
)

// Boards returns the folders whose boards are shown: those of the settings, else $LATTICE_ROOT, else the nearest one.
func (env *Env) Boards() []string {
	if len(env.Settings.Boards) > 0 {
		return env.Paths(env.Settings.Boards)
	}
	folder := env.Getenv("LATTICE_ROOT")
	if here, err := os.Getwd(); folder == "" && err == nil {
		folder, _ = board.Find(here) // "" if there is none
	}
	if folder == "" {
		return nil
	}
	return []string{folder}
}
