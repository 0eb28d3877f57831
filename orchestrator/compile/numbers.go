package compile

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

func digestOf(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// escapePointer writes a member name as a segment of a JSON pointer (RFC 6901).
func escapePointer(name string) string { return pointerEscaper.Replace(name) }

var pointerEscaper = strings.NewReplacer("~", "~0", "/", "~1")
