package main

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/dropin"
	"github.com/spritekit/lattice/orchestrator/leader"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// addSkillFlag adds --skill to a command.
func addSkillFlag(cmd *cobra.Command, dirs *[]string) {
	cmd.Flags().StringArrayVar(dirs, "skill", nil, "take the skill in folder `DIR` along, beside the built-in ones; repeatable")
	_ = cmd.MarkFlagDirname("skill")
}

// dropIns reads the skills of the settings and of --skill flags.
func (d *deps) dropIns(dirs []string) ([]dropin.Skill, error) {
	all, err := dropin.ReadAll(slices.Concat(d.paths(d.settings.Skills), d.paths(dirs)))
	return all, err
}

// catalog finds built-in skills, and those of the settings and of --skill flags.
func (d *deps) catalog(dirs []string) (func(string) (manifests.Skill, bool), error) {
	all, err := d.dropIns(dirs)
	return dropin.Lookup(all), err
}

// ownSkills are the folders that a sprite which is made for a command has in /skills; one that was named has its own, and
// those that the command says.
func (d *deps) ownSkills(dirs []string, sprite string) ([]string, error) {
	read := d.dropIns
	if sprite != "" {
		read = func(dirs []string) ([]dropin.Skill, error) {
			all, err := dropin.ReadAll(d.paths(dirs))
			return all, err
		}
	}
	all, err := read(dirs)
	if err != nil {
		return nil, err
	}
	var folders []string
	for _, s := range all {
		folders = append(folders, s.Dir)
	}
	return folders, nil
}

// shownSkills are the folders that the embedded host shows a new sprite; a remote one is sent them.
func (d *deps) shownSkills(folders []string) []string {
	if d.remoteSprites() != nil {
		return nil
	}
	return folders
}

// sendSkills sends skills to a remote sprite.
func (d *deps) sendSkills(ctx context.Context, c *sprites.Client, sprite string, folders []string) error {
	if d.remoteSprites() == nil {
		return nil
	}
	for _, dir := range folders {
		if err := leader.SendSkill(ctx, c, sprite, dir); err != nil {
			return err
		}
	}
	return nil
}
