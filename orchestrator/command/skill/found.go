package skill

import (
	"context"
	"path"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/dropin"
	"github.com/spritekit/lattice/orchestrator/equip"
	"github.com/spritekit/lattice/orchestrator/leader/skillset"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Where skills lie in a sprite (DESIGN 15).
const (
	skillsDir   = "/skills"
	maxManifest = 256 << 10
)

// skillIn is a skill as a sprite has it.
type skillIn struct {
	manifests.Skill
	Source string   `json:"source"` // builtin | sprite | folder
	raw    []byte   // its skill.json
	cmd    []string // runs it
}

func builtinSkill(s manifests.Skill) skillIn {
	return skillIn{s, "builtin", manifests.Raw(s.Name), []string{path.Join(skillsDir, s.Name)}}
}

// folderSkill is a skill of --skill or of the settings, as it will be in a sprite.
func folderSkill(s dropin.Skill) skillIn {
	return skillIn{s.Skill, "folder", s.Raw, s.Command(path.Join(skillsDir, s.Name))}
}

// readLocalSkills lists the built-in skills, then those of the settings and of --skill flags.
func readLocalSkills(env *setup.Env, dirs []string) ([]skillIn, error) {
	var all []skillIn
	for _, s := range manifests.Skills() {
		all = append(all, builtinSkill(s))
	}
	more, err := equip.ReadDropIns(env, dirs)
	for _, s := range more {
		all = append(all, folderSkill(s))
	}
	return all, err
}

// skillsIn lists the skills of a sprite: the built-in skills that it has, by our own manifests, and those that were
// dropped into it. A drop-in whose manifest cannot be used is told by warn and left out.
func skillsIn(ctx context.Context, c *sprites.Client, sprite string, warn func(string)) ([]skillIn, error) {
	names, err := skillset.ListNames(ctx, c, sprite)
	if err != nil {
		return nil, setup.ExplainSprite(err)
	}
	var all []skillIn
	for _, name := range names {
		if s, ok := manifests.Lookup(name); ok {
			all = append(all, builtinSkill(s))
			continue
		}
		s, err := dropInSkill(ctx, c, sprite, name)
		if err != nil {
			warn(cli.Clean(err.Error()))
			continue
		}
		all = append(all, s)
	}
	return all, nil
}

// dropInSkill finds a skill that a sprite brings itself. Other names are not looked for.
func dropInSkill(ctx context.Context, c *sprites.Client, sprite, name string) (skillIn, error) {
	if !manifests.ValidName(name) {
		return skillIn{}, fault.NotFound("skill_not_found", "%q is not the name of a skill", cli.Clean(name)).WithHint("lattice skill ls --sprite %s", sprite)
	}
	s, err := skillset.FindSkill(ctx, c, sprite, name)
	if err != nil {
		return skillIn{}, setup.ExplainSprite(err)
	}
	return skillIn{s.Skill, "sprite", s.Raw, s.Command}, nil
}
