package core

import (
	"testing"
)

func TestRoom(t *testing.T) {
	const mib = 1 << 20
	for _, tt := range []struct {
		name    string
		left    Space
		reserve int64 // of the configuration
		want    string
	}{
		{"a disk keeps a twentieth", Space{Bytes: 1 << 30, TotalBytes: 40 << 30}, 0, "1024 MiB are free of which 2048 stay so"},
		{"a large disk keeps four gigabytes", Space{Bytes: 3 << 30, TotalBytes: 1000 << 30}, 0, "3072 MiB are free of which 4096 stay so"},
		{"enough of a large disk", Space{Bytes: 5 << 30, TotalBytes: 1000 << 30}, 0, ""},
		{"a small disk keeps half a gigabyte", Space{Bytes: 511 * mib, TotalBytes: 6 << 30}, 0, "511 MiB are free of which 512 stay so"},
		{"a tiny disk keeps a tenth", Space{Bytes: 99 * mib, TotalBytes: 1000 * mib}, 0, "99 MiB are free of which 100 stay so"},
		{"as configured", Space{Bytes: 99 * mib, TotalBytes: 1000 << 30}, 100 * mib, "99 MiB are free of which 100 stay so"},
		{"switched off", Space{Bytes: 1, TotalBytes: 1000 << 30, Nodes: 1, TotalNodes: 1000}, -1, ""},
		{"few inodes", Space{Bytes: 100 << 30, TotalBytes: 1000 << 30, Nodes: 9, TotalNodes: 1000}, 0, "9 of 1000 inodes are free"},
		{"inodes without a number", Space{Bytes: 100 << 30, TotalBytes: 1000 << 30}, 0, ""},
	} {
		if got := tt.left.Low(tt.reserve); got != tt.want {
			t.Errorf("%s: low = %q, want %q", tt.name, got, tt.want)
		}
	}
}
