package compile

import (
	"crypto/sha256"
	"encoding/hex"
	"math/big"
	"strconv"
	"strings"
)

func digestOf(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// escapePointer writes a member name as a segment of a JSON pointer (RFC 6901).
func escapePointer(name string) string {
	return strings.NewReplacer("~", "~0", "/", "~1").Replace(name)
}

// maxDigits bounds number literals that are compared exactly; no double needs more to be told from its neighbours.
const maxDigits = 64

// exact reports whether a JSON number survives being written as RFC 8785 writes it: as the shortest text of the nearest
// double.
func exact(literal string) bool {
	double, err := strconv.ParseFloat(literal, 64)
	if err != nil || len(literal) > maxDigits {
		return false
	}
	if double == 0 {
		mantissa, _, _ := strings.Cut(strings.ToLower(literal), "e")
		return !strings.ContainsAny(mantissa, "123456789")
	}
	want, ok := new(big.Rat).SetString(literal)
	got, same := new(big.Rat).SetString(strconv.FormatFloat(double, 'g', -1, 64))
	return ok && same && want.Cmp(got) == 0
}
