package llm

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"regexp"
	"slices"
	"strings"
)

// keyLike is how the vendors' keys look, masked in part or not: servers like to repeat them in errors.
var keyLike = regexp.MustCompile(`\b(sk|xai|gsk|key)-[A-Za-z0-9_*.-]{8,}`)

// Redacted replaces keys in text.
const Redacted = "[redacted]"

// minSecret is how long a key is at least that is a secret. Local servers take any; a word such as "none" stays what it is
// in the answers of their models.
const minSecret = 12

// redactKey replaces the key in text that was received, in all its usual encodings.
func redactKey(text, key string) string {
	if len(key) < minSecret {
		return text
	}
	forms := []string{key, url.QueryEscape(key), url.PathEscape(key), base64.StdEncoding.EncodeToString([]byte(key)), base64.URLEncoding.EncodeToString([]byte(key))}
	if quoted, err := json.Marshal(key); err == nil {
		forms = append(forms, string(quoted[1:len(quoted)-1]))
	}
	slices.SortFunc(forms, func(a, b string) int { return len(b) - len(a) }) // the longest first: others may be parts of it
	for _, form := range forms {
		text = strings.ReplaceAll(text, strings.TrimRight(form, "="), Redacted)
	}
	return text
}

// redactError is redact for what a server says instead of an answer: nothing that looks like a key is wanted there.
func redactError(text, key string) string {
	return keyLike.ReplaceAllString(redactKey(text, key), Redacted)
}
