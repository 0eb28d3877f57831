// Package schedule finds the times at which work is due, from the five fields of cron. Start with Parse. The package is pure: it
// is given times, and reads no clock.
package schedule

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Cron holds the times of a schedule: minute, hour, day of the month, month and day of the week, in the zone of the times that
// it is asked about. If both days are restricted, either one suffices.
type Cron struct {
	fields  [5]uint64 // a bit for each value
	anyDay  bool      // the day of the month is *
	anyWeek bool      // the day of the week is *
	hourly  bool      // the hour is *: it is due by elapsed time when clocks are changed
}

var ranges = [5]struct {
	name     string
	min, max int
	words    []string
}{
	{"minute", 0, 59, nil}, {"hour", 0, 23, nil}, {"day of the month", 1, 31, nil},
	{"month", 1, 12, []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
	{"day of the week", 0, 7, []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}},
}

// Parse reads five fields. A field is *, a value, a range A-B or a
// list A,B; * and a range can have a step /N.
func Parse(text string) (Cron, error) {
	var c Cron
	fields := strings.Fields(text)
	if len(fields) != len(ranges) {
		return c, fmt.Errorf("%q has %d fields, not minute, hour, day of the month, month and day of the week", text, len(fields))
	}
	for i, field := range fields {
		for part := range strings.SplitSeq(field, ",") {
			bits, err := parseField(i, part)
			if err != nil {
				return c, err
			}
			c.fields[i] |= bits
		}
	}
	if c.fields[4]&(1<<7) != 0 { // 7 is Sunday as well
		c.fields[4] |= 1
	}
	c.hourly, c.anyDay, c.anyWeek = fields[1][0] == '*', fields[2][0] == '*', fields[4][0] == '*'
	if _, ok := c.Next(time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC)); !ok {
		return c, fmt.Errorf("%q is never due", text)
	}
	return c, nil
}

func parseField(i int, part string) (bits uint64, err error) {
	r := ranges[i]
	bad := fmt.Errorf("%q is not a %s: write *, a value from %d to %d, A-B or A,B, and perhaps /STEP", part, r.name, r.min, r.max)
	span, stepText, stepped := strings.Cut(part, "/")
	step := 1
	if stepped {
		if step, err = strconv.Atoi(stepText); err != nil || step < 1 {
			return 0, bad
		}
		step = min(step, r.max+1) // a longer step selects the same values, and the sum must not overflow
	}
	from, to := r.min, r.max
	if span != "*" {
		first, last, ranged := strings.Cut(span, "-")
		if from, err = parseValue(i, first); err != nil {
			return 0, bad
		}
		if !ranged && !stepped {
			to = from
		}
		if ranged {
			if to, err = parseValue(i, last); err != nil || to < from {
				return 0, bad
			}
		}
	}
	for n := from; n <= to; n += step {
		bits |= 1 << n
	}
	return bits, nil
}

func parseValue(i int, text string) (int, error) {
	for n, word := range ranges[i].words {
		if strings.EqualFold(text, word) {
			return n + ranges[i].min, nil
		}
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < ranges[i].min || n > ranges[i].max {
		return 0, fmt.Errorf("%q is out of range", text)
	}
	return n, nil
}

// Next returns the first due time after a time, in its zone. ok is false if there is none within five years. A time of day that
// the clock skips is due when the clock has skipped it, one that the clock repeats is due once; a schedule of every hour keeps
// to elapsed time.
func (c Cron) Next(after time.Time) (due time.Time, ok bool) {
	t := after.Truncate(time.Minute)
	for end := after.AddDate(5, 0, 0); t.Before(end); {
		before := t
		if t = t.Add(time.Minute); !c.onDay(t) {
			midnight := time.Date(t.Year(), t.Month(), t.Day()+1, 0, 0, 0, 0, t.Location())
			if t = midnight.Add(-time.Minute); !t.After(before) { // midnight does not exist, or is repeated
				t = before.Add(time.Minute)
			}
			continue
		}
		_, was := before.Zone()
		_, is := t.Zone()
		if is > was && !c.hourly && c.skips(t, time.Duration(is-was)*time.Second) {
			return t, true
		}
		if c.atTime(t.Hour(), t.Minute()) && (c.hourly || !isRepeated(t)) {
			return t, true
		}
	}
	return time.Time{}, false
}

// isRepeated reports whether the wall clock showed the time of t before.
func isRepeated(t time.Time) bool {
	_, now := t.Zone()
	_, before := t.Add(-3 * time.Hour).Zone()
	if now >= before {
		return false
	}
	first := t.Add(-time.Duration(before-now) * time.Second)
	return first.Hour() == t.Hour() && first.Minute() == t.Minute()
}

// skips reports whether the clock, which was put forward by gap to t, skipped a due time of day.
func (c Cron) skips(t time.Time, gap time.Duration) bool {
	end := t.Hour()*60 + t.Minute()
	for m := max(0, end-int(gap/time.Minute)); m < end; m++ {
		if c.atTime(m/60, m%60) {
			return true
		}
	}
	return false
}

func (c Cron) atTime(hour, minute int) bool {
	return c.fields[1]&(1<<hour) != 0 && c.fields[0]&(1<<minute) != 0
}

func (c Cron) onDay(t time.Time) bool {
	has := func(i, n int) bool { return c.fields[i]&(1<<n) != 0 }
	day, week := has(2, t.Day()), has(4, int(t.Weekday()))
	switch {
	case !has(3, int(t.Month())):
		return false
	case c.anyDay || c.anyWeek:
		return day && week
	}
	return day || week
}
