package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/compile"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/spritekit/fault"
)

func newFlowCmd(d *deps) *cobra.Command {
	cmd := group(&cobra.Command{
		Use: "flow", Short: "Compose, check and look at flows",
		Long: `Compose, check and look at flows.

A flow is a workflow graph ("workflow_version", the form to write), a plan ("planir_version", steps towards a goal) or
ExecIR ("execir_version", the form that runs; the others are lowered to it). Where a command takes a FILE, - is standard input and a name is a built-in flow.
` + exitCodes,
		Example: "  lattice flow new 'fs.write path=a content=hi | fs.read path=a' -o f.json\n  lattice flow validate f.json\n  lattice flow graph fix-and-propose",
	})
	cmd.AddCommand(newFlowNewCmd(d), newFlowLsCmd(d), newFlowShowCmd(d), newFlowValidateCmd(d), newFlowCompileCmd(d), newFlowGraphCmd(d),
		newFlowExplainCmd(d), newFlowMigrateCmd(d), newFlowPlanCmd(d), newFlowStepsCmd(d))
	return cmd
}

// compileFlow reads and compiles a flow; every fault of it is told at once.
func (d *deps) compileFlow(ctx context.Context, arg string, from flowSources) (*compile.Flow, error) {
	doc, _, err := d.openFlow(ctx, arg)
	if err != nil {
		return nil, err
	}
	flow, findings, err := d.parseFlow(doc, from)
	if err != nil {
		return nil, err
	}
	if flow == nil {
		return nil, refuseFlow(arg, findings)
	}
	return flow, nil
}

// refuseFlow is the error for a flow with findings.
func refuseFlow(name string, findings []ir.Finding) error {
	shown := slices.Clone(findings)
	for i, f := range shown {
		shown[i].Pointer, shown[i].Node, shown[i].Message, shown[i].Hint = clean(f.Pointer), clean(f.Node), clean(f.Message), clean(f.Hint)
	}
	text, hint := compile.Refusal(shown)
	p := fault.BadInput("flow_invalid", "the flow %s is refused:\n  %s", name, text).WithHint("%s", cmp.Or(hint, "lattice flow validate checks it again"))
	if details, err := json.Marshal(map[string]any{"findings": findings}); err == nil {
		p.Fault.Details = details
	}
	return p
}

// openFlow reads a flow: a file, standard input for "-", or a built-in flow when there is no such file. What it holds is
// not looked at. The name is that of the file without .json.
func (d *deps) openFlow(ctx context.Context, arg string) (doc []byte, name string, err error) {
	doc, err = d.readNamed(ctx, arg, ir.MaxDocumentBytes)
	if errors.Is(err, os.ErrNotExist) {
		if builtin, ok := manifests.Flow(arg); ok {
			return builtin, arg, nil
		}
		return nil, "", fault.NotFound("flow_not_found", "there is no flow file %s and no built-in flow of that name", arg).WithHint("lattice flow ls shows the built-in flows: %s", strings.Join(manifests.Flows(), ", "))
	}
	if err != nil {
		return nil, "", fault.BadInput("flow_unreadable", "read flow: %v", err)
	}
	if arg != "-" {
		name = strings.TrimSuffix(filepath.Base(arg), ".json")
	}
	return doc, name, nil
}

// readFlow is openFlow for a flow that the leader will judge: it must be JSON to reach it.
func (d *deps) readFlow(ctx context.Context, arg string) (json.RawMessage, string, error) {
	doc, name, err := d.openFlow(ctx, arg)
	if err != nil || json.Valid(doc) && len(doc) <= ir.MaxDocumentBytes {
		return doc, name, err
	}
	_, findings := compile.Parse(doc, manifests.Lookup)
	return nil, "", refuseFlow(arg, findings)
}

// completeFlows completes the names of built-in flows, and files.
func completeFlows(_ *cobra.Command, list []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(list) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return manifests.Flows(), cobra.ShellCompDirectiveDefault
}
