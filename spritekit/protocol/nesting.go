package protocol

import (
	"crypto/sha256"
	"fmt"
	"strings"
)

// NestedPrefix begins the ids of the calls that the program of a call makes, such as those of an agent. Both ends of a session
// compute it.
func NestedPrefix(parent string) string {
	sum := sha256.Sum256([]byte(parent))
	return fmt.Sprintf("call_%x_", sum[:6])
}

// IsNested reports whether call is the id of a call that the program of parent made. Any program in the sprite can write such an id.
func IsNested(parent, call string) bool { return strings.HasPrefix(call, NestedPrefix(parent)) }
