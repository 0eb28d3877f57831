package publish

import (
	"regexp"
	"strings"
	"sync"
)

// gap is a zero-width space. People do not see it, and code hosts read two words.
const gap = "\u200b"

var (
	atSigns = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)@|&#0*64;|&#x0*40;|&commat;`) })
	images  = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`(?i)(!)(\[)|(<)(img|picture|source|video|audio|svg)`)
	})
)

// Mute returns a text in Markdown that mentions no account and loads no image when a code host shows it: a mention would call
// people, and the address of an image can hold what its author was not to tell. Addresses of mail stay as they are.
func Mute(s string) string {
	var b strings.Builder
	end := 0
	for _, at := range atSigns().FindAllStringIndex(s, -1) {
		b.WriteString(s[end:at[1]])
		if end = at[1]; end < len(s) && !isMail(s[:at[0]]) {
			b.WriteString(gap)
		}
	}
	b.WriteString(s[end:])
	return images().ReplaceAllString(b.String(), "$1$3"+gap+"$2$4")
}

// isMail reports whether an at sign behind a text belongs to an address of mail: a name is in front of it, and not the rest
// of a character reference, which may stand for a space.
func isMail(before string) bool {
	name := strings.TrimRightFunc(before, func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '_'
	})
	return len(name) < len(before) && !strings.HasSuffix(name, "&") && !strings.HasSuffix(name, "#")
}
