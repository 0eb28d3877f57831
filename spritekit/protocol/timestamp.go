package protocol

import (
	"fmt"
	"strings"
	"time"
)

// timestampLayout is the layout that writers use; it sorts lexicographically.
const timestampLayout = "2006-01-02T15:04:05.000000000Z"

// FormatTime writes t as an envelope timestamp: UTC, exactly nine fractional digits, Z.
func FormatTime(t time.Time) string { return t.UTC().Format(timestampLayout) }

// ParseTime parses any RFC 3339 time, also with lower-case t and z, a space instead of T, or a leap second, which counts
// as the second after it. Digits beyond nanoseconds are dropped. The result is in UTC.
func ParseTime(s string) (time.Time, error) {
	const date = len("2006-01-02")
	text := s
	if len(text) > date && (text[date] == ' ' || text[date] == 't') {
		text = text[:date] + "T" + text[date+1:]
	}
	if strings.HasSuffix(text, "z") {
		text = text[:len(text)-1] + "Z"
	}
	const seconds = len("2006-01-02T15:04:")
	leap := time.Duration(0)
	if len(text) > seconds+2 && text[seconds:seconds+2] == "60" {
		text = text[:seconds] + "59" + text[seconds+2:]
		leap = time.Second
	}
	// The standard parser also takes one-digit hours, a comma before the fraction and offsets of any size; RFC 3339 does not.
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil || text[date+3] != ':' || strings.Contains(text, ",") || !offsetInRange(text) {
		return time.Time{}, fmt.Errorf("%.64q is not an RFC 3339 instant such as %s", s, timestampLayout)
	}
	return t.Add(leap).UTC(), nil
}

func offsetInRange(text string) bool {
	if strings.HasSuffix(text, "Z") {
		return true
	}
	offset := text[len(text)-len("00:00"):]
	return offset[:2] <= "23" && offset[3:] <= "59"
}

// isWriterTime reports whether s has the layout that writers must use.
func isWriterTime(s string) bool {
	t, err := time.Parse(timestampLayout, s)
	return err == nil && FormatTime(t) == s
}
