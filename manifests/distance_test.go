package manifests

import (
	"strings"
	"testing"
)

func TestDistance(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{
		{"", "", 0},
		{"fs.read", "fs.read", 0},
		{"fs.rad", "fs.read", 1},
		{"fs.reead", "fs.read", 1},
		{"fs.reab", "fs.read", 1},
		{"", "abc", 3},
		{"kitten", "sitting", 3},
		{"flaw", "lawn", 2},
	} {
		if got, back := Distance(tt.a, tt.b), Distance(tt.b, tt.a); got != tt.want || back != tt.want {
			t.Errorf("Distance(%q, %q) = %d and %d, want %d", tt.a, tt.b, got, back, tt.want)
		}
	}
	if long := strings.Repeat("a", 65); Distance(long, long) < 65 {
		t.Error("long names must be far apart")
	}
}
