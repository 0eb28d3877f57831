// Package reset reads from the words of an agent when a usage limit of its model ends. See [Find]. It never asks anybody, and
// knows only the forms that the vendors' programs print.
package reset

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// form is a form in which agents report when a usage limit ends.
type form struct {
	pattern string // a regular expression
	read    func(m []string, now time.Time) (time.Time, bool)
}

// forms lists the forms that the vendors' programs print:
//
//	Claude Code   You've hit your 5-hour limit · resets 10:20am (UTC)
//	Codex         You’ve hit your usage limit. … try again at Nov 25th, 2026 8:21 AM.
//	OpenAI        Rate limit reached for … Please try again in 31.5s.
//	Gemini        Your quota will reset after 11h59m41s.
//	opencode      5-hour usage limit reached. It will reset in 2 hours 5 minutes.
//	HTTP          retry-after: 3600    "resets_at":1795429206    "resets_in_seconds":7200
func forms() []form {
	return []form{
		{`(?:resets?_?at["':=\s]+|limit reached\|)(\d{10})(?:\d{3})?\b`, readEpoch},
		{`(?:retry[-_]?(?:after|delay)|resets_in_seconds)["':=\s]+(\d{1,8}(?:\.\d+)?)\s*s?\b`, readSeconds},
		{`(?:retry|again|resets?|available)\s+(?:in|after)\s+((?:\d{1,8}(?:\.\d+)?\s*(?:ms|milliseconds?|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d)[\s,]*(?:and\s+)?)+)`, readDuration},
		{`(?:again|resets?|until)\s+(?:at\s+|on\s+)?(\d{4}-\d\d-\d\dT[\d:.]+(?:Z|[+-]\d\d:\d\d))`, readTimestamp},
		{`(?:again|resets?|until)\s+(?:at\s+|on\s+)?(?:([a-z]{3})[a-z]*\s+(\d{1,2})(?:st|nd|rd|th)?,?\s+(?:(\d{4}),?\s+)?(?:at\s+)?)?(\d{1,2})(?::(\d\d))?\s*([ap]m)\b(?:\s*\(([a-z0-9_/+-]+)\))?`, readClock},
	}
}

// Find returns the time at which a usage limit ends, according to the words of the agent.
func Find(words string, now time.Time) (time.Time, bool) {
	for _, f := range forms() {
		if m := regexp.MustCompile("(?i)" + f.pattern).FindStringSubmatch(words); m != nil {
			if at, ok := f.read(m, now); ok {
				return at, true
			}
		}
	}
	return time.Time{}, false
}

func readEpoch(m []string, _ time.Time) (time.Time, bool) {
	s, err := strconv.ParseInt(m[1], 10, 64)
	return time.Unix(s, 0), err == nil
}

func readSeconds(m []string, now time.Time) (time.Time, bool) {
	s, err := strconv.ParseFloat(m[1], 64)
	return now.Add(time.Duration(s * float64(time.Second))), err == nil
}

func readTimestamp(m []string, _ time.Time) (time.Time, bool) {
	at, err := time.Parse(time.RFC3339, m[1])
	return at, err == nil
}

func readDuration(m []string, now time.Time) (time.Time, bool) {
	units := map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour}
	at := now
	for _, part := range regexp.MustCompile(`(\d+(?:\.\d+)?)\s*([a-z]+)`).FindAllStringSubmatch(strings.ToLower(m[1]), -1) {
		n, err := strconv.ParseFloat(part[1], 64)
		if err != nil {
			return at, false
		}
		unit := units[part[2][0]]
		if part[2] == "ms" || strings.HasPrefix(part[2], "milli") {
			unit = time.Millisecond
		}
		at = at.Add(time.Duration(n * float64(unit)))
	}
	return at, true
}

// readClock reads a time of day, with a date or without, in the zone that is named or in that of now. It adds the minute that
// a time without seconds may be too early.
func readClock(m []string, now time.Time) (time.Time, bool) {
	zone := now.Location()
	if m[7] != "" {
		var err error
		if zone, err = time.LoadLocation(m[7]); err != nil {
			return now, false
		}
	}
	now = now.In(zone)
	day, minutes := now.Format("Jan 2 2006"), m[5]
	if m[1] != "" {
		year := m[3]
		if year == "" {
			year = now.Format("2006")
		}
		day = m[1] + " " + m[2] + " " + year
	}
	if minutes == "" {
		minutes = "00"
	}
	at, err := time.ParseInLocation("Jan 2 2006 3:04PM", day+" "+m[4]+":"+minutes+strings.ToUpper(m[6]), zone)
	if err != nil {
		return now, false
	}
	switch {
	case m[1] == "" && at.Before(now.Add(-10*time.Minute)): // it is not one that has just passed
		at = at.AddDate(0, 0, 1)
	case m[1] != "" && m[3] == "" && at.Before(now.AddDate(0, 0, -1)):
		at = at.AddDate(1, 0, 0)
	}
	return at.Add(time.Minute), true
}
