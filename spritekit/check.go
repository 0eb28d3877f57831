package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/skills"
	"github.com/spritekit/lattice/spritekit/contract"
	"github.com/spritekit/lattice/spritekit/dropin"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/skill"
)

// runCheck drives a skill through the contract and says which promises it breaks.
func (a app) runCheck(args []string) error {
	args, asJSON := cutFlag(args, "--json")
	args, input, err := cutOption(args, "--input")
	if err != nil {
		return err
	}
	args, slow, err := cutOption(args, "--slow")
	if err != nil {
		return err
	}
	args, workspace, err := cutOption(args, "--workspace")
	if err != nil {
		return err
	}
	if len(args) != 1 || strings.HasPrefix(args[0], "-") {
		return usagef("name one skill, the folder of one, or the file of an agent's adapter")
	}
	if strings.HasSuffix(args[0], ".json") {
		return a.checkAdapter(args[0], asJSON)
	}
	target, err := a.findTarget(args[0])
	if err != nil {
		return err
	}
	if input != "" {
		target.Input = input
	}
	target.Slow = slow
	if workspace != "" {
		target.Prepare = func(dir string) error { return os.CopyFS(dir, os.DirFS(workspace)) }
	}
	dir, err := os.MkdirTemp("", "spritekit-check-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	broken := 0
	contract.Test(dir, target, func(r contract.Report) {
		if r.Status == contract.Broken {
			broken++
		}
		if asJSON {
			err = errors.Join(err, a.writeJSON(r))
			return
		}
		fmt.Fprintf(a.stdout, "%-8s %s\n", r.Status, r.Check)
		for _, finding := range r.Findings {
			fmt.Fprintf(a.stdout, "         %s\n", strings.ReplaceAll(finding, "\n", "\n         "))
		}
	})
	if err != nil {
		return err
	}
	if broken > 0 {
		return fault.Failed("contract_broken", "%s breaks %d of its promises", target.Skill, broken).
			WithHint("each finding says what was seen; spritekit serve keeps the contract for a program")
	}
	return nil
}

// checkAdapter prints the problems of an adapter for agent.run, a file for agents/ next to this binary.
func (a app) checkAdapter(file string, asJSON bool) error {
	raw, err := os.ReadFile(file)
	if err != nil {
		return skill.BadInput("", "%v", err).WithHint("name the file of an adapter, such as agents/aider.json")
	}
	problems := skills.CheckAdapter(strings.TrimSuffix(filepath.Base(file), ".json"), raw)
	for _, p := range problems {
		if asJSON {
			err = errors.Join(err, a.writeJSON(p))
			continue
		}
		fmt.Fprintln(a.stdout, strings.TrimSpace(p.Pointer+" "+p.Message))
	}
	if err != nil || len(problems) == 0 {
		return err
	}
	return fault.Failed("bad_adapter", "%s is wrong in %d places", file, len(problems)).
		WithHint("adapter.schema.json says what an adapter has; the built-in ones are examples")
}

// findTarget returns the skill to check: a folder, a built-in skill or one next to this binary. Its input is the first
// example of its manifest, its workspace the folder testdata/workspace if it has one.
func (a app) findTarget(name string) (contract.Target, error) {
	self, err := os.Executable()
	if err != nil {
		return contract.Target{}, fmt.Errorf("find this binary: %w", err)
	}
	path := os.Getenv("PATH") + string(os.PathListSeparator) + filepath.Dir(self)
	t := contract.Target{Skill: name, Exe: self, Args: []string{name}, Env: []string{"PATH=" + path}}
	m, builtin := manifests.Lookup(name)
	if !builtin {
		s, err := dropin.Load(filepath.Dir(self), name)
		if strings.Contains(name, "/") || errors.Is(err, dropin.ErrNone) {
			var dir string
			if dir, err = filepath.Abs(name); err == nil {
				s, err = dropin.Open(dir)
			}
		}
		if err != nil {
			return t, skill.BadInput("", "%v", err).WithHint("name a skill of spritekit skills, or the folder of one; lattice skill validate checks the folder")
		}
		m = s.Skill
		command := s.Command()
		if command[0] == "spritekit" {
			command[0] = self
		}
		t.Skill, t.Exe, t.Args = s.Name, command[0], command[1:]
		if info, err := os.Stat(filepath.Join(s.Dir, "testdata", "workspace")); err == nil && info.IsDir() {
			t.Prepare = func(dir string) error { return os.CopyFS(dir, os.DirFS(filepath.Join(s.Dir, "testdata", "workspace"))) }
		}
	}
	t.Manifest = &m
	t.Input = "{}"
	if len(m.Examples) > 0 {
		t.Input = string(m.Examples[0])
	}
	var input map[string]json.RawMessage
	if err := json.Unmarshal([]byte(t.Input), &input); err != nil {
		return t, fmt.Errorf("read the example of %s: %w", t.Skill, err)
	}
	if builtin {
		t.Prepare = prepareBuiltin(self, name, t.Env)
		adaptTarget(&t, a.socketPath())
		if err := json.Unmarshal([]byte(t.Input), &input); err != nil {
			return t, fmt.Errorf("read the input of %s: %w", t.Skill, err)
		}
	}
	class, permissions := m.Effective(input)
	t.Reads, t.Permissions = class == manifests.ClassRead, permissions
	return t, nil
}

// socketPath is the api socket of the sprite, "" when there is none.
func (a app) socketPath() string {
	if _, err := os.Stat(a.env.Socket); err != nil {
		return ""
	}
	return a.env.Socket
}

// cutOption removes name and its value from args.
func cutOption(args []string, name string) (rest []string, value string, err error) {
	for i := 0; i < len(args); i++ {
		if args[i] != name {
			rest = append(rest, args[i])
			continue
		}
		if i++; i == len(args) {
			return nil, "", usagef("%s wants a value", name)
		}
		value = args[i]
	}
	return rest, value, nil
}
