package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/skills"
	"github.com/spritekit/lattice/spritekit/dropin"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/skill"
)

// exitWith is the exit code of a command that has said all there is to say.
type exitWith int

func (e exitWith) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// serveProgram serves a skill whose skill.json is next to the program that implements it. The first argument that is a
// path says where: python3 ./main.py lies where main.py does.
func (a app) serveProgram(args []string) error {
	i := slices.IndexFunc(args, func(arg string) bool { return strings.Contains(arg, "/") && !strings.HasPrefix(arg, "-") })
	if i < 0 {
		return usagef("name the program by its path, such as ./main.sh or python3 ./main.py: skill.json lies beside it")
	}
	program, err := filepath.Abs(args[i])
	if err != nil {
		return err
	}
	argv := slices.Clone(args)
	argv[i] = program
	s, err := dropin.Open(filepath.Dir(program))
	if err != nil {
		return skill.BadInput("", "%v", err).WithHint("the folder bears the skill's name and holds skill.json; lattice skill validate DIR checks it")
	}
	return exitWith(a.runCall(skill.Skill{Name: s.Name, Run: skills.Served(argv)}, s.Skill, nil, false))
}

// dropIn finds a third-party skill next to this binary.
func (a app) dropIn(name string) (dropin.Skill, bool) {
	self, err := os.Executable()
	if err != nil {
		return dropin.Skill{}, false
	}
	s, err := dropin.Load(filepath.Dir(self), name)
	if file := filepath.Join(filepath.Dir(self), name); errors.Is(err, dropin.ErrNone) && manifests.ValidName(name) && isProgram(file) {
		return dropin.Skill{Skill: manifests.Skill{Name: name, Exec: []string{file}}}, true // its manifest lies elsewhere
	}
	if err != nil && !errors.Is(err, dropin.ErrNone) {
		fmt.Fprintf(a.stderr, "spritekit: %v\n", err)
	}
	return s, err == nil
}

func isProgram(file string) bool {
	info, err := os.Stat(file)
	return err == nil && info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

// execDropIn executes a third-party skill in place of this process; it returns only if that fails.
func (a app) execDropIn(s dropin.Skill, args []string) error {
	if wantsHelp(args) {
		manifestHelp(a.stdout, s.Skill)
		return nil
	}
	argv := append(s.Command(), args...)
	program, err := exec.LookPath(argv[0])
	if argv[0] == "spritekit" { // this executable, not the one on PATH
		program, err = os.Executable()
	}
	if err != nil {
		return fault.Unsupported("unsupported", "%s cannot be run: %v", s.Name, err).WithHint("exec in its skill.json names the program")
	}
	return fmt.Errorf("run %s: %w", program, syscall.Exec(program, argv, os.Environ()))
}
