package main

import (
	"bytes"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/spritekit/lattice/spritekit/contract"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// The repository that the built-in skills are checked in: main and fix-parser, which is one commit ahead, with the files
// that the examples of the manifests name.
//
//go:embed check.bundle
var checkBundle []byte

// fixPatch is the patch of the example of git.apply.
const fixPatch = "--- a/hello.txt\n+++ b/hello.txt\n@@ -1 +1 @@\n-hello\n+hello, world\n"

// prepareBuiltin makes a workspace for the first example of a built-in skill: a clone of the repository with an uncommitted
// change. self is this binary, whose own skills make it, so that it works in a sprite without git.
func prepareBuiltin(self, skill string, env []string) func(dir string) error {
	return func(dir string) error {
		in := filepath.Join(dir, filepath.Dir(protocol.SeedFile))
		if err := errors.Join(
			os.MkdirAll(in, 0o755), os.WriteFile(filepath.Join(dir, protocol.SeedFile), checkBundle, 0o644),
			os.WriteFile(filepath.Join(dir, "fix.patch"), []byte(fixPatch), 0o644),
		); err != nil || skill == "git.clone" {
			return err
		}
		call := func(skill, input string) error {
			cmd := exec.Command(self, skill)
			cmd.Env = append([]string{"HOME=" + dir, "LATTICE_WORKSPACE=" + dir, "LATTICE_SOCKET=", "LATTICE_PERMISSIONS=*"}, env...)
			cmd.Stdin = strings.NewReader(input)
			if out, err := cmd.CombinedOutput(); err != nil {
				return fmt.Errorf("%s: %w: %s", skill, err, bytes.TrimSpace(out))
			}
			return nil
		}
		for _, step := range [][2]string{
			{"git.clone", `{"url":"` + protocol.SeedFile + `","dest":"repo"}`},
			{"git.checkout", `{"repo":"repo","ref":"fix-parser"}`},
			{"git.checkout", `{"repo":"repo","ref":"main"}`},
		} {
			if err := call(step[0], step[1]); err != nil {
				return err
			}
		}
		f, err := os.OpenFile(filepath.Join(dir, "repo", "main.go"), os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteString("\n// half done\n")
		if err = errors.Join(err, f.Close()); err != nil {
			return err
		}
		if skill == "git.push" { // the remote has everything else
			if err := call("git.commit", `{"repo":"repo","all":true,"message":"Half done","author":{"name":"Ada","email":"ada@example.com"}}`); err != nil {
				return err
			}
		}
		return removeOthers(filepath.Join(dir, protocol.Dir), filepath.Base(in))
	}
}

// removeOthers removes the records of the skills that prepared a workspace, except for keep.
func removeOthers(dir, keep string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if e.Name() != keep {
			err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return err
}

// adaptTarget adds the inputs that a check of a built-in skill needs in addition to its example: that of git.clone names the folder of every
// sprite, that of exec.run a program of one toolchain, and only a host can checkpoint.
func adaptTarget(t *contract.Target, socket string) {
	switch t.Skill {
	case "git.clone":
		t.Input = `{"url":"` + protocol.SeedFile + `","dest":"repo"}`
	case "exec.run":
		t.Input = `{"command":"ls","cwd":"repo"}`
	case "checkpoint.create":
		if socket != "" {
			t.Env = append(t.Env, "LATTICE_SOCKET="+socket)
		} else {
			t.Unfit = "a checkpoint needs a sprite with an api socket"
		}
	}
}
