package results

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Fingerprint is equal for equal failures: a hash over the sorted ids of failed tests, with kinds and messages. Parts
// of messages that differ in each run are removed: durations, dates and clocks, addresses, ports and
// positions after a colon, line numbers, goroutine and process numbers, UUIDs, names of temporary files. Other numbers
// count: "got 3, want 4" after "got 2, want 4" is news.
func (s *Set) Fingerprint() string {
	n := newNormaliser()
	keys := make([]string, 0, len(s.Failing))
	for i := range s.Failing {
		c := &s.Failing[i]
		status := ""
		if c.Status == Flaky {
			status = string(Flaky)
		}
		keys = append(keys, strings.Join([]string{c.ID, string(c.Kind), status, n.normalizeText(c.Message)}, "\x00"))
	}
	slices.Sort(keys)
	sum := sha256.New()
	for _, key := range keys {
		fmt.Fprintf(sum, "%s\x00\n", key)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

type normaliser []struct {
	pattern *regexp.Regexp
	with    string
}

func newNormaliser() normaliser {
	var n normaliser
	for _, rule := range [][2]string{
		{`\b[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}\b`, "<uuid>"},
		{`0x[0-9a-fA-F]+`, "<address>"},
		{`(?:/private)?(?:/var/tmp|/var/folders|/tmp|/dev/shm)/[^\s'":,)]+`, "<temp>"},
		{`\S*/\.lattice/tmp/[^\s'":,)]+`, "<temp>"},
		{`\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?)?`, "<time>"},
		{`\b\d\d?:\d\d:\d\d(?:[.,]\d+)?\b`, "<time>"},
		{`\b\d+(?:\.\d+)?\s?(?:ns|[uµμ]s|ms|s|sec|secs|seconds?|milliseconds?|minutes?|m\d+(?:\.\d+)?s)\b`, "<duration>"},
		{`(?i)\b(line|goroutine|pid|process|thread|port)([ =:#]+)\d+`, "${1}${2}#"},
		{`:\d+`, ":#"},
	} {
		n = append(n, struct {
			pattern *regexp.Regexp
			with    string
		}{regexp.MustCompile(rule[0]), rule[1]})
	}
	return n
}

func (n normaliser) normalizeText(message string) string {
	for _, rule := range n {
		message = rule.pattern.ReplaceAllString(message, rule.with)
	}
	return message
}
