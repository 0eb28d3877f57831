package sources

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/compile"
	"github.com/spritekit/lattice/orchestrator/equip"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/spritekit/fault"
)

// Options name the files that a flow is compiled with, in addition to those of lattice.
type Options struct {
	Skills    []string // folders of skills
	Steps     []string // folders, or files, of step rules
	templates []string // of prompt templates
	schemas   []string // of JSON Schemas
	BuiltIn   bool     // the flow is a built-in one, even where a file has its name
}

func (o *Options) AddFlags(cmd *cobra.Command) {
	equip.AddSkillFlag(cmd, &o.Skills)
	AddStepsFlag(cmd, &o.Steps)
	cmd.Flags().StringArrayVar(&o.templates, "templates", nil, "add the prompt templates in `DIR` (ID.json each, or a single file) that the flow may name; repeatable")
	cmd.Flags().StringArrayVar(&o.schemas, "schemas", nil, "add the JSON Schemas in `DIR` (NAME.json each, or a single file) that the flow may name; repeatable")
	_ = cmd.MarkFlagDirname("templates")
	_ = cmd.MarkFlagDirname("schemas")
}

// Help is the part about the flags of Options in the help of commands.
const Help = `
Your own skills (--skill), step types (--steps), prompt templates (--templates) and JSON Schemas (--schemas) are files. Every
command that compiles a flow takes these flags, for workflow graphs, plans and ExecIR; the settings skills, steps, templates
and schemas apply to all commands. The files that a flow uses become part of the compiled flow.
`

// AddStepsFlag adds --steps to a command.
func AddStepsFlag(cmd *cobra.Command, dirs *[]string) {
	cmd.Flags().StringArrayVar(dirs, "steps", nil, "add the step rules in `DIR` (*.json, or a single file) for lowering plans; repeatable")
	_ = cmd.MarkFlagDirname("steps")
}

// readSourceFiles reads the *.json of folders, and single files, by their paths. noun is the name of the flag.
func readSourceFiles(noun string, dirs []string) (map[string][]byte, error) {
	files := map[string][]byte{}
	for _, dir := range dirs {
		names := []string{dir}
		info, err := os.Stat(dir)
		if err == nil && info.IsDir() {
			names, err = filepath.Glob(filepath.Join(dir, "*.json"))
		}
		if err == nil && len(names) == 0 {
			err = errors.New("the folder contains no *.json")
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
			return nil, fault.BadInput(code, "read %s %s: %v", what, dir, err).WithHint("--%s takes a folder of them, or a single file", noun)
		}
	}
	return files, nil
}

// ReadRules reads the step rules in these folders and files; those of a later one replace those of an earlier one.
func ReadRules(env *setup.Env, dirs []string) (compile.Rules, error) {
	files, err := readSourceFiles("steps", slices.Concat(env.Paths(env.Settings.Steps), dirs))
	if err != nil {
		return nil, err
	}
	rules, err := compile.WithRules(files)
	if err != nil {
		return nil, fault.BadInput("steps_invalid", "%v", err).WithHint("a rule is described by manifests/schema/step-rule.schema.json")
	}
	return rules, nil
}
