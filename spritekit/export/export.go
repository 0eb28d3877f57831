// Package export writes skills as Agent Skills (agentskills.io): one folder per family, spritekit-git for git.*, with a
// SKILL.md that an agent reads when a task is of that kind, and references/<skill>.md for each skill, made from its
// manifest. Files makes them, as bytes by path; Write and Check bring a folder and them together.
//
// The files depend on the manifests alone, so a folder that differs is out of date.
package export

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/spritekit/text"
)

// Prefix begins the names of the folders.
const Prefix = "spritekit-"

const (
	maxName        = 64   // of a folder, which is the skill's name
	maxDescription = 1024 // bytes of the text that is always before an agent's eyes
	mark           = "<!-- Made by spritekit skills export; changes are lost. -->\n"
)

// Skill is one to write about.
type Skill struct {
	manifests.Skill
	Command []string // command that runs it; nil: spritekit and its name
}

// Files makes the folders of all families, by slash-separated path. A family whose name makes no valid folder is an error.
func Files(skills []Skill) (map[string][]byte, error) {
	families := map[string][]Skill{}
	for _, s := range skills {
		name, _, _ := strings.Cut(s.Name, ".")
		families[name] = append(families[name], s)
	}
	files := map[string][]byte{}
	for _, family := range slices.Sorted(maps.Keys(families)) {
		members := families[family]
		slices.SortFunc(members, func(a, b Skill) int { return cmp.Compare(a.Name, b.Name) })
		folder, err := folderOf(family)
		if err != nil {
			return nil, err
		}
		digest := sha256.New()
		for _, s := range members {
			reference := writeReference(s)
			digest.Write(reference) // a hash's Write never fails
			files[path.Join(folder, "references", s.Name+".md")] = reference
		}
		files[path.Join(folder, "SKILL.md")] = writeOverview(family, folder, members, hex.EncodeToString(digest.Sum(nil)))
	}
	return files, nil
}

// folderOf makes a name by the rules: lower-case letters, digits and single hyphens.
func folderOf(family string) (string, error) {
	name := Prefix + strings.ReplaceAll(family, "_", "-")
	if len(name) > maxName || strings.HasSuffix(name, "-") || strings.Contains(name, "--") {
		return "", fmt.Errorf("the family %s makes no name of an Agent Skill: %s", family, name)
	}
	return name, nil
}

// writeOverview returns SKILL.md: how an agent chooses and calls the skills of a family.
func writeOverview(family, folder string, members []Skill, digest string) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "---\nname: %s\ndescription: %s\nlicense: Apache-2.0\nmetadata:\n  generator: spritekit\n  digest: %s\n---\n%s", folder, quoteShell(describeMembers(members)), digest, mark)
	fmt.Fprintf(&b, "\n# %s\n\n| skill | what it does |\n|---|---|\n", family)
	for _, s := range members {
		fmt.Fprintf(&b, "| [%s](references/%s.md) | %s |\n", s.Name, s.Name, tableCell(firstSentence(s.Description)))
	}
	b.WriteString(`
## Call one

A skill reads one JSON object on stdin and takes no arguments. The last line that it prints is the result; lines that begin with ` + "`LATTICE_EVENT `" + `
are for the orchestrator. Paths are relative to the workspace.

` + "```sh\n" + describeInvocation(members[0]) + "\n```" + `

- Success: ` + "`{\"ok\":true,\"data\":{…}}`" + `, exit code 0.
- Failure: ` + "`{\"ok\":false,\"error\":{\"code\",\"message\",\"hint\"}}`" + `; do what the hint says.
- Waiting: ` + "`{\"ok\":true,\"waiting\":{…}}`" + `, exit code 75: a person or the orchestrator answers later. End your turn.

Exit codes: 0 ok, 1 failed, 2 bad input, 3 not found, 4 permission denied, 5 network, 6 busy (try again), 7 unsafe,
8 unsupported, 9 limit, 70 internal, 75 waiting, 124 timeout, 130 cancelled.

Read a skill's reference before you call it for the first time.
`)
	return []byte(b.String())
}

// describeMembers describes the purpose of a family, within the limit.
func describeMembers(members []Skill) string {
	names := make([]string, len(members))
	for i, s := range members {
		names[i] = s.Name
	}
	return text.Head(fmt.Sprintf("Skills of this sandbox with structured answers: %s. Use them rather than shell commands whenever a task needs one of these. %s",
		strings.Join(names, ", "), listMembers(members)), maxDescription)
}

