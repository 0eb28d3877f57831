package leader

import "github.com/spritekit/lattice/orchestrator/leader/drive"

// Loaded is how many runs the leader has in memory.
func (l *Leader) Loaded() int { return l.drives.CountLoaded() }

// KeepLoaded is how many ended ones stay.
const KeepLoaded = drive.KeepLoaded
