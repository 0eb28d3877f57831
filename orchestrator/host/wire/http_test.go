package wire

import (
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text string
		want time.Duration
		ok   bool
	}{
		{"0", 0, true}, {"10", 10 * time.Second, true}, {"1m30s", 90 * time.Second, true}, {"9223372036", 9223372036 * time.Second, true},
		{"", 0, false}, {"-1", 0, false}, {"-1s", 0, false}, {"soon", 0, false},
		{"9223372037", 0, false}, {"18446744074", 0, false}, {"36893488148", 0, false}, // in nanoseconds these overflow to a short time
		{"-18446744073", 0, false}, {"-9223372036854775808", 0, false}, {"99999999999999999999", 0, false},
	} {
		if got, err := ParseDuration(tt.text); got != tt.want || (err == nil) != tt.ok {
			t.Errorf("ParseDuration(%q) = %v, %v", tt.text, got, err)
		}
	}
}
