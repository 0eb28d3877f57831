package leader

// Loaded is how many runs the leader has in memory.
func (l *Leader) Loaded() int {
	l.drives.mu.Lock()
	defer l.drives.mu.Unlock()
	return len(l.drives.loaded)
}

// KeepLoaded is how many ended ones stay.
const KeepLoaded = keepLoaded
