// Package toolchain knows which programs of this machine sprites could use, and which paths they must never see. Start
// with Machine: Check judges a path that a person wants to show to sprites read-only (--tool PATH, the settings' tools),
// Find looks for programs and names the narrowest paths with which each of them would run in a sprite.
//
// Shown files can be read by everything that runs in a sprite, so folders that hold credentials are refused, and so is
// every folder that contains such a one, or the state directory. Nothing is ever shown because it was found: Find only
// proposes, with the exception of Default.
package toolchain

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Codes of the refusals of Check.
const (
	CodeBad      = "tool_path_invalid"   // relative, or not a path
	CodeMissing  = "tool_not_found"      // there is nothing
	CodeUnsafe   = "tool_path_unsafe"    // would show files that sprites must not see
	CodeOverlaps = "tool_path_overlaps"  // a sprite has something of its own there
	CodeKind     = "tool_path_not_plain" // a socket, pipe or device
)

// Machine holds the facts about this machine that decide about paths. All are absolute; "" leaves a rule out.
type Machine struct {
	Home  string // the user's home directory
	State string // the state directory
	Path  string // $PATH, for Find
	// Taken lists the folders that a sprite has of its own, or that belong to the running system.
	Taken []string
}

// secrets lists, relative to the home directory, the paths that hold credentials or a person's private things. Everything below
// is refused, and everything above where it exists.
var secrets = []string{
	".ssh", ".aws", ".azure", ".gnupg", ".kube", ".docker", ".config", ".claude", ".codex", ".gemini", ".mozilla", ".thunderbird",
	".password-store", ".netrc", ".npmrc", ".pypirc", ".git-credentials", ".gitconfig", ".pgpass", ".bash_history", ".zsh_history",
	".cargo/credentials", ".cargo/credentials.toml", ".local/share/keyrings", ".local/share/opencode", ".local/state", ".m2/settings.xml",
	".gradle/gradle.properties", ".terraform.d", ".vault-token", "Library/Keychains", "Library/Application Support",
}

// programs lists folders below secrets that hold nothing but installed programs.
var programs = []string{".claude/local", ".config/nvm/versions", ".config/composer/vendor"}

// wide lists folders of a home directory in which too much comes together to be shown as a whole.
var wide = []string{".local", ".local/share", ".cache", "go", "Library", "Desktop", "Documents", "Downloads"}

// system lists top-level folders of which parts may be shown. Any other top-level folder as a whole is refused.
var system = []string{"/opt", "/nix", "/snap", "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64"}

// Check returns the cleaned form of a path that may be shown to sprites, with a leading ~/ replaced. The error is a
// *lattice.Refusal with one of the codes above, a sentence and a remedy.
func (m Machine) Check(path string) (string, error) {
	if rest, ok := strings.CutPrefix(path, "~/"); ok && m.Home != "" {
		path = filepath.Join(m.Home, rest)
	}
	if !filepath.IsAbs(path) || strings.ContainsFunc(path, func(r rune) bool { return r < 0x20 || r == 0x7f || r == ':' }) {
		return "", newRefusal(CodeBad, "write the whole path, for example $HOME/.cargo/bin", "%q is no path that can be shown to sprites: it must be absolute, without colons and control characters", path)
	}
	path = filepath.Clean(path)
	if err := m.checkAllowed(path); err != nil {
		return "", err
	}
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "", newRefusal(CodeMissing, "look with: ls -ld "+path+"; lattice doctor proposes paths", "there is nothing at %s to show to sprites", path)
	case err != nil:
		return "", newRefusal(CodeMissing, "make it readable, or leave it out", "%s cannot be shown to sprites: %v", path, err)
	case !info.IsDir() && !info.Mode().IsRegular():
		return "", newRefusal(CodeKind, "name the folder or file with the program", "%s is a %s, which would let a sprite talk to this machine", path, fileKind(info.Mode()))
	}
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", newRefusal(CodeMissing, "make it readable, or leave it out", "%s cannot be shown to sprites: %v", path, err)
	}
	if real != path {
		if err := m.checkAllowed(real); err != nil {
			if r, ok := errors.AsType[*lattice.Refusal](err); ok {
				r.Fault.Message = path + " is a link to " + real + ": " + r.Fault.Message
			}
			return "", err
		}
	}
	return path, nil
}

func fileKind(mode fs.FileMode) string {
	switch {
	case mode&fs.ModeSocket != 0:
		return "socket"
	case mode&fs.ModeNamedPipe != 0:
		return "pipe"
	}
	return "device"
}

// checkAllowed judges by names alone, except that a folder is refused for the secrets that exist in it.
func (m Machine) checkAllowed(path string) error {
	const narrow = "name the folder of the program itself, such as …/bin; lattice doctor proposes some"
	for _, own := range m.Taken {
		if isWithin(path, own) {
			return newRefusal(CodeOverlaps, "install the tool elsewhere, for example below /opt or $HOME", "%s lies in %s, which sprites have for themselves", path, own)
		}
	}
	if path == "/" || filepath.Dir(path) == "/" && !slices.Contains(system, path) {
		return newRefusal(CodeUnsafe, narrow, "%s as a whole would show sprites most of this machine", path)
	}
	if m.State != "" {
		for _, state := range realForms(m.State) {
			if isWithin(path, state) || isWithin(state, path) {
				return newRefusal(CodeUnsafe, narrow, "%s would show sprites the state directory %s with all runs and other sprites", path, state)
			}
		}
	}
	for _, home := range realForms(m.Home) {
		if isWithin(home, path) {
			return newRefusal(CodeUnsafe, narrow, "%s would show sprites your home directory", path)
		}
		if slices.Contains(joinAll(home, wide), path) {
			return newRefusal(CodeUnsafe, narrow, "%s as a whole holds more than a tool", path)
		}
		if err := m.checkPrivate(home, path); err != nil {
			return err
		}
	}
	return nil
}

// checkPrivate refuses paths that lie in, or contain, one of the secrets of a home directory.
func (m Machine) checkPrivate(home, path string) error {
	for _, ok := range joinAll(home, programs) {
		if isWithin(path, ok) {
			return nil
		}
	}
	for _, secret := range joinAll(home, secrets) {
		const hint = "show a narrower folder, such as its bin; give an agent its key with --agent-env NAME"
		if isWithin(path, secret) {
			return newRefusal(CodeUnsafe, hint, "%s may hold credentials, which sprites must not see", path)
		}
		if !isWithin(secret, path) {
			continue
		}
		if _, err := os.Lstat(secret); err == nil {
			return newRefusal(CodeUnsafe, hint, "%s holds %s, which sprites must not see", path, secret)
		}
	}
	return nil
}

// realForms is a folder by its name and, where that leads through links, by its real one.
func realForms(dir string) []string {
	if dir == "" || dir == "/" {
		return nil
	}
	dir = filepath.Clean(dir)
	if real, err := filepath.EvalSymlinks(dir); err == nil && real != dir {
		return []string{dir, real}
	}
	return []string{dir}
}

func joinAll(home string, below []string) []string {
	all := make([]string, len(below))
	for i, b := range below {
		all[i] = filepath.Join(home, b)
	}
	return all
}

// isWithin reports whether path is dir or lies below it, by name.
func isWithin(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

func newRefusal(code, hint, format string, args ...any) error {
	return &lattice.Refusal{Fault: protocol.Fault{Code: code, Message: fmt.Sprintf(format, args...), Hint: hint}}
}
