package flow

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/compile"
	"github.com/spritekit/lattice/orchestrator/compile/flowline"
	"github.com/spritekit/lattice/orchestrator/equip"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sources"
	"github.com/spritekit/lattice/spritekit/fault"
)

type newOptions struct {
	file, description string
	force             bool
	skills            []string
}

func newNewCmd(env *setup.Env) *cobra.Command {
	var o newOptions
	cmd := &cobra.Command{
		Use:   "new LINE",
		Short: "Compose a workflow graph from one line of skills",
		Long: `Compose a workflow graph from one line of skills and print it; lattice run accepts it.

  skill name=text name:=JSON … | skill …

The steps run one after the other, and the flow's output is that of the last one. Text is quoted as in a shell: 'literal',
"with \" \\ \$", \ before a character. A step has the name of its skill, with _ for dots, and a number from the second
step on: git_clone, git_clone_2. Outside of single quotes,
  $in.x             is an input of the flow (lattice run … --input x=…)
  $git_clone.dest   is an output of an earlier step; ${git_clone.dest} where more text follows
A value that is a single reference keeps the type of its target; any other text is a string. Only referenced outputs are
passed from step to step. A required input that is not given becomes an input of the flow with the same name; standard error
lists them. Errors name the column, and the command ends with 2.
` + cli.ExitCodes,
		Example: `  lattice flow new 'fs.write path=a content=hi | fs.read path=a' | lattice run -
  lattice flow new 'git.clone url=$in.url | test.run cwd=$git_clone.dest | git.commit repo=$git_clone.dest message="Tested at $git_clone.head"' -o f.json`,
		Args: cli.Args(cobra.ExactArgs(1)), ValidArgsFunction: completeLine,
		RunE: func(_ *cobra.Command, list []string) error { return runNew(env, o, list[0]) },
	}
	cmd.Flags().StringVarP(&o.file, "output", "o", "", "write the flow to `FILE`")
	cmd.Flags().StringVar(&o.description, "description", "", "the purpose of the flow; kept in the document")
	cmd.Flags().BoolVar(&o.force, "force", false, "replace an existing file")
	equip.AddSkillFlag(cmd, &o.skills)
	return cmd
}

func runNew(env *setup.Env, o newOptions, line string) error {
	lookup, err := equip.ReadCatalog(env, o.skills)
	if err != nil {
		return err
	}
	w, inputs, faults := flowline.Parse(line, lookup)
	if len(faults) > 0 {
		return refuseLine(line, faults)
	}
	if !utf8.ValidString(o.description) {
		return fault.BadInput("description_invalid", "--description is not UTF-8")
	}
	w.Description = o.description
	text, err := json.Marshal(w)
	if err != nil {
		return fmt.Errorf("write flow: %w", err)
	}
	flow, _ := compile.Parse(text, lookup)
	if flow == nil {
		return fmt.Errorf("the composed flow does not compile: %s", text)
	}
	if err := writeFlow(env, o, w); err != nil {
		return err
	}
	for _, in := range inputs {
		fmt.Fprintf(env.Err, "input %s: %s of %s, which was not given\n", in.Name, sources.TypeText(in.Type), strings.Join(in.Steps, " and "))
	}
	if o.file != "" {
		next := "lattice run " + o.file
		for _, name := range flow.Program.MissingInputs(nil) {
			next += " --input " + name + "=…"
		}
		fmt.Fprintf(env.Err, "next: %s\n", next)
	}
	return nil
}

// writeFlow prints the workflow, or writes it to a file that is not there yet.
func writeFlow(env *setup.Env, o newOptions, w compile.Workflow) error {
	if o.file == "" || o.file == "-" {
		return env.PrintIndented(w)
	}
	flags := os.O_WRONLY | os.O_CREATE | os.O_EXCL
	if o.force {
		flags = os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	}
	f, err := os.OpenFile(o.file, flags, 0o644)
	if errors.Is(err, os.ErrExist) {
		return fault.BadInput("file_exists", "%s already exists", o.file).WithHint("replace it with --force")
	}
	if err != nil {
		return fmt.Errorf("write flow: %w", err)
	}
	to := *env.Console
	to.Out = f
	return errors.Join(to.PrintIndented(w), f.Close())
}

// refuseLine shows every fault of a line below the place where it is.
func refuseLine(line string, faults []flowline.Error) error {
	shown := strings.Map(func(r rune) rune {
		if r < ' ' || cli.Clean(string(r)) == "" { // one column for each, or the caret would lie
			return ' '
		}
		return r
	}, line)
	var b strings.Builder
	fmt.Fprintf(&b, "the line has %d fault(s)", len(faults))
	if len(faults) == 1 {
		b.Reset()
		b.WriteString("the line is refused")
	}
	const most = 20
	for i, f := range faults {
		if i == most {
			fmt.Fprintf(&b, "\n  … and %d more", len(faults)-most)
			break
		}
		from, carets := excerpt([]rune(shown), f.Column-1, f.Width)
		fmt.Fprintf(&b, "\n  column %d: %s\n    %s\n    %s", f.Column, cli.Clean(f.Message), from, carets)
		if f.Hint != "" {
			fmt.Fprintf(&b, "\n    try: %s", cli.Clean(f.Hint))
		}
	}
	p := fault.BadInput("line_invalid", "%s", b.String())
	if details, err := json.Marshal(map[string]any{"errors": faults}); err == nil {
		p.Fault.Details = details
	}
	return p
}

// excerpt cuts a long line around the place and marks it.
func excerpt(line []rune, at, width int) (text, carets string) {
	const most = 100
	from := 0
	if len(line) > most && at > most/2 {
		from = min(at-most/2, len(line)-most/2)
	}
	to := min(len(line), from+most)
	width = max(1, min(width, to-at))
	return string(line[from:to]), strings.Repeat(" ", at-from) + strings.Repeat("^", width)
}

// completeLine completes the last word of a line: a skill, or an input of the step's skill.
func completeLine(_ *cobra.Command, list []string, line string) ([]string, cobra.ShellCompDirective) {
	if len(list) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	const stay = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
	step := line[strings.LastIndexByte(line, '|')+1:]
	fields := strings.Fields(step)
	word := step[strings.LastIndexAny(step, " \t")+1:]
	before := strings.TrimSuffix(line, word)
	var out []string
	if len(fields) == 0 || len(fields) == 1 && word != "" {
		for _, s := range manifests.Skills() {
			out = append(out, before+s.Name+"\t"+s.Description)
		}
		return out, stay
	}
	for _, c := range sources.InputWords(fields[0]) {
		out = append(out, before+c)
	}
	return out, stay
}
