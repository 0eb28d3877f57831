package llm

import (
	"regexp"
	"strings"
)

// keyLike is how the vendors' keys look, masked in part or not: servers like to repeat them in errors.
var keyLike = regexp.MustCompile(`\b(sk|xai|gsk|key)-[A-Za-z0-9_*.-]{8,}`)

// Redacted stands where a key was.
const Redacted = "[redacted]"

// redact takes keys out of a text that comes from outside.
func redact(text, key string) string {
	if key != "" {
		text = strings.ReplaceAll(text, key, Redacted)
	}
	return keyLike.ReplaceAllString(text, Redacted)
}
