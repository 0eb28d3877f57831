package leader

// Loaded is how many runs the leader has in memory.
func (l *Leader) Loaded() int { return l.drives.countLoaded() }

// KeepLoaded is how many ended ones stay.
const KeepLoaded = keepLoaded
