package equip

import (
	"context"
	"fmt"
	"slices"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/dropin"
	"github.com/spritekit/lattice/orchestrator/leader/skillset"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
)

// AddSkillFlag adds --skill to a command.
func AddSkillFlag(cmd *cobra.Command, dirs *[]string) {
	cmd.Flags().StringArrayVar(dirs, "skill", nil, "add the skill in folder `DIR` to the built-in ones; repeatable")
	_ = cmd.MarkFlagDirname("skill")
}

// ReadDropIns reads the skills of the settings and of --skill flags.
func ReadDropIns(env *setup.Env, dirs []string) ([]dropin.Skill, error) {
	all, err := dropin.ReadAll(slices.Concat(env.Paths(env.Settings.Skills), env.Paths(dirs)))
	return all, err
}

// ReadCatalog finds built-in skills, and those of the settings and of --skill flags.
func ReadCatalog(env *setup.Env, dirs []string) (func(string) (manifests.Skill, bool), error) {
	all, err := ReadDropIns(env, dirs)
	return dropin.Lookup(all), err
}

// FindSkillFolders are the folders that a sprite which is made for a command has in /skills; one that was named has its own, and
// those that the command says.
func FindSkillFolders(env *setup.Env, dirs []string, sprite string) ([]string, error) {
	folders := env.Paths(dirs)
	if sprite == "" {
		folders = slices.Concat(env.Paths(env.Settings.Skills), folders)
	}
	all, err := dropin.ReadAll(folders)
	if err != nil {
		return nil, err
	}
	folders = nil
	for _, s := range all {
		folders = append(folders, s.Dir)
	}
	return folders, nil
}

// SelectShownSkills are the folders that the embedded host shows a new sprite; a remote one is sent them.
func SelectShownSkills(env *setup.Env, folders []string) []string {
	if env.RemoteSprites() != nil {
		return nil
	}
	return folders
}

// SendSkills sends skills to a remote sprite.
func SendSkills(ctx context.Context, env *setup.Env, c *sprites.Client, sprite string, folders []string) error {
	if env.RemoteSprites() == nil {
		return nil
	}
	for _, dir := range folders {
		if err := skillset.SendSkill(ctx, c, sprite, dir); err != nil {
			return err
		}
	}
	return nil
}

// RefuseNoPermission refuses an empty --allow: it would count as not said at all, and grant the default, which is nearly everything.
func RefuseNoPermission() error {
	return fault.BadInput("permission_missing", "--allow names no permission").WithHint("name what the skills may do, such as --allow fs:read; without --allow they get the default (--help)")
}

// NewEquipment returns the equipment of remote sprites, with the named spritekit, or the one next to lattice or on PATH.
func NewEquipment(env *setup.Env, c *sprites.Client, spritekit string) skillset.Equipment {
	return skillset.Equipment{
		Client: c,
		Find: func(arch string) (string, error) {
			return skillset.FindSpritekitFor(env.Spritekit(spritekit), env.Exe, env.Getenv("PATH"), arch)
		},
		Warn: func(message string) { fmt.Fprintf(env.Err, "lattice: %s\n", message) },
	}
}
