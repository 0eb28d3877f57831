//go:build !linux

package sandbox

// Held is unknown on this system.
func (Processes) Held() (all Held) { return all }

// Room is unknown on this system.
func Room() (all Held) { return all }

// Reserve keeps nothing on this system.
type Reserve struct{}

// NewReserve returns a Reserve that keeps nothing.
func NewReserve() *Reserve { return new(Reserve) }

// Keep keeps nothing.
func (r *Reserve) Keep() bool { return true }

// Release frees nothing.
func (r *Reserve) Release() {}
