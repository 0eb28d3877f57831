package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/spritekit/protocol"
)

func newSkillCmd(d *deps) *cobra.Command {
	cmd := group(&cobra.Command{Use: "skill", Short: "Look at, check and call the skills that flows are made of"})
	cmd.AddCommand(newSkillLsCmd(d), newSkillShowCmd(d))
	return cmd
}

func newSkillLsCmd(d *deps) *cobra.Command {
	return &cobra.Command{
		Use: "ls", Short: "List the built-in skills", Example: "  lattice skill ls --json", Args: args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			if d.json {
				return d.printJSON(manifests.Skills())
			}
			w := tabwriter.NewWriter(d.out, 0, 0, 2, ' ', 0)
			for _, s := range manifests.Skills() {
				fmt.Fprintf(w, "%s\t%s\t%s\n", s.Name, s.SideEffect, clean(s.Description))
			}
			return w.Flush()
		},
	}
}

func newSkillShowCmd(d *deps) *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Show what a skill takes, gives and may do", Example: "  lattice skill show git.push\n  lattice skill show git.push --json",
		Long: "Show what a skill takes, gives and may do. With --json: its manifest, skill.json, as it is.\n" + exitCodes,
		Args: args(cobra.ExactArgs(1)), ValidArgsFunction: completeSkills,
		RunE: func(_ *cobra.Command, list []string) error {
			raw := manifests.Raw(list[0])
			if raw == nil {
				return noSkill(list[0], manifests.Skills())
			}
			if d.json {
				_, err := d.out.Write(raw)
				return err
			}
			skill, _ := manifests.Lookup(list[0])
			return d.showSkill(skill)
		},
	}
}

// noSkill is the error for a name that no skill has.
func noSkill(name string, known []manifests.Skill) error {
	var names []string
	for _, s := range known {
		names = append(names, s.Name)
	}
	return api.Refuse(protocol.ExitNotFound, "skill_not_found", fmt.Sprintf("there is no skill %q", clean(name)), "lattice skill ls lists them: "+strings.Join(names, ", "))
}

// showSkill prints a manifest for a person.
func (d *deps) showSkill(s manifests.Skill) error {
	fmt.Fprintf(d.out, "%s  %s\n", s.Name, clean(s.Description))
	w := tabwriter.NewWriter(d.out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "class\t%s\n", s.SideEffect)
	fmt.Fprintf(w, "permissions\t%s\n", clean(strings.Join(s.Permissions, " ")))
	if s.TimeoutS > 0 {
		fmt.Fprintf(w, "timeout\t%gs\n", s.TimeoutS)
	}
	if v := s.Variants; v != nil {
		for _, name := range sortedKeys(v.Cases) {
			fmt.Fprintf(w, "%s=%s\t%s, %s\n", clean(v.Input), clean(name), v.Cases[name].SideEffect, clean(strings.Join(v.Cases[name].Permissions, " ")))
		}
	}
	for _, part := range []struct {
		title  string
		fields []manifests.Field
	}{{"inputs", s.Inputs}, {"outputs", s.Outputs}} {
		fmt.Fprintf(w, "\n%s\n", part.title)
		for _, f := range part.fields {
			note := ""
			switch {
			case f.Default != nil:
				note = "default " + clean(string(f.Default))
			case f.Required && part.title == "inputs":
				note = "required"
			}
			fmt.Fprintf(w, "  %s\t%s\t%s\t%s\n", f.Name, typeText(f.Type), note, clean(f.Description))
		}
		if part.fields == nil {
			fmt.Fprintf(w, "  any\n")
		}
	}
	if len(s.Examples) > 0 {
		fmt.Fprintf(w, "\nexamples\n")
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, e := range s.Examples {
		var compact json.RawMessage
		if json.Unmarshal(e, &compact) == nil {
			fmt.Fprintf(d.out, "  lattice skill call %s --input '%s'\n", s.Name, clean(strings.ReplaceAll(string(e), "'", `'\''`)))
		}
	}
	return nil
}

// completeSkills completes the names of built-in skills.
func completeSkills(_ *cobra.Command, list []string, _ string) (names []string, _ cobra.ShellCompDirective) {
	if len(list) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	for _, s := range manifests.Skills() {
		names = append(names, s.Name+"\t"+s.Description)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
