package comment

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

var (
	referencePattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?:^|[\s(\[,;:])#([0-9]{1,9})\b`) })
	spanPattern      = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("`[^`]*`") })
)

// References returns the numbers of the issues that a text names as #NUMBER, each once, in their order. Code, quotations and HTML
// do not count, as for commands.
func References(body string) []int64 {
	var found []int64
	lines := strings.Split(strings.ReplaceAll(body, "\r\n", "\n"), "\n")
	for i, shown := range shownLines(lines) {
		if !shown {
			continue
		}
		for _, m := range referencePattern().FindAllStringSubmatch(spanPattern().ReplaceAllString(lines[i], ""), -1) {
			number, err := strconv.ParseInt(m[1], 10, 64)
			if err == nil && number > 0 && !slices.Contains(found, number) {
				found = append(found, number)
			}
		}
	}
	return found
}
