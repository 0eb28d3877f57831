// Package dropin takes the skills of others along: folders on this machine that bear a skill's name and hold skill.json
// and a program (DESIGN 15). Read looks at one, Keep copies it to where it no longer changes, Compose makes the /skills
// of sprites that have some of them next to the built-in ones. Nothing of a folder is run here.
package dropin

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Skill is a drop-in skill on this machine.
type Skill struct {
	manifests.Skill
	Raw []byte // its skill.json
	Dir string // its folder, absolute
}

const (
	maxManifest = 256<<10 + 1 // bytes; ParseSkill refuses larger ones
	maxFiles    = 10_000      // of one skill
	maxBytes    = 256 << 20   // of all its files
)

// inputError reports why a folder is not a skill that can be copied into a sprite. hint may be "".
func inputError(hint, format string, args ...any) error {
	return fault.BadInput("skill_invalid", format, args...).WithHint("%s", hint)
}

// Read checks a folder. Errors are a [fault.Error] or an error of the file system.
func Read(dir string) (Skill, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return Skill{}, err
	}
	if abs, err = filepath.EvalSymlinks(abs); err != nil {
		return Skill{}, notFoundError(dir, err)
	}
	s := Skill{Dir: abs}
	file := filepath.Join(abs, manifests.ManifestFile)
	info, err := os.Lstat(file)
	if err != nil {
		return s, notFoundError(dir, err)
	}
	if !info.Mode().IsRegular() || info.Size() > maxManifest {
		return s, inputError("", "%s is larger than a manifest may be (256 KiB), or is not a regular file", file)
	}
	if s.Raw, err = os.ReadFile(file); err != nil {
		return s, err
	}
	validate := "lattice skill validate " + dir
	if s.Skill, err = manifests.ParseSkill(s.Raw); err != nil {
		return s, inputError(validate, "%s: %v", file, err)
	}
	if s.Name != filepath.Base(abs) {
		return s, inputError(validate, "the folder %s holds the skill %s: the folder name must equal the skill's name", abs, s.Name)
	}
	if _, ours := manifests.Lookup(s.Name); ours {
		return s, inputError("give it another name", "%s is a built-in skill", s.Name)
	}
	return s, nil
}

func notFoundError(dir string, err error) error {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, errNotDir) {
		return fault.NotFound("skill_not_found", "%s is not a folder with a skill.json", dir).WithHint("name the folder of a skill")
	}
	return err
}

// ReadAll reads several folders; no two may hold the same skill.
func ReadAll(dirs []string) ([]Skill, error) {
	var all []Skill
	at := map[string]string{}
	for _, dir := range dirs {
		s, err := Read(dir)
		if err != nil {
			return nil, err
		}
		switch first, twice := at[s.Name]; {
		case twice && first != s.Dir:
			return nil, inputError("leave one of them out", "%s and %s are both the skill %s", first, s.Dir, s.Name)
		case twice:
			continue
		}
		at[s.Name] = s.Dir
		all = append(all, s)
	}
	return all, nil
}

// Lookup finds built-in skills, and then those of the list.
func Lookup(list []Skill) func(name string) (manifests.Skill, bool) {
	return func(name string) (manifests.Skill, bool) {
		if s, ok := manifests.Lookup(name); ok {
			return s, true
		}
		for _, s := range list {
			if s.Name == name {
				return s.Skill, true
			}
		}
		return manifests.Skill{}, false
	}
}

// linkStaysInside reports whether a link at rel, relative to the skill's folder, leads to a place in it.
func linkStaysInside(rel, target string) bool {
	return !filepath.IsAbs(target) && filepath.IsLocal(filepath.Join(filepath.Dir(rel), target)) && !strings.ContainsRune(target, 0)
}
