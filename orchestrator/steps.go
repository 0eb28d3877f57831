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

	"github.com/spritekit/lattice/orchestrator/compile"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/spritekit/fault"
)

// flowSources are what a flow is compiled with, beside what comes with lattice.
type flowSources struct {
	skills    []string // folders of skills
	steps     []string // folders, or files, of step rules
	templates []string // of prompt templates
	schemas   []string // of JSON Schemas
}

func (o *flowSources) addFlags(cmd *cobra.Command) {
	addSkillFlag(cmd, &o.skills)
	addStepsFlag(cmd, &o.steps)
	cmd.Flags().StringArrayVar(&o.templates, "templates", nil, "prompt templates that the flow may name: those in `DIR` (ID.json each, or one file), too; repeatable")
	cmd.Flags().StringArrayVar(&o.schemas, "schemas", nil, "JSON Schemas that the flow may name: those in `DIR` (NAME.json each, or one file), too; repeatable")
	_ = cmd.MarkFlagDirname("templates")
	_ = cmd.MarkFlagDirname("schemas")
}

// sourcesHelp says what the flags of flowSources are for.
const sourcesHelp = `
Skills (--skill), step types (--steps), prompt templates (--templates) and JSON Schemas (--schemas) of one's own are files.
Every command that compiles a flow takes them alike, for workflow graphs, plans and ExecIR; the settings skills, steps,
templates and schemas say them once for all. What a flow uses of them becomes part of what runs.
`

// addStepsFlag adds --steps to a command.
func addStepsFlag(cmd *cobra.Command, dirs *[]string) {
	cmd.Flags().StringArrayVar(dirs, "steps", nil, "lower plans by the step rules in `DIR`, too (*.json, or one file); may be given more than once")
	_ = cmd.MarkFlagDirname("steps")
}

// sourceFiles reads the *.json of folders, and single files, by their paths. noun says what they are.
func (d *deps) sourceFiles(noun string, dirs []string) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, dir := range dirs {
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
			code := noun + "_unreadable"
			if errors.Is(err, fs.ErrNotExist) {
				code = noun + "_not_found"
			}
			what := map[string]string{"steps": "step rules", "templates": "prompt templates", "schemas": "JSON Schemas"}[noun]
			return nil, fault.BadInput(code, "read %s %s: %v", what, dir, err).WithHint("--%s names a folder of them, or one file", noun)
		}
	}
	return files, nil
}

// rules reads the step rules in these folders and files; those of a later one replace those of an earlier one.
func (d *deps) rules(dirs []string) (compile.Rules, error) {
	files, err := d.sourceFiles("steps", slices.Concat(d.paths(d.settings.Steps), dirs))
	if err != nil {
		return nil, err
	}
	rules, err := compile.WithRules(files)
	if err != nil {
		return nil, fault.BadInput("steps_invalid", "%v", err).WithHint("a rule is described by manifests/schema/step-rule.schema.json")
	}
	return rules, nil
}

// sources reads everything that flows are compiled with, from the settings and from flags.
func (d *deps) sources(from flowSources) (s compile.Sources, err error) {
	if s.Tools, err = d.catalog(from.skills); err != nil {
		return s, err
	}
	if s.Rules, err = d.rules(from.steps); err != nil {
		return s, err
	}
	own := from.templates
	if dir := d.expand(d.settings.Templates); dir != "" {
		if _, err := os.Stat(dir); err == nil || !errors.Is(err, fs.ErrNotExist) { // what is missing shows when it is named
			own = slices.Concat([]string{dir}, own)
		}
	}
	if s.Templates, err = d.templates(own); err != nil {
		return s, err
	}
	s.Schemas, err = d.schemas(slices.Concat(d.paths(d.settings.Schemas), from.schemas))
	return s, err
}

// parseFlow compiles a document and returns every finding.
func (d *deps) parseFlow(doc []byte, from flowSources) (*compile.Flow, []ir.Finding, error) {
	s, err := d.sources(from)
	if err != nil {
		return nil, nil, err
	}
	flow, findings := compile.ParseWith(doc, s)
	return flow, findings, nil
}

// lowered is readFlow for a flow that is lowered here where something was brought along that the leader does not know. The
// skills of a sprite are the leader's to find: a flow that lacks nothing else goes to it as it is.
func (d *deps) lowered(ctx context.Context, arg string, from flowSources) (json.RawMessage, string, error) {
	doc, name, err := d.readFlow(ctx, arg)
	own := len(from.steps) + len(from.templates) + len(from.schemas) + len(d.settings.Steps) + len(d.settings.Templates) + len(d.settings.Schemas)
	if err != nil || own == 0 {
		return doc, name, err
	}
	s, err := d.sources(from)
	if err != nil {
		return nil, "", err
	}
	text, findings := compile.Lower(doc, s)
	if text == nil {
		return nil, "", refuseFlow(arg, findings)
	}
	return text, name, nil
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
