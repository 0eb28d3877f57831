// Package share shows sprites folders of the host: skills ([Skills]), and a Go build cache that already holds the standard
// library ([GoCaches]). Sprites cannot change these folders.
package share

import (
	"cmp"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"

	"github.com/spritekit/lattice/orchestrator/host/core"
	"github.com/spritekit/lattice/orchestrator/host/records"
	"github.com/spritekit/lattice/orchestrator/host/wire"
)

// maxSkills bounds the folders that one sprite has in /skills besides the host's own.
const maxSkills = 64

// Skills finds the folders that sprites see as /skills.
type Skills struct{ *core.Core }

// Base is the directory with the skills of the spritekit that a request names for a new sprite; "" leaves it to
// the host.
func (sf *Skills) Base(spritekit string) (string, error) {
	switch {
	case spritekit == "":
		return "", nil
	case sf.Config.InstallSkills == nil:
		return "", wire.Refuse(http.StatusForbidden, "spritekit_refused", "this host gives sprites no spritekit that a request names; start it with --skills DIR")
	case !filepath.IsAbs(spritekit):
		return "", wire.BadRequest(fmt.Sprintf("spritekit: %q is not an absolute path", spritekit))
	}
	dir, err := sf.Config.InstallSkills(spritekit)
	if err != nil {
		return "", wire.Refuse(http.StatusBadRequest, "spritekit_refused", err.Error())
	}
	return dir, nil
}

// Keep judges the folders that a request wants a new sprite to have in /skills besides those of base.
func (sf *Skills) Keep(base string, paths []string) ([]string, error) {
	switch {
	case len(paths) == 0:
		return nil, nil
	case sf.Config.KeepSkill == nil || base == "":
		return nil, wire.Refuse(http.StatusForbidden, "skills_refused", "this host gives sprites no skills that a request names; put them into the directory of --skills")
	case len(paths) > maxSkills:
		return nil, wire.BadRequest(fmt.Sprintf("skills: more than %d folders", maxSkills))
	}
	var kept []string
	for _, path := range paths {
		if !filepath.IsAbs(path) {
			return nil, wire.BadRequest(fmt.Sprintf("skills: %q is no absolute path", path))
		}
		dir, err := sf.Config.KeepSkill(path)
		if err != nil {
			return nil, wire.Refuse(http.StatusBadRequest, "skill_refused", err.Error())
		}
		if slices.ContainsFunc(kept, func(k string) bool { return k != dir && filepath.Base(k) == filepath.Base(dir) }) {
			return nil, wire.Refuse(http.StatusBadRequest, "skill_refused", fmt.Sprintf("two folders hold the skill %s", filepath.Base(dir)))
		}
		if !slices.Contains(kept, dir) {
			kept = append(kept, dir)
		}
	}
	slices.Sort(kept)
	return kept, nil
}

// DirOf is the directory that a sprite sees at /skills. Where its own cannot be made it has the host's: the call of
// a skill that is not there says so.
func (sf *Skills) DirOf(rec records.Sprite) string {
	base := cmp.Or(rec.SkillsBase, sf.Config.Skills)
	if len(rec.Skills) == 0 || sf.Config.SkillsWith == nil {
		return base
	}
	dir, err := sf.Config.SkillsWith(base, rec.Skills)
	if err != nil {
		sf.Config.Log.Warn().Err(err).Str("sprite", rec.Name).Msg("leave out the skills of others")
		return base
	}
	return dir
}

func NewSkills(c *core.Core) *Skills { return &Skills{Core: c} }
