package host

import (
	"cmp"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
)

// maxSkills bounds the folders that one sprite has in /skills besides the host's own.
const maxSkills = 64

// skillFolders finds the folders that sprites see as /skills.
type skillFolders struct{ *core }

// skillsBase is the directory with the skills of the spritekit that a request names for a new sprite; "" leaves it to
// the host.
func (sf *skillFolders) skillsBase(spritekit string) (string, error) {
	switch {
	case spritekit == "":
		return "", nil
	case sf.cfg.InstallSkills == nil:
		return "", newError(http.StatusForbidden, "spritekit_refused", "this host gives sprites no spritekit that a request names; start it with --skills DIR")
	case !filepath.IsAbs(spritekit):
		return "", badRequest(fmt.Sprintf("spritekit: %q is not an absolute path", spritekit))
	}
	dir, err := sf.cfg.InstallSkills(spritekit)
	if err != nil {
		return "", newError(http.StatusBadRequest, "spritekit_refused", err.Error())
	}
	return dir, nil
}

// keepSkills judges the folders that a request wants a new sprite to have in /skills besides those of base.
func (sf *skillFolders) keepSkills(base string, paths []string) ([]string, error) {
	switch {
	case len(paths) == 0:
		return nil, nil
	case sf.cfg.KeepSkill == nil || base == "":
		return nil, newError(http.StatusForbidden, "skills_refused", "this host gives sprites no skills that a request names; put them into the directory of --skills")
	case len(paths) > maxSkills:
		return nil, badRequest(fmt.Sprintf("skills: more than %d folders", maxSkills))
	}
	var kept []string
	for _, path := range paths {
		if !filepath.IsAbs(path) {
			return nil, badRequest(fmt.Sprintf("skills: %q is no absolute path", path))
		}
		dir, err := sf.cfg.KeepSkill(path)
		if err != nil {
			return nil, newError(http.StatusBadRequest, "skill_refused", err.Error())
		}
		if slices.ContainsFunc(kept, func(k string) bool { return k != dir && filepath.Base(k) == filepath.Base(dir) }) {
			return nil, newError(http.StatusBadRequest, "skill_refused", fmt.Sprintf("two folders hold the skill %s", filepath.Base(dir)))
		}
		if !slices.Contains(kept, dir) {
			kept = append(kept, dir)
		}
	}
	slices.Sort(kept)
	return kept, nil
}

// skills is the directory that a sprite sees at /skills. Where its own cannot be made it has the host's: the call of
// a skill that is not there says so.
func (sf *skillFolders) skills(rec spriteRecord) string {
	base := cmp.Or(rec.SkillsBase, sf.cfg.Skills)
	if len(rec.Skills) == 0 || sf.cfg.SkillsWith == nil {
		return base
	}
	dir, err := sf.cfg.SkillsWith(base, rec.Skills)
	if err != nil {
		sf.cfg.Log.Warn().Err(err).Str("sprite", rec.Name).Msg("leave out the skills of others")
		return base
	}
	return dir
}

func newSkillFolders(c *core) *skillFolders { return &skillFolders{core: c} }
