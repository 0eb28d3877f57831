package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/spritekit/protocol"
)

func newFlowCmd(d *deps) *cobra.Command {
	cmd := group(&cobra.Command{Use: "flow", Short: "Look at and check flows"})
	cmd.AddCommand(newFlowLsCmd(d), newFlowValidateCmd(d))
	return cmd
}

func newFlowLsCmd(d *deps) *cobra.Command {
	return &cobra.Command{
		Use: "ls", Short: "List the built-in flows", Example: "  lattice flow ls", Args: args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			if d.json {
				return d.printJSON(manifests.Flows())
			}
			for _, name := range manifests.Flows() {
				fmt.Fprintln(d.out, name)
			}
			return nil
		},
	}
}

func newFlowValidateCmd(d *deps) *cobra.Command {
	return &cobra.Command{
		Use:     "validate FILE",
		Short:   "Check a flow and print every finding at once",
		Long:    "Check a flow: versions, references, types, reachability, tools. All findings are printed; exit 2 when one is an error.\n" + exitCodes,
		Example: "  lattice flow validate flow.json --json",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(_ *cobra.Command, list []string) error {
			doc, _, err := readFlow(list[0])
			if err != nil {
				return err
			}
			program, findings := ir.Parse(doc, manifests.Lookup)
			if d.json {
				if findings == nil {
					findings = []ir.Finding{}
				}
				if err := d.printJSON(map[string]any{"ok": program != nil, "findings": findings}); err != nil {
					return err
				}
			} else {
				for _, f := range findings {
					fmt.Fprintf(d.out, "%s %s %s: %s\n", f.Severity, f.Code, f.Pointer, f.Message)
					if f.Hint != "" {
						fmt.Fprintf(d.out, "  try: %s\n", f.Hint)
					}
				}
				if program != nil {
					fmt.Fprintf(d.out, "ok %s\n", program.Digest)
				}
			}
			if program == nil {
				return &exitError{code: protocol.ExitBadInput}
			}
			return nil
		},
	}
}

func newSkillCmd(d *deps) *cobra.Command {
	cmd := group(&cobra.Command{Use: "skill", Short: "Look at the skills that flows can call"})
	cmd.AddCommand(&cobra.Command{
		Use: "ls", Short: "List the built-in skills", Example: "  lattice skill ls --json", Args: args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			if d.json {
				return d.printJSON(manifests.Skills())
			}
			for _, s := range manifests.Skills() {
				fmt.Fprintf(d.out, "%-12s %-10s %s\n", s.Name, s.SideEffect, s.Description)
			}
			return nil
		},
	}, &cobra.Command{
		Use: "show NAME", Short: "Show a skill's manifest", Example: "  lattice skill show git.push", Args: args(cobra.ExactArgs(1)),
		ValidArgsFunction: func(*cobra.Command, []string, string) (names []string, _ cobra.ShellCompDirective) {
			for _, s := range manifests.Skills() {
				names = append(names, s.Name+"\t"+s.Description)
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, list []string) error {
			raw := manifests.Raw(list[0])
			if raw == nil {
				return &exitError{code: protocol.ExitNotFound, err: fmt.Errorf("there is no built-in skill %q; lattice skill ls lists them", list[0])}
			}
			_, err := d.out.Write(raw)
			return err
		},
	})
	return cmd
}
