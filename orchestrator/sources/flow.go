// Package sources reads flows and the files that they are compiled with: skills, step rules, prompt templates and JSON
// Schemas, from flags and from the settings.
//
// Begin with Options.
package sources

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/compile"
	"github.com/spritekit/lattice/orchestrator/complete"
	"github.com/spritekit/lattice/orchestrator/equip"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/finding"
	"github.com/spritekit/lattice/orchestrator/policy"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/spritekit/fault"
)

// CompleteWorldCalls completes the names of the skills of class world that the flow calls; without a flow those of all
// built-in skills.
func CompleteWorldCalls(env *setup.Env, from *Options) cobra.CompletionFunc {
	return func(c *cobra.Command, list []string, _ string) ([]string, cobra.ShellCompDirective) {
		var names []string
		if len(list) > 0 && list[0] != "-" {
			if flow, err := Compile(c.Context(), env, list[0], *from); err == nil {
				return flow.Program.WorldCalls(nil), cobra.ShellCompDirectiveNoFileComp
			}
		}
		for _, s := range manifests.Skills() {
			if s.SideEffect == manifests.ClassWorld {
				names = append(names, s.Name)
			}
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}

// Compile reads and compiles a flow; every fault of it is told at once.
func Compile(ctx context.Context, env *setup.Env, arg string, from Options) (*compile.Flow, error) {
	doc, _, err := Open(ctx, env.Console, arg)
	if err != nil {
		return nil, err
	}
	flow, findings, err := Parse(env, doc, from)
	if err != nil {
		return nil, err
	}
	if flow == nil {
		return nil, Refuse(arg, findings)
	}
	return flow, nil
}

// Refuse is the error for a flow with findings.
func Refuse(name string, findings []finding.Finding) error {
	shown := slices.Clone(findings)
	for i, f := range shown {
		shown[i].Pointer, shown[i].Node, shown[i].Message, shown[i].Hint = cli.Clean(f.Pointer), cli.Clean(f.Node), cli.Clean(f.Message), cli.Clean(f.Hint)
	}
	text, hint := compile.Refusal(shown)
	p := fault.BadInput("flow_invalid", "the flow %s is refused:\n  %s", name, text).WithHint("%s", cmp.Or(hint, "check it with lattice flow validate"))
	if details, err := json.Marshal(map[string]any{"findings": findings}); err == nil {
		p.Fault.Details = details
	}
	return p
}

// Open reads a flow: a file, standard input for "-", or a built-in flow when there is no such file. Its content is
// not validated. The name is that of the file without .json.
func Open(ctx context.Context, console *cli.Console, arg string) (doc []byte, name string, err error) {
	doc, err = console.ReadNamed(ctx, arg, ir.MaxDocumentBytes)
	if errors.Is(err, os.ErrNotExist) {
		if builtin, ok := manifests.Flow(arg); ok {
			return builtin, arg, nil
		}
		return nil, "", fault.NotFound("flow_not_found", "there is no flow file %s and no built-in flow of that name", arg).WithHint("%s", strings.TrimPrefix(finding.Near(arg, manifests.Flows())+"; lattice flow ls lists the built-in flows", "; "))
	}
	if err != nil {
		return nil, "", fault.BadInput("flow_unreadable", "read flow: %v", err)
	}
	if arg != "-" {
		name = strings.TrimSuffix(filepath.Base(arg), ".json")
	}
	return doc, name, nil
}

// Read is openFlow for a flow that the leader will judge: it must be JSON to reach it.
func Read(ctx context.Context, console *cli.Console, arg string) (json.RawMessage, string, error) {
	doc, name, err := Open(ctx, console, arg)
	if err != nil || json.Valid(doc) && len(doc) <= ir.MaxDocumentBytes {
		return doc, name, err
	}
	_, findings := compile.Parse(doc, manifests.Lookup)
	return nil, "", Refuse(arg, findings)
}

// readBuiltIn returns a built-in flow. No file counts.
func readBuiltIn(_ context.Context, _ *cli.Console, name string) (json.RawMessage, string, error) {
	doc, ok := manifests.Flow(name)
	if !ok {
		return nil, "", fault.NotFound("flow_not_found", "there is no built-in flow %s", name)
	}
	return doc, name, nil
}

// CompleteFlows completes the names of built-in flows, and files.
func CompleteFlows(_ *cobra.Command, list []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(list) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return manifests.Flows(), cobra.ShellCompDirectiveDefault
}

func TypeText(t string) string {
	if t == "" || t == manifests.TypeAny {
		return "value"
	}
	return t
}

// InputWords are the inputs of a skill as words to complete.
func InputWords(name string) []string {
	skill, _ := manifests.Lookup(name)
	var out []string
	for _, f := range skill.Inputs {
		sign := "="
		if f.Type != "string" {
			sign = ":="
		}
		out = append(out, f.Name+sign+"\t"+f.Description)
	}
	return out
}

// PrintFindings prints findings for a person, or all of them as one JSON object.
func PrintFindings(console *cli.Console, findings []finding.Finding) error {
	if console.JSON {
		return console.PrintJSON(compile.NewReport(findings))
	}
	for _, f := range findings {
		text := fmt.Sprintf("%s: %s\n", cli.Clean(strings.TrimSpace(f.Position()+" "+f.Severity+" "+f.Code+" "+f.Place())), cli.Clean(f.Message))
		if f.Hint != "" {
			text += fmt.Sprintf("  try: %s\n", cli.Clean(f.Hint))
		}
		if _, err := io.WriteString(console.Out, text); err != nil {
			return err
		}
	}
	return nil
}

// CompleteInputs offers the inputs that a flow's input_schema names.
func CompleteInputs(_ *cobra.Command, list []string, _ string) ([]string, cobra.ShellCompDirective) {
	const directive = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	if len(list) == 0 {
		return nil, directive
	}
	text, ok := manifests.Flow(list[0])
	if !ok {
		info, err := os.Stat(list[0])
		if err != nil || !info.Mode().IsRegular() || info.Size() > 1<<20 {
			return nil, directive
		}
		if text, err = os.ReadFile(filepath.Clean(list[0])); err != nil {
			return nil, directive
		}
	}
	var flow struct {
		Schema struct {
			Properties map[string]struct {
				Type        any    `json:"type"`
				Description string `json:"description"`
			} `json:"properties"`
		} `json:"input_schema"`
	}
	if json.Unmarshal(text, &flow) != nil {
		return nil, directive
	}
	var words []string
	for _, name := range cli.SortedKeys(flow.Schema.Properties) {
		p, assign := flow.Schema.Properties[name], ":="
		if strings.Contains(fmt.Sprint(p.Type), "string") {
			assign = "="
		}
		words = append(words, complete.Describe(name+assign, p.Description))
	}
	return words, directive
}

// ReadAll reads everything that flows are compiled with, from the settings and from flags.
func ReadAll(env *setup.Env, from Options) (s compile.Sources, err error) {
	if s.Tools, err = equip.ReadCatalog(env, from.Skills); err != nil {
		return s, err
	}
	if s.Rules, err = ReadRules(env, from.Steps); err != nil {
		return s, err
	}
	own := from.templates
	if dir := env.Expand(env.Settings.Templates); dir != "" {
		if _, err := os.Stat(dir); err == nil || !errors.Is(err, fs.ErrNotExist) { // a missing template is reported when a flow names it
			own = slices.Concat([]string{dir}, own)
		}
	}
	if s.Templates, err = readTemplates(own); err != nil {
		return s, err
	}
	s.Schemas, err = readSchemas(slices.Concat(env.Paths(env.Settings.Schemas), from.schemas))
	return s, err
}

// Check compiles a document and returns every finding about it, also those about skills that ask before they act.
func Check(env *setup.Env, doc []byte, from Options) (*compile.Flow, []finding.Finding, error) {
	s, err := ReadAll(env, from)
	if err != nil {
		return nil, nil, err
	}
	server, err := env.ServerPolicy()
	if err != nil {
		return nil, nil, err
	}
	flow, findings := compile.Check(doc, s, policy.New("", server...).WorldAllowed())
	return flow, findings, nil
}

// Parse compiles a document and returns every finding.
func Parse(env *setup.Env, doc []byte, from Options) (*compile.Flow, []finding.Finding, error) {
	s, err := ReadAll(env, from)
	if err != nil {
		return nil, nil, err
	}
	flow, findings := compile.ParseWith(doc, s)
	return flow, findings, nil
}

// Lower is readFlow for a flow that is lowered here where something was brought along that the leader does not know. The
// skills of a sprite are the leader's to find: a flow that lacks nothing else goes to it as it is.
func Lower(ctx context.Context, env *setup.Env, arg string, from Options) (json.RawMessage, string, error) {
	read := Read
	if from.BuiltIn {
		read = readBuiltIn
	}
	doc, name, err := read(ctx, env.Console, arg)
	own := len(from.Steps) + len(from.templates) + len(from.schemas) + len(env.Settings.Steps) + len(env.Settings.Templates) + len(env.Settings.Schemas)
	if err != nil || own == 0 {
		return doc, name, err
	}
	s, err := ReadAll(env, from)
	if err != nil {
		return nil, "", err
	}
	text, findings := compile.Lower(doc, s)
	if text == nil {
		return nil, "", Refuse(arg, findings)
	}
	return text, name, nil
}
