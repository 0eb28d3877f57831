package compile

import (
	"crypto/sha256"
	"encoding/hex"
)

func digestOf(text []byte) string {
	sum := sha256.Sum256(text)
	return "sha256:" + hex.EncodeToString(sum[:])
}
