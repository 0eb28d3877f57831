// Package text makes foreign text fit to be shown and stored. [Clean], [Visible] and [Line] remove control characters; of
// invisible characters Clean removes those that change the order of writing, and the others write each as <U+202E>.
// [Invisible] lists them. [Head], [HeadRunes] and [Ends] bound the length. None of them cuts a character in two.
package text

import (
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// ellipsis replaces removed text.
const ellipsis = "…"

// Clean returns s as valid UTF-8 without escape sequences of terminals, without control characters except newline and tab,
// and without format characters, such as those that reverse the direction of writing, except joiners. A carriage return
// becomes a newline.
func Clean(s string) string {
	if isPlain(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == 0x1b, r == EscapeSymbol && i+size < len(s) && (s[i+size] == '[' || s[i+size] == ']'):
			size += escapeLen(s[i+size:])
		case r == '\r':
			if !strings.HasPrefix(s[i+1:], "\n") {
				b.WriteByte('\n')
			}
		case r == '\n' || r == '\t' || !IsHidden(r):
			b.WriteRune(r) // U+FFFD for a byte that is not UTF-8
		}
		i += size
	}
	return b.String()
}

// Visible returns s without control characters except newline and tab, and with each invisible character written as <U+202E>.
// Unlike Clean it keeps the rest of escape sequences: people who decide about a text must see all of it.
func Visible(s string) string {
	if isPlain(s) {
		return s
	}
	var b strings.Builder
	eachRune(s, func(r rune, invisible bool) {
		switch {
		case invisible:
			b.WriteString("<" + codePoint(r) + ">")
		case r == '\n' || r == '\t' || !unicode.IsControl(r):
			b.WriteRune(r)
		}
	})
	return b.String()
}

// Bare returns Visible(s) without the invisible characters.
func Bare(s string) string {
	return strings.Map(func(r rune) rune {
		if isInvisible(r) || unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, s)
}

// Invisible returns the invisible characters of s, each once, such as U+202E: those for which nothing is shown, and those that
// change the order in which others are shown. Text made of them can instruct a program, or show people another text than
// programs read. A joiner inside a word or an emoji of another script than ASCII is not one of them.
func Invisible(s string) (found []string) {
	if isPlain(s) {
		return nil
	}
	eachRune(s, func(r rune, invisible bool) {
		if name := codePoint(r); invisible && !slices.Contains(found, name) {
			found = append(found, name)
		}
	})
	return found
}

func codePoint(r rune) string { return fmt.Sprintf("U+%04X", r) }

// eachRune calls visit with each character of s, and whether it is invisible.
func eachRune(s string, visit func(r rune, invisible bool)) {
	const selector = '\ufe0f' // shows the character before it as an emoji
	before := rune(0)
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		i += size
		after, _ := utf8.DecodeRuneInString(s[i:])
		invisible := isInvisible(r)
		switch {
		case isJoiner(r):
			invisible = before < utf8.RuneSelf || isInvisible(before) && before != selector || after < utf8.RuneSelf || i == len(s) || isInvisible(after)
		case r == selector:
			const keycap = '\u20e3'
			invisible = before < utf8.RuneSelf && after != keycap || isInvisible(before)
		}
		visit(r, invisible)
		before = r
	}
}

// isInvisible reports whether nothing is shown for a character, or it changes how others are shown.
func isInvisible(r rune) bool {
	return r >= utf8.RuneSelf && unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}

// isJoiner reports whether a character connects or separates those around it, in words and in emoji.
func isJoiner(r rune) bool { return r == '\u200c' || r == '\u200d' }

// Line returns Visible(s) as one line: each newline and tab becomes a space.
func Line(s string) string {
	return strings.TrimSpace(strings.NewReplacer("\n", " ", "\t", " ").Replace(Visible(s)))
}

func isPlain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c >= 0x7f || c < 0x20 && c != '\n' && c != '\t' {
			return false
		}
	}
	return true
}

// IsHidden reports whether a terminal may act on a character or show nothing for it. Joiners and variation selectors, which
// are parts of words and of emoji, are not hidden.
func IsHidden(r rune) bool {
	return unicode.IsControl(r) || isInvisible(r) && !isJoiner(r) && !unicode.Is(unicode.Variation_Selector, r)
}

// EscapeSymbol stands for ESC in formats that cannot contain it. Clean removes the sequences that it begins.
const EscapeSymbol = '\u241b'

// escapeLen returns the number of bytes that follow ESC in a sequence. CSI ends with a letter, and OSC with BEL or ESC \. Other
// sequences have up to three intermediate bytes, from space to /, and a final byte.
func escapeLen(rest string) int {
	if rest == "" {
		return 0
	}
	switch rest[0] {
	case '[':
		for i := 1; i < len(rest) && i < 64; i++ {
			if rest[i] >= 0x40 && rest[i] <= 0x7e {
				return i + 1
			}
		}
		return 1
	case ']':
		i := strings.IndexAny(rest[:min(len(rest), 4096)], "\x07\x1b")
		switch {
		case i < 0:
			return 1
		case strings.HasPrefix(rest[i:], "\x1b\\"):
			return i + 2
		}
		return i + 1
	}
	n := 0
	for n < len(rest) && n < 3 && rest[n] >= 0x20 && rest[n] <= 0x2f {
		n++
	}
	if n < len(rest) && rest[n] >= 0x20 && rest[n] <= 0x7e {
		n++
	}
	return n
}

// Cut returns at most the first limit bytes of s. It does not cut within a character.
func Cut(s string, limit int) string {
	if len(s) <= limit {
		return s
	}
	limit = max(limit, 0)
	for limit > 0 && !utf8.RuneStart(s[limit]) {
		limit--
	}
	return s[:limit]
}

// Head shortens s to at most limit bytes; a shortened text ends with "…" if there is room for it.
func Head(s string, limit int) string {
	if len(s) <= limit || limit < len(ellipsis) {
		return Cut(s, limit)
	}
	return Cut(s, limit-len(ellipsis)) + ellipsis
}

// HeadRunes shortens s to at most limit characters; a shortened text ends with "…".
func HeadRunes(s string, limit int) string {
	if len(s) <= limit || utf8.RuneCountInString(s) <= limit {
		return s
	}
	if limit <= 0 {
		return ""
	}
	return string([]rune(s)[:limit-1]) + ellipsis
}

// Ends shortens s to at most limit bytes. It keeps both ends and writes mark between them if there is room for it.
func Ends(s, mark string, limit int) string {
	if len(s) <= limit || limit < len(mark) {
		return Cut(s, limit)
	}
	half := (limit - len(mark)) / 2
	return strings.ToValidUTF8(s[:half], "") + mark + strings.ToValidUTF8(s[len(s)-half:], "")
}
