package runs

import (
	"os"
	"path/filepath"
	"testing"
	"time"
	_ "time/tzdata"
)

func TestZone(t *testing.T) {
	t.Parallel()
	at := func(l *time.Location) time.Time { return time.Date(2026, 7, 1, 12, 0, 0, 0, l) }
	named, err := time.LoadLocation("America/New_York")
	if err != nil {
		t.Fatal(err)
	}
	local := time.FixedZone("Local", 2*60*60) // named as Go names what it read from the link
	for name, c := range map[string]struct {
		now        time.Time
		link, want string
	}{
		"named":            {at(named), "/usr/share/zoneinfo/Europe/Berlin", "America/New_York"},
		"UTC":              {at(time.UTC), "", "UTC"},
		"by the link":      {at(local), "../usr/share/zoneinfo/Europe/Berlin", "Europe/Berlin"},
		"another link":     {at(local), "/usr/share/zoneinfo/Asia/Tokyo", "+02:00"},
		"link to no zone":  {at(local), "/usr/share/zoneinfo/no/where", "+02:00"},
		"link elsewhere":   {at(local), "/etc/other", "+02:00"},
		"no link, no name": {at(local), "", "+02:00"},
	} {
		t.Run(name, func(t *testing.T) {
			link := filepath.Join(t.TempDir(), "localtime")
			if c.link != "" {
				if err := os.Symlink(c.link, link); err != nil {
					t.Fatal(err)
				}
			}
			if got := zoneName(c.now, link); got != c.want {
				t.Errorf("zone(%v, link to %q) = %q, want %q", c.now, c.link, got, c.want)
			}
		})
	}
}
