package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Where skills lie in a sprite (DESIGN 15).
const (
	skillsDir    = "/skills"
	manifestsDir = skillsDir + "/manifests"
	maxManifest  = 256 << 10
	maxDropIns   = 1000
)

// skillIn is a skill as a sprite has it.
type skillIn struct {
	manifests.Skill
	Source string   `json:"source"` // builtin | sprite
	raw    []byte   // its skill.json
	cmd    []string // runs it
}

func builtinSkill(s manifests.Skill) skillIn {
	return skillIn{s, "builtin", manifests.Raw(s.Name), []string{path.Join(skillsDir, s.Name)}}
}

// skillsIn lists what a sprite offers: the built-in skills that it has, by our own manifests, and those that were
// dropped into it. A drop-in whose manifest cannot be used is told by warn and left out.
func skillsIn(ctx context.Context, c *sprites.Client, sprite string, warn func(string)) ([]skillIn, error) {
	names, err := skillNamesIn(ctx, c, sprite)
	if err != nil {
		return nil, err
	}
	var all []skillIn
	for _, name := range names {
		if s, ok := manifests.Lookup(name); ok {
			all = append(all, builtinSkill(s))
			continue
		}
		s, err := readManifest(ctx, c, sprite, name)
		if err != nil {
			warn(err.Error())
			continue
		}
		all = append(all, s)
	}
	return all, nil
}

// skillNamesIn lists what lies in /skills under the name of a skill. The sprite is not believed more than that.
func skillNamesIn(ctx context.Context, c *sprites.Client, sprite string) ([]string, error) {
	entries, err := c.ListDir(ctx, sprite, skillsDir)
	if err != nil {
		return nil, spriteProblem(err)
	}
	var names []string
	for _, e := range entries {
		if manifests.ValidName(e.Name) && len(names) < maxDropIns {
			names = append(names, e.Name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// readManifest reads the manifest of a skill that is not ours: beside its program in a folder of its own, or among the
// manifests of executables that lie in /skills itself.
func readManifest(ctx context.Context, c *sprites.Client, sprite, name string) (skillIn, error) {
	for _, dir := range []string{path.Join(skillsDir, name), path.Join(manifestsDir, name)} {
		file := path.Join(dir, manifests.ManifestFile)
		raw, err := c.ReadFile(ctx, sprite, file, maxManifest)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return skillIn{}, spriteProblem(err)
		}
		s, err := manifests.ParseSkill(raw)
		switch {
		case err != nil:
			return skillIn{}, fmt.Errorf("%s in sprite %s: %s", file, sprite, clean(err.Error()))
		case s.Name != name:
			return skillIn{}, fmt.Errorf("%s in sprite %s is the manifest of %s", file, sprite, s.Name)
		case path.Dir(dir) == manifestsDir:
			return skillIn{s, "sprite", raw, []string{path.Join(skillsDir, name)}}, nil
		}
		return skillIn{s, "sprite", raw, s.Command(dir)}, nil
	}
	return skillIn{}, api.Refuse(protocol.ExitNotFound, "skill_not_found", fmt.Sprintf("sprite %s has no skill %s with a manifest", sprite, clean(name)), "lattice skill ls --sprite "+sprite)
}

// dropInSkill finds a skill that a sprite brings itself. Names that are no names of skills are not looked for.
func dropInSkill(ctx context.Context, c *sprites.Client, sprite, name string) (skillIn, error) {
	if !manifests.ValidName(name) {
		return skillIn{}, noSkill(name, manifests.Skills())
	}
	return readManifest(ctx, c, sprite, name)
}
