// Package quote quotes and unquotes the strings of JSON. Start with Append and Decode.
//
// Most text is plain, so that it is scanned eight bytes at a time (SWAR): the highest bit of each byte of a word is set if the byte
// needs attention.
package quote

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// notPlain sets the highest bit of each byte of x that is a quote, a backslash or a control character. Only the lowest
// marked byte is reliable.
func notPlain(x uint64) uint64 {
	quote, backslash := x^ones*'"', x^ones*'\\'
	return ((x-ones*' ')&^x | (quote-ones)&^quote | (backslash-ones)&^backslash) & highs
}

// PlainLen returns the number of bytes at the start of b that need no escape in a string, including UTF-8.
func PlainLen(b []byte) int {
	i := 0
	for ; len(b)-i >= 8; i += 8 {
		if marks := notPlain(binary.LittleEndian.Uint64(b[i:])); marks != 0 {
			return i + bits.TrailingZeros64(marks)/8
		}
	}
	for i < len(b) && b[i] >= ' ' && b[i] != '"' && b[i] != '\\' {
		i++
	}
	return i
}

// plainASCIILen is PlainLen that also stops at the first byte that is not ASCII.
func plainASCIILen(b []byte) int {
	i := 0
	for ; len(b)-i >= 8; i += 8 {
		x := binary.LittleEndian.Uint64(b[i:])
		if marks := notPlain(x) | x&highs; marks != 0 {
			return i + bits.TrailingZeros64(marks)/8
		}
	}
	for i < len(b) && b[i] >= ' ' && b[i] != '"' && b[i] != '\\' && b[i] < utf8.RuneSelf {
		i++
	}
	return i
}

// Append appends text as a JSON string with as few escapes as JSON allows. Each invalid UTF-8 byte becomes
// U+FFFD.
func Append(out, text []byte) []byte {
	out = append(out, '"')
	start := 0 // of the bytes that are not yet appended
	for i := 0; ; {
		if i += plainASCIILen(text[i:]); i == len(text) {
			break
		}
		c := text[i]
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRune(text[i:])
			if r == utf8.RuneError && n == 1 {
				out = append(append(out, text[start:i]...), "\uFFFD"...)
				start = i + n
			}
			i += n
			continue
		}
		out = AppendEscape(append(out, text[start:i]...), c)
		i++
		start = i
	}
	return append(append(out, text[start:]...), '"')
}

// AppendEscape appends the escape of a byte that is not plain.
func AppendEscape(out []byte, c byte) []byte {
	const hex = "0123456789abcdef"
	switch c {
	case '"', '\\':
		return append(out, '\\', c)
	case '\b':
		return append(out, `\b`...)
	case '\f':
		return append(out, `\f`...)
	case '\n':
		return append(out, `\n`...)
	case '\r':
		return append(out, `\r`...)
	case '\t':
		return append(out, `\t`...)
	}
	return append(out, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
}

// Decode decodes a quoted string. An unpaired surrogate becomes U+FFFD.
func Decode(quoted []byte) string {
	if inner := quoted[1 : len(quoted)-1]; bytes.IndexByte(inner, '\\') < 0 {
		return string(inner)
	}
	return string(AppendDecoded(nil, quoted))
}

// AppendDecoded appends the result of Decode.
func AppendDecoded(out, quoted []byte) []byte {
	inner := quoted[1 : len(quoted)-1]
	for {
		i := bytes.IndexByte(inner, '\\')
		if i < 0 {
			return append(out, inner...)
		}
		r, n := DecodeEscape(inner[i:])
		out = utf8.AppendRune(append(out, inner[:i]...), r) // an unpaired surrogate becomes U+FFFD
		inner = inner[i+n:]
	}
}

// EscapeLen returns the length of the escape at the start of b, 0 if it is not valid.
func EscapeLen(b []byte) int {
	if len(b) < 2 {
		return 0
	}
	switch b[1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return 2
	case 'u':
		if _, ok := hex4(b[2:]); ok {
			return 6
		}
	}
	return 0
}

// DecodeEscape decodes the escape at the start of b; a surrogate pair of two escapes counts as one.
func DecodeEscape(b []byte) (r rune, n int) {
	switch b[1] {
	case 'b':
		return '\b', 2
	case 'f':
		return '\f', 2
	case 'n':
		return '\n', 2
	case 'r':
		return '\r', 2
	case 't':
		return '\t', 2
	case 'u':
		r, _ = hex4(b[2:])
		if 0xD800 <= r && r < 0xDC00 && len(b) >= 12 && b[6] == '\\' && b[7] == 'u' {
			if low, ok := hex4(b[8:]); ok && 0xDC00 <= low && low < 0xE000 {
				return (r-0xD800)<<10 | (low - 0xDC00) + 0x10000, 12
			}
		}
		return r, 6
	}
	return rune(b[1]), 2
}

func hex4(b []byte) (r rune, ok bool) {
	if len(b) < 4 {
		return 0, false
	}
	for _, c := range b[:4] {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}
