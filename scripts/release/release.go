package main

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// release is a release being built.
type release struct {
	root, out, work string
	time            time.Time // of the commit, and of all files
	version         string    // without v
	shared          string    // directory of the files that are the same for all platforms
}

// completions names the file of each shell's completion.
var completions = map[string]string{"bash": "lattice.bash", "zsh": "_lattice", "fish": "lattice.fish"}

// units are the units of systemd, with their folders in a system. scripts/release/units starts them.
var units = map[string]string{
	"lattice.service": "/usr/lib/systemd/user", "lattice@.service": "/usr/lib/systemd/system", "lattice-node.service": "/usr/lib/systemd/system",
}

func digestOf(file string) (string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	digest := sha256.Sum256(data)
	return hex.EncodeToString(digest[:]), nil
}

// output returns what a program prints, without the last newline.
func output(dir string, args ...string) (string, error) {
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			err = fmt.Errorf("%w: %s", err, failed.Stderr)
		}
		return "", fmt.Errorf("%s: %w", strings.Join(args, " "), err)
	}
	return strings.TrimSuffix(string(out), "\n"), nil
}

func copyFile(to, from string, mode os.FileMode) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return writeFile(to, data, mode)
}

func writeFile(file string, data []byte, mode os.FileMode) error {
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		return err
	}
	return errors.Join(os.WriteFile(file, data, mode), os.Chmod(file, mode))
}
