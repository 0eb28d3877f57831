package skillset

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/dropin"
	"github.com/spritekit/lattice/orchestrator/leader/home"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// skillsDir is the folder of a sprite's skills (DESIGN 15).
const skillsDir = "/skills"

// KeepSkill copies the folder of a drop-in skill to a place where it does not change, and returns that place.
func KeepSkill(h home.Home, dir string) (string, error) {
	s, err := dropin.Read(dir)
	if err != nil {
		return "", err
	}
	return dropin.Keep(h.DropIns(), s)
}

// ComposeSkills makes a directory with the skills of base and those that were kept, and returns its path.
func ComposeSkills(h home.Home, base string, kept []string) (string, error) {
	sum := sha256.New()
	for _, dir := range append([]string{base}, kept...) {
		fmt.Fprintf(sum, "%q\n", dir)
	}
	to := h.Skills(hex.EncodeToString(sum.Sum(nil)[:16]))
	return to, dropin.Compose(base, kept, to)
}

// Catalog finds the skills that a flow names: drop-in skills whose folders were given, and those of the sprite that was named.
type Catalog struct {
	Given []dropin.Skill
	Kept  []string // copies of the folders of Given
	// Ask reads a manifest from the run's sprite; nil if the sprite is made for the run.
	Ask   func(name string) (FoundSkill, error)
	Found map[string]FoundSkill
	Err   error // the first failure of Ask, other than that there is no such skill
}

func (c *Catalog) Lookup(name string) (manifests.Skill, bool) {
	if s, ok := dropin.Lookup(c.Given)(name); ok || c.Ask == nil || c.Err != nil || !manifests.ValidName(name) {
		return s, ok
	}
	if s, ok := c.Found[name]; ok {
		return s.Skill, s.Name != ""
	}
	s, err := c.Ask(name)
	if problem := (*fault.Error)(nil); err != nil && !(errors.As(err, &problem) && problem.Exit == protocol.ExitNotFound) {
		c.Err = err
	}
	c.Found[name] = s
	return s.Skill, err == nil
}

// Pins returns the manifests of all drop-in skills, sorted by name.
func (c *Catalog) Pins() []json.RawMessage {
	raw := map[string]json.RawMessage{}
	for _, s := range c.Given {
		raw[s.Name] = s.Raw
	}
	for name, s := range c.Found {
		if s.Name != "" {
			raw[name] = s.Raw
		}
	}
	var list []json.RawMessage
	for _, name := range slices.Sorted(maps.Keys(raw)) {
		list = append(list, raw[name])
	}
	return list
}

// FoundSkill is a drop-in skill of a sprite.
type FoundSkill struct {
	manifests.Skill
	Raw     []byte
	Command []string // runs it in the sprite
}

// maxManifest bounds the size of a manifest that is read from a sprite, in bytes.
const maxManifest = 256 << 10

// FindSkill reads the manifest of a drop-in skill from a sprite: in the skill's own folder, or in the folder of manifests for
// executables in /skills itself. The sprite is trusted with the inputs and outputs of its skills; the permissions of a call
// are bounded by the run's grant.
func FindSkill(ctx context.Context, c *sprites.Client, sprite, name string) (FoundSkill, error) {
	for _, dir := range []string{path.Join(skillsDir, name), path.Join(skillsDir, "manifests", name)} {
		file := path.Join(dir, manifests.ManifestFile)
		raw, err := c.ReadFile(ctx, sprite, file, maxManifest)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return FoundSkill{}, fmt.Errorf("read %s in sprite %s: %w", file, sprite, err)
		}
		s, err := manifests.ParseSkill(raw)
		if err == nil && s.Name != name {
			err = fmt.Errorf("it is the manifest of %s", s.Name)
		}
		if err != nil {
			return FoundSkill{}, fault.BadInput("skill_invalid", "%s in sprite %s: %v", file, sprite, err).WithHint("lattice skill validate checks a skill before it is dropped in")
		}
		command := s.Command(dir)
		if path.Dir(dir) != skillsDir {
			command = []string{path.Join(skillsDir, name)}
		}
		return FoundSkill{s, raw, command}, nil
	}
	return FoundSkill{}, fault.NotFound("skill_not_found", "sprite %s has no skill %s with a manifest", sprite, name).WithHint("lattice skill ls --sprite %s", sprite)
}

// unpackScript unpacks the skill $1, a tar on stdin, into /skills.
const unpackScript = `set -e
how=; [ -w /skills ] || how="sudo -n"
$how rm -rf "/skills/.new-$1"
$how mkdir "/skills/.new-$1"
$how tar -x -f - -C "/skills/.new-$1"
$how rm -rf "/skills/$1"
$how mv "/skills/.new-$1" "/skills/$1"`

// SendSkill copies the folder of a drop-in skill into the /skills of a remote sprite.
func SendSkill(ctx context.Context, c *sprites.Client, sprite, dir string) error {
	var archive, errs bytes.Buffer
	if err := packFolder(&archive, dir); err != nil {
		return fmt.Errorf("pack skill %s: %w", filepath.Base(dir), err)
	}
	exit, err := c.Exec(ctx, sprite, sprites.Exec{
		Cmd: []string{"sh", "-c", unpackScript, "sh", filepath.Base(dir)}, Stdin: &archive, Stderr: &errs, MaxRunAfterDisconnect: time.Minute,
	})
	if err != nil {
		return fmt.Errorf("send skill %s to sprite %s: %w", filepath.Base(dir), sprite, err)
	}
	if exit != 0 {
		return fault.Failed("install_failed", "sprite %s did not take the skill %s: %s", sprite, filepath.Base(dir), strings.TrimSpace(errs.String())).WithHint("let its user write /skills, or put the skill into its image")
	}
	return nil
}

func packFolder(w io.Writer, dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	archive := tar.NewWriter(w)
	if err := archive.AddFS(root.FS()); err != nil {
		return err
	}
	return archive.Close()
}
