package skill

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/complete"
	"github.com/spritekit/lattice/orchestrator/connect"
	"github.com/spritekit/lattice/orchestrator/equip"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sources"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/fault"
)

func newShowCmd(env *setup.Env) *cobra.Command {
	var sprite string
	var skills []string
	cmd := &cobra.Command{
		Use: "show NAME", Short: "Show the inputs, outputs and permissions of a skill", Example: "  lattice skill show git.push\n  lattice skill show git.push --json",
		Long: "Show the inputs, outputs and permissions of a skill. With --json: its manifest, skill.json, unchanged.\n" + cli.ExitCodes,
		Args: cli.Args(cobra.ExactArgs(1)), ValidArgsFunction: completeSkills,
		RunE: func(c *cobra.Command, list []string) error {
			all, err := readLocalSkills(env, skills)
			if err != nil {
				return err
			}
			if i := slices.IndexFunc(all, func(s skillIn) bool { return s.Name == list[0] }); i >= 0 {
				return showSkill(env.Console, all[i])
			}
			if sprite == "" {
				return noSkill(list[0], all)
			}
			return connect.WithSprites(c.Context(), env, func(ctx context.Context, client *sprites.Client) error {
				skill, err := dropInSkill(ctx, client, sprite, list[0])
				if err != nil {
					return err
				}
				return showSkill(env.Console, skill)
			})
		},
	}
	cmd.Flags().StringVar(&sprite, "sprite", "", "also look for the skill in this sprite")
	equip.AddSkillFlag(cmd, &skills)
	_ = cmd.RegisterFlagCompletionFunc("sprite", complete.Sprites(env))
	return cmd
}

// noSkill is the error for a name that no skill has.
func noSkill(name string, known []skillIn) error {
	var names []string
	for _, s := range known {
		names = append(names, s.Name)
	}
	return fault.NotFound("skill_not_found", "there is no skill %q", cli.Clean(name)).WithHint("lattice skill ls lists them: %s", strings.Join(names, ", "))
}

// showSkill prints a manifest for a person, or as it is.
func showSkill(console *cli.Console, s skillIn) error {
	if console.JSON {
		_, err := fmt.Fprintf(console.Out, "%s\n", bytes.TrimSpace(s.raw))
		return err
	}
	fmt.Fprintf(console.Out, "%s  %s\n", s.Name, cli.Clean(s.Description))
	w := tabwriter.NewWriter(console.Out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "class\t%s\n", s.SideEffect)
	fmt.Fprintf(w, "permissions\t%s\n", cli.Clean(strings.Join(s.Permissions, " ")))
	if s.TimeoutS > 0 {
		fmt.Fprintf(w, "timeout\t%gs\n", s.TimeoutS)
	}
	if v := s.Variants; v != nil {
		for _, name := range cli.SortedKeys(v.Cases) {
			fmt.Fprintf(w, "%s=%s\t%s, %s\n", cli.Clean(v.Input), cli.Clean(name), v.Cases[name].SideEffect, cli.Clean(strings.Join(v.Cases[name].Permissions, " ")))
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
				note = "default " + cli.Clean(string(f.Default))
			case f.Required && part.title == "inputs":
				note = "required"
			}
			fmt.Fprintf(w, "  %s\t%s\t%s\t%s\n", f.Name, sources.TypeText(f.Type), note, cli.Clean(f.Description))
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
		var one bytes.Buffer
		if err := json.Compact(&one, e); err != nil {
			return fmt.Errorf("print example: %w", err)
		}
		fmt.Fprintf(console.Out, "  lattice skill call %s --input '%s'\n", s.Name, cli.Clean(strings.ReplaceAll(one.String(), "'", `'\''`)))
	}
	return nil
}
