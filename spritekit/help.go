package main

import (
	"cmp"
	"fmt"
	"io"
	"strings"

	"github.com/spritekit/lattice/manifests"
)

// exitTable is shared by all skills and commands (DESIGN 13).
const exitTable = `Exit codes: 0 ok, 1 failed, 2 bad input, 3 not found, 4 permission denied, 5 network, 6 busy, 7 unsafe,
8 unsupported, 9 limit, 70 internal, 75 waiting, 124 timeout, 130 cancelled.
`

func (a app) runHelp(args []string) error {
	if len(args) == 0 {
		a.printHelp(a.stdout)
		return nil
	}
	if m, ok := manifests.Lookup(args[0]); ok {
		manifestHelp(a.stdout, m)
		return nil
	}
	for _, c := range allCommands() {
		if c.name == args[0] {
			c.printHelp(a.stdout)
			return nil
		}
	}
	return usagef("there is no skill or command %q", args[0])
}

func (a app) printHelp(w io.Writer) {
	fmt.Fprint(w, "spritekit runs skills inside a sprite.\n\nUsage: spritekit SKILL < input.json   or   spritekit COMMAND\n\nSkills:\n")
	for _, s := range a.skills {
		m, _ := manifests.Lookup(s.Name)
		first, _, _ := strings.Cut(m.Description, ". ")
		fmt.Fprintf(w, "  %-14s %s\n", s.Name, first)
	}
	fmt.Fprint(w, "\nCommands:\n")
	for _, c := range allCommands() {
		fmt.Fprintf(w, "  %-14s %s\n", c.name, c.summary)
	}
	fmt.Fprint(w, "\nExample: echo '{\"path\":\"README.md\"}' | spritekit fs.read\n\n", exitTable)
}

func (c command) printHelp(w io.Writer) {
	fmt.Fprintf(w, "%s\n\nUsage: spritekit %s\n\nExample: %s\n\nExit codes: %s\n", c.summary, c.usage, c.example, c.exits)
	if c.name == "emit" {
		fmt.Fprint(w, emitHelp)
	}
}

// manifestHelp shows a manifest to a person.
func manifestHelp(w io.Writer, m manifests.Skill) {
	fmt.Fprintf(w, "%s - %s\n\nUsage: spritekit %s < input.json\n", m.Name, m.Description, m.Name)
	fields := func(title string, list []manifests.Field) {
		if len(list) == 0 {
			return
		}
		fmt.Fprintf(w, "\n%s:\n", title)
		for _, f := range list {
			kind := cmp.Or(f.Type, "any")
			if f.Required {
				kind += ", required"
			}
			if f.Default != nil {
				kind += ", default " + string(f.Default)
			}
			fmt.Fprintf(w, "  %-16s (%s) %s\n", f.Name, kind, f.Description)
		}
	}
	fields("Inputs", m.Inputs)
	fields("Outputs", m.Outputs)
	fmt.Fprintf(w, "\nPermissions: %s\nSide effect: %s\n", strings.Join(m.Permissions, ", "), m.SideEffect)
	for i, e := range m.Examples {
		if i == 0 {
			fmt.Fprint(w, "\nExamples:\n")
		}
		fmt.Fprintf(w, "  echo '%s' | spritekit %s\n", e, m.Name)
	}
	fmt.Fprint(w, "\n", exitTable)
}
