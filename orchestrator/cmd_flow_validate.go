package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/compile"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/policy"
	"github.com/spritekit/lattice/spritekit/protocol"
)

func newFlowValidateCmd(d *deps) *cobra.Command {
	var from flowSources
	cmd := &cobra.Command{
		Use:   "validate FILE",
		Short: "Check a flow and print every finding at once",
		Long: `Check a flow: versions, references, types, reachability, tools. All findings are printed; exit 2 when one is an error.
With --json: {"ok":…,"findings":[{"code","severity","pointer","node","message","hint"}]}.
` + sourcesHelp + exitCodes,
		Example: "  lattice flow validate flow.json --json",
		Args:    args(cobra.ExactArgs(1)), ValidArgsFunction: completeFlows,
		RunE: func(c *cobra.Command, list []string) error {
			doc, _, err := d.openFlow(c.Context(), list[0])
			if err != nil {
				return err
			}
			flow, findings, err := d.parseFlow(doc, from)
			if err != nil {
				return err
			}
			if flow != nil {
				tools, err := d.catalog(from.skills)
				if err != nil {
					return err
				}
				server, err := d.serverPolicy()
				if err != nil {
					return err
				}
				rules := policy.New("", server...)
				findings = append(findings, flow.CheckWorldCalls(rules.WorldAllowed(), tools)...)
			}
			if err := d.printFindings(findings); err != nil {
				return err
			}
			if flow == nil {
				return &exitError{code: protocol.ExitBadInput}
			}
			if !d.json {
				_, err = fmt.Fprintf(d.out, "ok %s\n", flow.Program.Digest)
			}
			return err
		},
	}
	from.addFlags(cmd)
	return cmd
}

// printFindings prints findings for a person, or all of them as one JSON object.
func (d *deps) printFindings(findings []ir.Finding) error {
	if d.json {
		return d.printJSON(compile.NewReport(findings))
	}
	for _, f := range findings {
		text := fmt.Sprintf("%s: %s\n", clean(strings.TrimSpace(f.Severity+" "+f.Code+" "+f.Place())), clean(f.Message))
		if f.Hint != "" {
			text += fmt.Sprintf("  try: %s\n", clean(f.Hint))
		}
		if _, err := io.WriteString(d.out, text); err != nil {
			return err
		}
	}
	return nil
}
