// Package dropin finds third-party skills next to our own: folders that are named after a skill and hold skill.json
// and a program, and executables whose manifest lies among ours (DESIGN 15). List is the place to start. The package
// runs nothing.
package dropin

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spritekit/lattice/manifests"
)

// Skill is a third-party skill.
type Skill struct {
	manifests.Skill
	Dir string // its folder, "" when it is an executable
	Raw []byte // its skill.json
	exe string // the executable
}

// Command is the command line that runs it.
func (s Skill) Command() []string {
	if s.exe != "" {
		return []string{s.exe}
	}
	return s.Skill.Command(filepath.ToSlash(s.Dir))
}

// ErrNone is wrapped by Load if there is no such skill.
var ErrNone = errors.New("there is no such skill")

// maxManifest bounds the size of a skill.json, in bytes; ParseSkill refuses larger ones.
const maxManifest = 256<<10 + 1

// Load reads the drop-in skill of this name below dir, usually /skills. Files are checked, not trusted: the
// folder is a folder, skill.json a regular file that is a manifest and names the skill. The errors name the file.
func Load(dir, name string) (Skill, error) {
	if !manifests.ValidName(name) {
		return Skill{}, fmt.Errorf("%w: %q is no name of a skill", ErrNone, name)
	}
	exe := filepath.Join(dir, name)
	if info, err := os.Lstat(exe); err != nil || !info.Mode().IsRegular() || info.Mode()&0o111 == 0 {
		return Open(exe)
	}
	s, err := Open(filepath.Join(dir, "manifests", name))
	s.Dir, s.exe = "", exe
	return s, err
}

// Open reads the drop-in skill whose folder is dir.
func Open(dir string) (Skill, error) {
	s := Skill{Dir: dir}
	info, err := os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !info.IsDir() {
		return s, fmt.Errorf("%w: %s is no folder", ErrNone, dir)
	}
	if err != nil {
		return s, err
	}
	file := filepath.Join(dir, manifests.ManifestFile)
	if s.Raw, err = readRegular(file); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			err = ErrNone
		}
		return s, fmt.Errorf("read %s: %w", file, err)
	}
	if s.Skill, err = manifests.ParseSkill(s.Raw); err != nil {
		return s, fmt.Errorf("%s: %w", file, err)
	}
	if s.Name != filepath.Base(dir) {
		return s, fmt.Errorf("%s is the manifest of %s; the folder must bear the skill's name", file, s.Name)
	}
	return s, nil
}

// List reads all drop-in skills below dir, sorted by name. Those that cannot be used are told by warn and left out, as
// are those that bear the name of a built-in skill.
func List(dir string, warn func(error)) []Skill {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil // there is nothing to find
	}
	var all []Skill
	for _, e := range entries {
		if !e.IsDir() && !e.Type().IsRegular() || !manifests.ValidName(e.Name()) {
			continue
		}
		if _, ours := manifests.Lookup(e.Name()); ours {
			warn(fmt.Errorf("%s: the built-in skill %s wins", filepath.Join(dir, e.Name()), e.Name()))
			continue
		}
		s, err := Load(dir, e.Name())
		if errors.Is(err, ErrNone) && !strings.Contains(e.Name(), ".") {
			continue // a folder or program that does not look like a skill
		}
		if err != nil {
			warn(err)
			continue
		}
		all = append(all, s)
	}
	return all
}

// readRegular reads a regular file and no other: a FIFO would block, a link lead elsewhere.
func readRegular(name string) ([]byte, error) {
	info, err := os.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is no regular file")
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxManifest))
}