func listMembers(members []Skill) string {
	var lines []string
	for _, s := range members {
		lines = append(lines, s.Name+": "+firstSentence(s.Description))
	}
	return strings.Join(lines, " ")
}

// writeReference is the page of one skill.
func writeReference(s Skill) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n# %s\n\n%s\n", mark, s.Name, oneLine(s.Description))
	table := func(title string, fields []manifests.Field, defaults bool) {
		if len(fields) == 0 {
			fmt.Fprintf(&b, "\n## %s\n\nNone.\n", title)
			return
		}
		fmt.Fprintf(&b, "\n## %s\n\n| name | type | | |\n|---|---|---|---|\n", title)
		for _, f := range fields {
			need := "optional"
			if f.Required {
				need = "required"
				if !defaults {
					need = "always"
				}
			}
			if f.Default != nil {
				need = "default `" + tableCell(string(f.Default)) + "`"
			}
			fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", f.Name, tableCell(cmp.Or(f.Type, "any")), need, tableCell(f.Description))
		}
	}
	if s.Inputs == nil {
		b.WriteString("\n## Input\n\nAny JSON object.\n")
	} else {
		table("Input", s.Inputs, true)
	}
	table("Data of the result", s.Outputs, false)
	fmt.Fprintf(&b, "\n## Examples\n\n```sh\n%s\n```\n", listInvocations(s))
	class, permissions := s.SideEffect, "none"
	if len(s.Permissions) > 0 {
		permissions = "`" + strings.Join(s.Permissions, "`, `") + "`"
	}
	fmt.Fprintf(&b, "\n## Contract\n\n- Permissions: %s\n- Effects: %s\n", permissions, describeClass(class))
	if s.Variants != nil {
		for _, name := range slices.Sorted(maps.Keys(s.Variants.Cases)) {
			v := s.Variants.Cases[name]
			fmt.Fprintf(&b, "- With `%s` %q: permissions `%s`; %s\n", s.Variants.Input, name, strings.Join(v.Permissions, "`, `"), describeClass(v.SideEffect))
		}
	}
	if s.TimeoutS > 0 {
		fmt.Fprintf(&b, "- Time: at most %v s\n", s.TimeoutS)
	}
	events := "none"
	if s.ProducesEvents {
		events = fmt.Sprintf("PHASE_STARTED and PHASE_FINISHED with phase `%s`, INFO, and what it produces as ARTIFACT", s.Name)
	}
	fmt.Fprintf(&b, "- Events: %s\n- Exit codes: 0 ok, 1 failed, 2 bad input, 3 not found, 4 permission denied, 6 busy, 7 unsafe, 75 waiting, 124 timeout\n", events)
	return []byte(b.String())
}

func describeClass(c manifests.Class) string {
	switch c {
	case manifests.ClassRead:
		return "none; it may be called again at will"
	case manifests.ClassIdempotent:
		return "the same however often it is called"
	case manifests.ClassSprite:
		return "on files of the sandbox only"
	}
	return "on the world outside, which cannot be taken back"
}

func listInvocations(s Skill) string {
	if len(s.Examples) == 0 {
		return describeInvocation(s)
	}
	var lines []string
	for _, e := range s.Examples {
		lines = append(lines, exampleCall(s, e))
	}
	return strings.Join(lines, "\n")
}

func describeInvocation(s Skill) string {
	if len(s.Examples) > 0 {
		return exampleCall(s, s.Examples[0])
	}
	return exampleCall(s, json.RawMessage("{}"))
}

// exampleCall is a line for a shell.
func exampleCall(s Skill, input json.RawMessage) string {
	command := "spritekit " + s.Name
	if s.Command != nil {
		command = text.ShellLine(s.Command)
	}
	return "echo " + text.ShellWord(oneLine(string(input))) + " | " + command
}

// quoteShell is s as YAML has it in double quotes, of which JSON's form is one.
func quoteShell(s string) string {
	raw, err := json.Marshal(strings.ToValidUTF8(s, "\uFFFD"))
	if err != nil { // strings always marshal
		panic(err)
	}
	return string(raw)
}

func firstSentence(description string) string {
	sentence, _, _ := strings.Cut(oneLine(description), ". ")
	return strings.TrimSuffix(sentence, ".") + "."
}

// oneLine joins lines, so that a third-party manifest cannot add lines.
func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// tableCell is a text in a table.
func tableCell(s string) string { return strings.ReplaceAll(oneLine(s), "|", `\|`) }
