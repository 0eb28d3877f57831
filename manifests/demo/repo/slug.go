// Package slug turns titles into the last part of a URL.
package slug

import (
	"strings"
	"unicode"
)

// Make returns title in lower case, with every run of other characters than letters and digits as a single hyphen, and
// no hyphen at either end.
func Make(title string) string {
	var b strings.Builder
	gap := false
	for _, r := range strings.ToLower(title) {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			if gap {
				b.WriteByte('-')
			}
			b.WriteRune(r)
			gap = false
			continue
		}
		gap = true
	}
	return b.String()
}

// Truncate shortens a slug to at most n bytes, whole words only. A first word that is longer is cut.
func Truncate(slug string, n int) string {
	if len(slug) <= n {
		return slug
	}
	if i := strings.LastIndexByte(slug[:n+1], '-'); i > 0 {
		return slug[:i]
	}
	return slug[:n]
}
