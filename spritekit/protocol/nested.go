package protocol

import (
	"crypto/sha256"
	"fmt"
	"strings"
)

// NestedPrefix begins the ids of the calls that the program of a call makes.
func NestedPrefix(parent string) string {
	sum := sha256.Sum256([]byte(parent))
	return fmt.Sprintf("call_%x_", sum[:6])
}

// Nests reports whether e is an event of a call that the program of the call parent made. Any program in the sprite can write such
// an event.
func Nests(parent string, e Event) bool { return strings.HasPrefix(e.CallID, NestedPrefix(parent)) }
