package loop

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"

	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/loop"
	"github.com/spritekit/lattice/spritekit/workspace"
)

// maxText bounds the texts of the loop.
const maxText = 256 << 10

// readFile reads a file of the loop; ok is false if there is none.
func readFile(root *workspace.Root, name string, limit int64) (data []byte, ok bool, err error) {
	data, err = root.ReadFile(path.Join(loop.Dir, name), limit)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, badFile("%s cannot be read: %v", name, err)
	}
	return data, true, nil
}

// badFile returns the error of a file that an agent or a person wrote.
func badFile(format string, args ...any) error {
	return fault.Failed("loop_file", format, args...).WithHint("open a shell with lattice loop attach, correct the file, then lattice loop resume")
}

func writeFile(root *workspace.Root, name string, data []byte) error {
	return root.WriteFile(path.Join(loop.Dir, name), data, 0)
}

// writeJSON replaces a file of the loop by the indented JSON of v.
func writeJSON(root *workspace.Root, name string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", name, err)
	}
	return writeFile(root, name, append(data, '\n'))
}

// removeFile removes a file of the loop, or a folder of its name.
func removeFile(root *workspace.Root, name string) error {
	return root.RemoveAll(path.Join(loop.Dir, name))
}

// digest identifies the content of a file, "" if there is none.
func digest(data []byte, ok bool) string {
	if !ok {
		return ""
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
