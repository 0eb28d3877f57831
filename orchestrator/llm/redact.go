package llm

import (
	"regexp"
	"sync"

	"github.com/spritekit/lattice/spritekit/redact"
)

// keyLike is how the vendors' keys look, masked in part or not: servers like to repeat them in errors.
var keyLike = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\b(sk|xai|gsk|key)-[A-Za-z0-9_*.-]{8,}`) })

// Redacted replaces keys in text.
const Redacted = redact.Mark

// minSecret is how long a key is at least that is a secret. Local servers take any; a word such as "none" stays what it is
// in the answers of their models.
const minSecret = 12

// redactKey replaces the key in text that was received, in all its encodings.
func redactKey(text, key string) string {
	if len(key) < minSecret {
		return text
	}
	return redact.New(key).Text(text)
}

// redactError is redact for what a server says instead of an answer: nothing that looks like a key is wanted there.
func redactError(text, key string) string {
	return keyLike().ReplaceAllString(redactKey(text, key), Redacted)
}
