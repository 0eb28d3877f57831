package records

import (
	"testing"
	"time"
)

// Sessions of a host that is started when the clock has gone back have numbers of their own.
func TestSessionNumbersGrow(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	var before int64
	for _, at := range []time.Time{now, now.Add(time.Second), now.Add(-24 * time.Hour), now.Add(-24 * time.Hour), now.Add(24 * time.Hour)} {
		s, err := Open(dir, at)
		if err != nil {
			t.Fatal(err)
		}
		if s.Sessions <= before {
			t.Errorf("sessions above %d after those above %d", s.Sessions, before)
		}
		before = s.Sessions
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
