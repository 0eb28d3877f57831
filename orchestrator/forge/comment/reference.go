package comment

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

var referencePattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?:^|[\s(\[,;:])#([0-9]{1,9})\b`) })

// References returns the numbers of the issues that a text names as #NUMBER, each once, in their order. Code, quotations and HTML
// do not count, as for commands.
func References(body string) []int64 {
	var found []int64
	lines := strings.Split(strings.ReplaceAll(body, "\r\n", "\n"), "\n")
	for i, shown := range shownLines(lines) {
		if !shown {
			continue
		}
		for _, m := range referencePattern().FindAllStringSubmatch(dropSpans(lines[i]), -1) {
			number, err := strconv.ParseInt(m[1], 10, 64)
			if err == nil && number > 0 && !slices.Contains(found, number) {
				found = append(found, number)
			}
		}
	}
	return found
}

// dropSpans returns a line without its code spans: a run of backquotes, the code, and a run of the same length.
func dropSpans(line string) string {
	var b strings.Builder
	for {
		at := strings.IndexByte(line, '`')
		if at < 0 {
			return b.String() + line
		}
		b.WriteString(line[:at])
		rest := strings.TrimLeft(line[at:], "`")
		n := len(line) - at - len(rest)
		if end := equalRun(rest, n); end >= 0 {
			rest = rest[end:]
		} else {
			b.WriteString(line[at : at+n])
		}
		line = rest
	}
}
