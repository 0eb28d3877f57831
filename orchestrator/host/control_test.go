package host

import (
	"testing"
)

// Clients fall back to exec where there is no control channel.
func TestHostsHaveNoControlChannels(t *testing.T) {
	w := newWorld(t, t.TempDir(), func(string) {})
	w.sprite("s")
	var out map[string]any
	if status := w.call("GET", "/v1/sprites/s/control", "", &out); status != 404 || out["error"] != "not_found" {
		t.Errorf("GET control = %d, %v, want 404", status, out)
	}
}
