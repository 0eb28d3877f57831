package engine

import "strings"

// HasKey reports whether a commit message has the trailer of this key.
func HasKey(message, key string) bool {
	for line := range strings.Lines(message) {
		if strings.TrimRight(line, "\r\n") == KeyTrailer+": "+key {
			return true
		}
	}
	return false
}

// IsCommitID accepts a full object id in lower case, sha1 or sha256.
func IsCommitID(s string) bool {
	if len(s) != 40 && len(s) != 64 {
		return false
	}
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}
