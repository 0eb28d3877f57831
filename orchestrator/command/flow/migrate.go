package flow

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/compile"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sources"
	"github.com/spritekit/lattice/spritekit/fault"
)

func newMigrateCmd(env *setup.Env) *cobra.Command {
	var file string
	cmd := &cobra.Command{
		Use:   "migrate FILE",
		Short: "Convert a flow to the newest version of its format",
		Long: `Convert a workflow graph, a plan or ExecIR to the newest version of its format, and print it or write it to a new file; the
old file does not change. A document of the newest version is copied byte for byte. A document without a version, or of an
unknown newer version, is refused with 2. Runs that have started keep their document.
` + cli.ExitCodes,
		Example: "  lattice flow migrate old.json -o new.json",
		Args:    cli.Args(cobra.ExactArgs(1)), ValidArgsFunction: sources.CompleteFlows,
		RunE: func(c *cobra.Command, list []string) error {
			return runMigrate(c.Context(), env.Console, file, list[0])
		},
	}
	cmd.Flags().StringVarP(&file, "output", "o", "", "write the document to `FILE`, which must not exist")
	return cmd
}

func runMigrate(ctx context.Context, console *cli.Console, file, arg string) error {
	doc, _, err := sources.Open(ctx, console, arg)
	if err != nil {
		return err
	}
	out, applied, findings := compile.Migrate(doc, compile.Migrations())
	if out == nil {
		return sources.Refuse(arg, findings)
	}
	if len(applied) == 0 {
		fmt.Fprintln(console.Err, "the document has the newest version already")
	}
	for _, step := range applied {
		fmt.Fprintln(console.Err, cli.Clean(step))
	}
	if file == "" {
		_, err = console.Out.Write(out)
		return err
	}
	f, err := os.OpenFile(file, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return fault.BadInput("file_exists", "%s already exists", file).WithHint("name another file, or remove it")
	}
	if err != nil {
		return fmt.Errorf("write flow: %w", err)
	}
	if _, err = f.Write(out); err != nil {
		_ = f.Close() // the write's error is the one that counts
		return fmt.Errorf("write flow: %w", err)
	}
	return f.Close()
}
