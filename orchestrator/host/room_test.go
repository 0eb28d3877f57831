package host

import (
	"math"
	"net/http"
	"strings"
	"testing"
)

func TestRoom(t *testing.T) {
	const mib = 1 << 20
	for _, tt := range []struct {
		name    string
		left    room
		reserve int64 // of the configuration
		want    string
	}{
		{"a large disk keeps a twentieth", room{Bytes: 49 << 30, TotalBytes: 1000 << 30}, 0, "50176 MiB are free of which 51200 stay so"},
		{"enough of a large disk", room{Bytes: 51 << 30, TotalBytes: 1000 << 30}, 0, ""},
		{"a small disk keeps half a gigabyte", room{Bytes: 511 * mib, TotalBytes: 6 << 30}, 0, "511 MiB are free of which 512 stay so"},
		{"a tiny disk keeps a tenth", room{Bytes: 99 * mib, TotalBytes: 1000 * mib}, 0, "99 MiB are free of which 100 stay so"},
		{"as configured", room{Bytes: 99 * mib, TotalBytes: 1000 << 30}, 100 * mib, "99 MiB are free of which 100 stay so"},
		{"switched off", room{Bytes: 1, TotalBytes: 1000 << 30, Nodes: 1, TotalNodes: 1000}, -1, ""},
		{"few inodes", room{Bytes: 100 << 30, TotalBytes: 1000 << 30, Nodes: 9, TotalNodes: 1000}, 0, "9 of 1000 inodes are free"},
		{"inodes without a number", room{Bytes: 100 << 30, TotalBytes: 1000 << 30}, 0, ""},
	} {
		if got := tt.left.low(tt.reserve); got != tt.want {
			t.Errorf("%s: low = %q, want %q", tt.name, got, tt.want)
		}
	}
}

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
	w.host.core.cfg.Reserve = math.MaxInt64
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
