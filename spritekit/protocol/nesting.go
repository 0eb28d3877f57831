// Package nesting names the calls that the program of another call makes, such as those of an agent. Start with [Prefix]. It reads
// and keeps nothing: both ends of a session compute the same names.
package nesting

import (
	"crypto/sha256"
	"fmt"
	"strings"
)

// Prefix begins the ids of the calls that the program of a call makes.
func Prefix(parent string) string {
	sum := sha256.Sum256([]byte(parent))
	return fmt.Sprintf("call_%x_", sum[:6])
}

// IsNested reports whether call is the id of a call that the program of parent made. Any program in the sprite can write such an id.
func IsNested(parent, call string) bool { return strings.HasPrefix(call, Prefix(parent)) }
