package forge

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"
)

// Marker is a line that lattice writes at the end of a text so that it finds the text again, for example after a crash
// between creating it and recording that. It proves nothing: anyone can copy it. It counts only in a text whose author is
// the client's own account.
type Marker string

// MarkerOf returns the marker of the text with a kind and a key. Code hosts do not show it.
func MarkerOf(kind, key string) Marker {
	sum := sha256.Sum256([]byte(kind + "\x00" + key))
	return Marker("<!-- lattice " + kind + " " + hex.EncodeToString(sum[:16]) + " -->")
}

// Add returns text with the marker at its end.
func (m Marker) Add(text string) string {
	return strings.TrimRight(text, "\n") + "\n\n" + string(m) + "\n"
}

// IsIn reports whether the last line of text is the marker. A marker elsewhere, as in a quotation, does not count.
func (m Marker) IsIn(text string) bool {
	text = strings.TrimRight(strings.ReplaceAll(text, "\r\n", "\n"), "\n ")
	return text == string(m) || strings.HasSuffix(text, "\n"+string(m))
}

// IsMarked reports whether the last line of a text is the marker of any text.
func IsMarked(text string) bool {
	text = strings.TrimRight(strings.ReplaceAll(text, "\r\n", "\n"), "\n ")
	line := text[strings.LastIndexByte(text, '\n')+1:]
	rest, begun := strings.CutPrefix(line, "<!-- lattice ")
	rest, ended := strings.CutSuffix(rest, " -->")
	_, sum, two := strings.Cut(rest, " ")
	_, err := hex.DecodeString(sum)
	return begun && ended && two && err == nil && len(sum) == 32
}

// FindComment returns the first comment of an author with a marker.
func FindComment(all []Comment, author int64, m Marker) (Comment, bool) {
	i := slices.IndexFunc(all, func(c Comment) bool { return c.Author.ID == author && m.IsIn(c.Body) })
	if i < 0 {
		return Comment{}, false
	}
	return all[i], true
}
