package proc

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
)

// DefaultPath is the PATH of a sprite that names none.
const DefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Getenv looks a variable up in an environment list, where the last one counts; absent or empty gives the fallback.
func Getenv(env []string, name, fallback string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(env[i], name+"="); ok && value != "" {
			return value
		}
	}
	return fallback
}

// LookPath finds an executable file on a PATH list. Relative entries are skipped: a folder that a project brought
// along shall not stand in for a system's program.
func LookPath(name, path string) (string, error) {
	for _, dir := range filepath.SplitList(path) {
		if !filepath.IsAbs(dir) {
			continue
		}
		full := filepath.Join(dir, name)
		if info, err := os.Stat(full); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return full, nil
		}
	}
	return "", errors.New(name + " is not on PATH")
}

// IsVariable reports whether name consists of letters, digits and underscores and does not begin with a digit. It uses a
// loop instead of a regular expression, which would be compiled at the start of every skill.
func IsVariable(name string) bool {
	bad := strings.IndexFunc(name, func(c rune) bool {
		return !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_')
	})
	return name != "" && bad < 0 && (name[0] < '0' || name[0] > '9')
}
