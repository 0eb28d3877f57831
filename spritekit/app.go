package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/spritekit/cli"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

// app is the process seen from its arguments.
type app struct {
	skills  []skill.Skill
	env     skill.Env
	environ []string // the environment that env was read from
	asJSON  bool     // errors of commands are printed as JSON
	stdin   *os.File
	stdout  io.Writer
	stderr  io.Writer
}

// command is one word after spritekit that is no skill.
type command struct {
	name    string
	usage   string
	summary string
	example string
	exits   string
	run     func(a app, args []string) error
}

func usagef(format string, args ...any) error { return cli.Usagef(format, args...) }

// runMain runs the command that argv[0] names, else the first argument, and returns the exit code.
func (a app) runMain(argv []string) int {
	if len(argv) == 0 {
		argv = []string{"spritekit"}
	}
	name, args := filepath.Base(argv[0]), argv[1:]
	if s, ok := a.findSkill(name); ok {
		return a.serveSkill(s, args)
	}
	if len(args) == 0 {
		a.printHelp(a.stderr)
		return protocol.ExitBadInput
	}
	name, args = args[0], args[1:]
	if s, ok := a.findSkill(name); ok {
		return a.serveSkill(s, args)
	}
	a.asJSON = slices.Contains(args, "--json")
	switch name {
	case "help", "--help", "-h":
		return a.exitCode("help", a.runHelp(args))
	case "--version":
		name = "version"
	}
	for _, c := range allCommands() {
		if c.name != name {
			continue
		}
		if wantsHelp(args) {
			c.printHelp(a.stdout)
			return protocol.ExitOK
		}
		return a.exitCode(c.name, c.run(a, args))
	}
	if s, ok := a.dropIn(name); ok {
		return a.exitCode(name, a.execDropIn(s, args))
	}
	return cli.Exit(a.stderr, "", fault.NotFound("not_found", "there is no skill or command %q", name).WithHint("%sspritekit help lists them", a.suggestName(name)), a.asJSON)
}

// suggestName returns a question that names the skill or command most like name, "" if none is.
func (a app) suggestName(name string) (hint string) {
	names, least := []string{}, len(name)
	for _, s := range a.skills {
		names = append(names, s.Name)
	}
	for _, c := range allCommands() {
		names = append(names, c.name)
	}
	for _, known := range names {
		if d := manifests.Distance(name, known); d <= 1+len(known)/4 && d < least {
			hint, least = "did you mean "+known+"? ", d
		}
	}
	return hint
}

func (a app) findSkill(name string) (skill.Skill, bool) {
	for _, s := range a.skills {
		if s.Name == name {
			return s, true
		}
	}
	return skill.Skill{}, false
}

// readsFor is how long a skill that only reads runs before signals are caught for it.
const readsFor = 5 * time.Millisecond

// serveSkill runs one skill. Signals are only caught once the input is there: until then nothing has happened, and the
// default of a signal is the one that a person expects. The same is true of a skill that only reads files and has only just
// begun to; most have ended before the thread that catches signals would be up.
func (a app) serveSkill(s skill.Skill, args []string) int {
	m, ok := manifests.Lookup(s.Name)
	if !ok {
		return a.exitCode(s.Name, fmt.Errorf("this binary has no manifest of %s", s.Name))
	}
	return a.runCall(s, m, args, m.SideEffect == manifests.ClassRead && onlyFiles(m))
}

// runCall runs one skill by its manifest. A quick one starts no programs and has mostly ended before signals are caught.
func (a app) runCall(s skill.Skill, m manifests.Skill, args []string, quick bool) int {
	if wantsHelp(args) {
		manifestHelp(a.stdout, m)
		return protocol.ExitOK
	}
	if len(args) > 0 {
		return a.exitCode(s.Name, usagef("a skill takes its input as JSON on stdin, not as arguments (%q)", args[0]))
	}
	input, err := a.readInput()
	if err != nil {
		return a.exitCode(s.Name, err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if quick {
		defer time.AfterFunc(readsFor, func() { cli.CancelAtSignal(cancel) }).Stop()
	} else {
		cli.CancelAtSignal(cancel)
	}
	return skill.Serve(ctx, s, m, a.env, skill.IO{Stdin: bytes.NewReader(input), Stdout: a.stdout, Stderr: a.stderr})
}

// onlyFiles reports whether a skill starts no programs, which would have to be ended with it.
func onlyFiles(m manifests.Skill) bool {
	return !slices.ContainsFunc(m.Permissions, func(p string) bool { return p != "fs:read" })
}

// readInput reads stdin as far as a skill takes it. A terminal counts as empty: a person who types a skill's name wants
// to see something happen.
func (a app) readInput() ([]byte, error) {
	info, err := a.stdin.Stat()
	if err != nil || info.Mode()&os.ModeCharDevice != 0 {
		return nil, nil // closed, a terminal or /dev/null
	}
	input, err := io.ReadAll(io.LimitReader(a.stdin, skill.MaxInput+1))
	if err != nil {
		return nil, fmt.Errorf("read stdin: %w", err)
	}
	return input, nil
}

// exitCode prints the error and returns the exit code.
func (a app) exitCode(name string, err error) int {
	if code, ok := err.(exitWith); ok {
		return int(code)
	}
	return cli.Exit(a.stderr, name, err, a.asJSON)
}

// writeJSON prints v as one line.
func (a app) writeJSON(v any) error { return cli.WriteJSON(a.stdout, v) }

// wantsHelp finds the flag anywhere: asking for help on "checkpoint create" must not create a checkpoint.
func wantsHelp(args []string) bool {
	return len(args) > 0 && args[0] == "help" || slices.Contains(args, "--help") || slices.Contains(args, "-h")
}

// cutFlag removes name from args and reports whether it was there.
func cutFlag(args []string, name string) ([]string, bool) { return cli.TakeFlag(args, name) }

// noMore refuses unexpected arguments.
func noMore(args []string) error {
	if len(args) > 0 {
		return usagef("%q is one argument too many", strings.Join(args, " "))
	}
	return nil
}

// takeOption removes name and the value behind it from args; "" is no value.
func takeOption(args []string, name string) (rest []string, value string, err error) {
	for i := 0; i < len(args); i++ {
		given, text, ok := strings.Cut(args[i], "=")
		if given != name {
			rest = append(rest, args[i])
			continue
		}
		if !ok && i+1 < len(args) {
			i++
			text = args[i]
		}
		if value = text; value == "" {
			return nil, "", usagef("%s lacks a value", name)
		}
	}
	return rest, value, nil
}
