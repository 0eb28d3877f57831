package skill

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/compile"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/finding"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sources"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

func newValidateCmd(env *setup.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "validate FILE|DIR",
		Short: "Check a skill's manifest, or a whole folder for /skills",
		Long: `Check a skill's manifest and print all findings at once; the command ends with 2 if one of them is an error. Unknown members
are errors here, although readers tolerate them. A folder has the name of its skill, and contains skill.json and the
executable run.
With --json: {"ok":…,"findings":[{"code","severity","pointer","message","hint"}]}.
` + cli.ExitCodes,
		Example: "  lattice skill validate contacts.search/\n  lattice skill validate skill.json --json",
		Args:    cli.Args(cobra.ExactArgs(1)),
		RunE: func(c *cobra.Command, list []string) error {
			findings, err := checkSkill(c.Context(), env.Console, list[0])
			if err != nil {
				return err
			}
			if err := sources.PrintFindings(env.Console, findings); err != nil {
				return err
			}
			if finding.HasErrors(findings) {
				return &cli.ExitError{Code: protocol.ExitBadInput}
			}
			if !env.JSON {
				_, err = fmt.Fprintln(env.Out, "ok")
			}
			return err
		},
	}
}

// checkSkill checks a manifest, or a folder with one.
func checkSkill(ctx context.Context, console *cli.Console, arg string) ([]finding.Finding, error) {
	file := arg
	if info, err := os.Stat(arg); arg != "-" && err == nil && info.IsDir() {
		file = filepath.Join(arg, manifests.ManifestFile)
	}
	data, err := console.ReadNamed(ctx, file, maxManifest)
	if err != nil {
		return nil, skillUnreadable(err)
	}
	skill, findings := compile.Manifest(data)
	if file == arg {
		return findings, nil
	}
	fault := func(code, hint, format string, args ...any) {
		findings = append(findings, finding.Finding{Code: code, Severity: finding.SeverityError, Message: fmt.Sprintf(format, args...), Hint: hint})
	}
	if dir, err := filepath.Abs(arg); err == nil && skill.Name != "" && filepath.Base(dir) != skill.Name {
		fault("folder_misnamed", "mv "+filepath.Base(dir)+" "+skill.Name, "the folder is named %s and the skill %s", filepath.Base(dir), skill.Name)
	}
	if len(skill.Exec) == 0 {
		checkProgram(filepath.Join(arg, manifests.RunFile), "run", fault)
	}
	for i, word := range skill.Exec {
		switch served := i == 2 && skill.Exec[0] == "spritekit" && skill.Exec[1] == "serve"; {
		case filepath.IsAbs(word) || !strings.HasPrefix(word, "./") && (i > 0 || !strings.Contains(word, "/")):
		case i == 0 || served:
			checkProgram(filepath.Join(arg, word), "program", fault)
		default:
			if _, err := os.Stat(filepath.Join(arg, word)); err != nil {
				fault("program_missing", "skill.json names it as exec", "there is no file %s", filepath.Join(arg, word))
			}
		}
	}
	return ir.Merge(nil, findings), nil
}

// checkProgram checks that a file can be executed in a sprite. The codes of its findings begin with kind, such as "program".
func checkProgram(file, kind string, fault func(code, hint, format string, args ...any)) {
	info, err := os.Stat(file)
	switch {
	case err != nil && kind == "run":
		fault("run_missing", "put the program there, or name it in skill.json as exec", "there is no program %s", file)
		return
	case err != nil:
		fault(kind+"_missing", "skill.json names it as exec", "there is no program %s", file)
		return
	case !info.Mode().IsRegular() || info.Mode()&0o111 == 0:
		fault(kind+"_not_executable", "chmod +x "+file, "%s cannot be executed", file)
	}
	f, err := os.Open(file)
	if err != nil || !info.Mode().IsRegular() {
		return
	}
	defer f.Close()
	head := make([]byte, 256)
	n, _ := io.ReadFull(f, head) // of a shorter file, all of it
	first, _, _ := bytes.Cut(head[:n], []byte("\n"))
	switch {
	case bytes.HasPrefix(head, []byte("\x7fELF")):
	case !bytes.HasPrefix(head, []byte("#!")):
		fault(kind+"_without_shebang", "begin it with a line such as #!/bin/sh", "%s is neither a binary nor a script that begins with #!", file)
	case bytes.HasSuffix(first, []byte("\r")):
		fault(kind+"_crlf", "sed -i 's/\\r$//' "+file, "the lines of %s end in CR LF, so its interpreter cannot be found", file)
	}
}

func skillUnreadable(err error) error {
	if errors.Is(err, os.ErrNotExist) {
		return fault.NotFound("skill_not_found", "read manifest: %v", err).WithHint("name a skill.json, or a folder that contains one")
	}
	return fault.BadInput("skill_unreadable", "read manifest: %v", err)
}
