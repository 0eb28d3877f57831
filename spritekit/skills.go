package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/spritekit/dropin"
	"github.com/spritekit/lattice/spritekit/export"
	"github.com/spritekit/lattice/spritekit/fault"
)

// exportSkills writes the built-in skills, and those next to this binary, as Agent Skills; or compares.
func (a app) exportSkills(args []string) error {
	args, check := cutFlag(args, "--check")
	if len(args) != 1 || strings.HasPrefix(args[0], "-") {
		return usagef("name one folder")
	}
	var list []export.Skill
	for _, s := range a.skills {
		m, ok := manifests.Lookup(s.Name)
		if !ok {
			return fmt.Errorf("this binary has no manifest of %s", s.Name)
		}
		list = append(list, export.Skill{Skill: m})
	}
	dir, err := dropInFolder()
	if err != nil {
		return err
	}
	for _, s := range dropin.List(dir, func(err error) { fmt.Fprintf(a.stderr, "spritekit skills: %v\n", err) }) {
		list = append(list, export.Skill{Skill: s.Skill, Command: s.Command()})
	}
	files, err := export.Files(list)
	if err != nil {
		return err
	}
	if !check {
		return export.Write(args[0], files)
	}
	differences, err := export.Check(args[0], files)
	if err != nil {
		return err
	}
	if len(differences) > 0 {
		return fault.Failed("differs", "%s is out of date: %s", args[0], strings.Join(differences, "; ")).
			WithHint("spritekit skills export %s", args[0])
	}
	return nil
}

// dropInFolder is the folder of this binary, where skills are dropped in.
func dropInFolder() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("find this binary: %w", err)
	}
	return filepath.Dir(self), nil
}
