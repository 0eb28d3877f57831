package host

import (
	"math"
	"net/http"
	"strings"
	"testing"
)

// TestNearlyFullDisk: below the reserve of the disk whatever makes it fuller is refused with 507 and the remedy, and the
// rest goes on.
func TestNearlyFullDisk(t *testing.T) {
	w := newWorld(t, t.TempDir(), func(string) {})
	w.sprite("s")
	saved, err := w.client.Checkpoint(w.Context(), "s", "before")
	if err != nil {
		t.Fatal(err)
	}
	fork := "/v1/sprites/s/checkpoints/" + saved.ID + "/fork"
	w.host.core.Config.Reserve = math.MaxInt64
	for _, path := range []string{"/v1/sprites", "/v1/sprites/s/checkpoint", fork} {
		body := map[string]string{"/v1/sprites": `{"name":"more"}`, fork: `{"name":"copy"}`}[path]
		var answer struct{ Error, Message string }
		status := w.call(http.MethodPost, path, body, &answer)
		if status != http.StatusInsufficientStorage || answer.Error != "disk_low" || !strings.Contains(answer.Message, "remove sprites or checkpoints") {
			t.Errorf("POST %s = %d %+v, want 507 disk_low with a remedy", path, status, answer)
		}
	}
	if out, exit := w.sh("s", "echo on"); exit != 0 || out != "on" {
		t.Errorf("exec = %q, exit %d, want it to go on", out, exit)
	}
}
