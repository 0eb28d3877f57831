package leader

import "slices"

// keepLoaded is how many ended runs stay in memory, so that whoever has just decided about one finds it there. An older
// one is loaded again when it is rewound; what it has to show is in the store.
const keepLoaded = 32

// forget lets the oldest ended runs go, with the secrets of their agents. id is one that has ended.
func (l *Leader) forget(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.letGo(id)
}

// letGo is forget, with mu held.
func (l *Leader) letGo(id string) {
	l.ended = append(slices.DeleteFunc(l.ended, func(other string) bool { return other == id }), id)
	for len(l.ended) > keepLoaded {
		oldest := l.ended[0]
		l.ended = slices.Delete(l.ended, 0, 1)
		r := l.runs[oldest]
		if r == nil || r.done != nil || r.timed > 0 || !r.runner.State().Status.Ended() {
			continue // it goes on, and comes back here when it ends
		}
		delete(l.runs, oldest)
		delete(l.secrets, oldest)
	}
}
