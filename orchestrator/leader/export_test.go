package leader

// Loaded is how many runs the leader has in memory.
func (l *Leader) Loaded() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.runs)
}

// KeepLoaded is how many ended ones stay.
const KeepLoaded = keepLoaded
