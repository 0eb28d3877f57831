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
