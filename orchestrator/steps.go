package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/compile"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// flowSources are what a flow is compiled with, beside what comes with lattice.
type flowSources struct {
	skills []string // folders of skills
	steps  []string // folders, or files, of step rules
}

func (o *flowSources) addFlags(cmd *cobra.Command) {
	addSkillFlag(cmd, &o.skills)
	addStepsFlag(cmd, &o.steps)
}

// addStepsFlag adds --steps to a command.
func addStepsFlag(cmd *cobra.Command, dirs *[]string) {
	cmd.Flags().StringArrayVar(dirs, "steps", nil, "lower plans by the step rules in `DIR`, too (*.json, or one file); may be given more than once")
	_ = cmd.MarkFlagDirname("steps")
}

// rules reads the step rules in these folders and files; those of a later one replace those of an earlier one.
func (d *deps) rules(dirs []string) (compile.Rules, error) {
	files := map[string][]byte{}
	for _, dir := range slices.Concat(d.paths(d.settings.Steps), dirs) {
		names := []string{dir}
		info, err := os.Stat(dir)
		if err == nil && info.IsDir() {
			names, err = filepath.Glob(filepath.Join(dir, "*.json"))
		}
		if err == nil && len(names) == 0 {
			err = errors.New("the folder holds no *.json")
		}
		for i := 0; err == nil && i < len(names); i++ {
			files[names[i]], err = os.ReadFile(names[i])
		}
		if err != nil {
			code := "steps_unreadable"
			if errors.Is(err, fs.ErrNotExist) {
				code = "steps_not_found"
			}
			return nil, api.Refuse(protocol.ExitBadInput, code, fmt.Sprintf("read step rules %s: %v", dir, err), "--steps names a folder of rules; lattice flow steps shows those that there are")
		}
	}
	rules, err := compile.WithRules(files)
	if err != nil {
		return nil, api.Refuse(protocol.ExitBadInput, "steps_invalid", err.Error(), "a rule is described by manifests/schema/step-rule.schema.json")
	}
	return rules, nil
}

// parseFlow compiles a document and returns every finding.
func (d *deps) parseFlow(doc []byte, from flowSources) (*compile.Flow, []ir.Finding, error) {
	lookup, err := d.catalog(from.skills)
	if err != nil {
		return nil, nil, err
	}
	rules, err := d.rules(from.steps)
	if err != nil {
		return nil, nil, err
	}
	flow, findings := compile.ParseBy(doc, lookup, rules)
	return flow, findings, nil
}

// lowered is readFlow for a flow that is lowered here, because the leader does not know the rules for it.
func (d *deps) lowered(ctx context.Context, arg string, from flowSources) (json.RawMessage, string, error) {
	doc, name, err := d.readFlow(ctx, arg)
	if err != nil || len(from.steps) == 0 {
		return doc, name, err
	}
	flow, findings, err := d.parseFlow(doc, from)
	if err == nil && flow == nil {
		err = refuseFlow(arg, findings)
	}
	if err != nil {
		return nil, "", err
	}
	return flow.ExecIR, name, nil
}

func newFlowStepsCmd(d *deps) *cobra.Command {
	var dirs []string
	cmd := &cobra.Command{
		Use: "steps", Short: "List the step types that plans are made of",
		Long: `List the step types that plans are made of: what each takes, puts out and does. Further ones are files, such as those in
manifests/steps: --steps DIR.
` + exitCodes,
		Example: "  lattice flow steps\n  lattice flow steps --steps ./my-steps --json",
		Args:    args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			rules, err := d.rules(dirs)
			if err != nil {
				return err
			}
			if d.json {
				list := []compile.Rule{}
				for _, name := range rules.Types() {
					list = append(list, rules[name])
				}
				return d.printJSON(list)
			}
			for _, name := range rules.Types() {
				rule := rules[name]
				if _, err := fmt.Fprintln(d.out, clean(rule.Describe())); err != nil {
					return err
				}
			}
			return nil
		},
	}
	addStepsFlag(cmd, &dirs)
	return cmd
}
