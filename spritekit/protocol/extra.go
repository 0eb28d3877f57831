package protocol

import (
	"path/filepath"
	"strings"
)

// Extra is the name of the second file beside spritekit, which spritekit runs when a call needs it.
const Extra = "spritekit-extra"

// ExtraOf returns the path of the second file of a spritekit: in the same folder, with -extra added to the name, such
// as spritekit-extra-linux-arm64 for spritekit-linux-arm64.
func ExtraOf(spritekit string) string {
	rest, ok := strings.CutPrefix(filepath.Base(spritekit), "spritekit")
	if !ok {
		rest = ""
	}
	return filepath.Join(filepath.Dir(spritekit), Extra+rest)
}
