package local

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
)

// maxSkills bounds the folders that one sprite has in /skills besides the host's own.
const maxSkills = 64

// keepSkills judges the folders that a request wants a new sprite to have in /skills.
func (h *Host) keepSkills(paths []string) ([]string, error) {
	switch {
	case len(paths) == 0:
		return nil, nil
	case h.cfg.KeepSkill == nil || h.cfg.Skills == "":
		return nil, &apiError{http.StatusForbidden, "skills_refused", "this host gives sprites no skills that a request names; put them into the directory of --skills"}
	case len(paths) > maxSkills:
		return nil, badRequest(fmt.Sprintf("skills: more than %d folders", maxSkills))
	}
	var kept []string
	for _, path := range paths {
		if !filepath.IsAbs(path) {
			return nil, badRequest(fmt.Sprintf("skills: %q is no absolute path", path))
		}
		dir, err := h.cfg.KeepSkill(path)
		if err != nil {
			return nil, &apiError{http.StatusBadRequest, "skill_refused", err.Error()}
		}
		if slices.ContainsFunc(kept, func(k string) bool { return k != dir && filepath.Base(k) == filepath.Base(dir) }) {
			return nil, &apiError{http.StatusBadRequest, "skill_refused", fmt.Sprintf("two folders hold the skill %s", filepath.Base(dir))}
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
func (h *Host) skills(rec spriteRecord) string {
	if len(rec.Skills) == 0 || h.cfg.SkillsWith == nil {
		return h.cfg.Skills
	}
	dir, err := h.cfg.SkillsWith(rec.Skills)
	if err != nil {
		h.cfg.Log.Warn().Err(err).Str("sprite", rec.Name).Msg("leave out the skills of others")
		return h.cfg.Skills
	}
	return dir
}
