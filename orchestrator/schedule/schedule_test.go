package schedule

import (
	"strings"
	"testing"
	"time"
	_ "time/tzdata"
)

func TestNext(t *testing.T) {
	t.Parallel()
	tests := []struct{ cron, zone, after, want string }{
		{"* * * * *", "UTC", "2026-01-01T00:00:30Z", "2026-01-01T00:01:00Z"},
		{"*/15 * * * *", "UTC", "2026-01-01T00:45:00Z", "2026-01-01T01:00:00Z"},
		{"30 3 * * *", "UTC", "2026-01-01T03:30:00Z", "2026-01-02T03:30:00Z"},
		{"0 9-17/4 * * mon-fri", "UTC", "2026-01-02T17:00:00Z", "2026-01-05T09:00:00Z"}, // Friday to Monday
		{"0 0 29 2 *", "UTC", "2026-01-01T00:00:00Z", "2028-02-29T00:00:00Z"},
		{"0 0 13 * 5", "UTC", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"}, // the 13th, or Fridays
		{"0 0 1,15 jan,jul *", "UTC", "2026-01-15T00:00:00Z", "2026-07-01T00:00:00Z"},
		{"0 12 * * 7", "UTC", "2026-01-01T00:00:00Z", "2026-01-04T12:00:00Z"},
		{"0 0 * * *", "UTC", "2026-12-31T12:00:00Z", "2027-01-01T00:00:00Z"},
		// The clock goes from 2:00 to 3:00: what was due in between is due at 3:00.
		{"30 2 * * *", "America/New_York", "2026-03-08T00:00:00-05:00", "2026-03-08T03:00:00-04:00"},
		{"30 2 * * *", "America/New_York", "2026-03-08T03:00:00-04:00", "2026-03-09T02:30:00-04:00"},
		{"0 3 * * *", "America/New_York", "2026-03-08T00:00:00-05:00", "2026-03-08T03:00:00-04:00"},
		{"*/30 * * * *", "America/New_York", "2026-03-08T01:30:00-05:00", "2026-03-08T03:00:00-04:00"},
		// The clock goes from 2:00 to 1:00: 1:30 is due once, and each half hour by elapsed time.
		{"30 1 * * *", "America/New_York", "2026-11-01T00:00:00-04:00", "2026-11-01T01:30:00-04:00"},
		{"30 1 * * *", "America/New_York", "2026-11-01T01:30:00-04:00", "2026-11-02T01:30:00-05:00"},
		{"*/30 * * * *", "America/New_York", "2026-11-01T01:30:00-04:00", "2026-11-01T01:00:00-05:00"},
		{"0 2 * * *", "America/New_York", "2026-11-01T01:30:00-05:00", "2026-11-01T02:00:00-05:00"},
		// Half an hour, and a day without midnight.
		{"15 2 * * *", "Australia/Lord_Howe", "2026-10-04T00:00:00+10:30", "2026-10-04T02:30:00+11:00"},
		{"0 0 * * *", "America/Sao_Paulo", "2018-11-03T12:00:00-03:00", "2018-11-04T01:00:00-02:00"},
	}
	for _, tt := range tests {
		zone, err := time.LoadLocation(tt.zone)
		if err != nil {
			t.Fatal(err)
		}
		after, err := time.Parse(time.RFC3339, tt.after)
		if err != nil {
			t.Fatal(err)
		}
		c, err := Parse(tt.cron)
		if err != nil {
			t.Errorf("%s: %v", tt.cron, err)
			continue
		}
		if due, ok := c.Next(after.In(zone)); !ok || due.Format(time.RFC3339) != tt.want {
			t.Errorf("%s in %s after %s: %s, want %s", tt.cron, tt.zone, tt.after, due.Format(time.RFC3339), tt.want)
		}
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"": "has 0 fields", "* * * *": "has 4 fields", "60 * * * *": "is not a minute", "* 24 * * *": "is not a hour", "* * 0 * *": "is not a day of the month",
		"* * * 13 *": "is not a month", "* * * * 8": "is not a day of the week", "5-1 * * * *": "is not a minute", "*/0 * * * *": "is not a minute",
		"-1 * * * *": "is not a minute", "1,,2 * * * *": "is not a minute", "0 0 30 2 *": "is never due", "@daily": "has 1 fields", "a b c d e": "is not a minute",
		"99999999999999999999 * * * *": "is not a minute",
	} {
		if _, err := Parse(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Parse %q: %v, want %q", text, err, want)
		}
	}
	for long, short := range map[string]string{"5/9223372036854775807 * * * *": "5 * * * *", "0 0 */9223372036854775807 * *": "0 0 */31 * *", "*/100 * * * *": "*/60 * * * *", "5-10/60 * * * *": "5 * * * *"} {
		got, err := Parse(long)
		if want, _ := Parse(short); err != nil || got != want {
			t.Errorf("Parse %q = %v, %v, want as of %q", long, got, err, short)
		}
	}
}
