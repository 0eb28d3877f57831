package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
)

// benchPeers compares the engine with other engines, which are in a module of their own.
func benchPeers(ctx context.Context, quick, asJSON bool, out, progress io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "lattice-bench-")
	if err != nil {
		return fmt.Errorf("make a folder to work in: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if err := os.Chmod(dir, 0o711); err != nil { // one of them may have to be another user
		return err
	}
	var r report
	program := filepath.Join(dir, "peers")
	return r.write(out, asJSON, progress, []stage{
		{"", "build", func() error {
			out, err := exec.CommandContext(ctx, "go", "build", "-C", filepath.Join("scripts", "bench", "peers"), "-o", program, ".").CombinedOutput()
			if err != nil {
				err = fmt.Errorf("%w\n%s", err, out)
			}
			return err
		}},
		{"", "the machine", func() (err error) { r.Machine, err = look(ctx, dir, 500); return err }},
		{"", "peers", func() error {
			cmd := exec.CommandContext(ctx, program)
			if quick {
				cmd.Args = append(cmd.Args, "-rounds", "1", "-turn", "200ms")
			}
			var found bytes.Buffer
			cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), "TMPDIR="+dir), &found, progress
			// It gets one signal, and ends the processes that it started.
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
			cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
			if err := cmd.Run(); err != nil {
				return err
			}
			var of struct {
				About   []string
				Figures []figure
			}
			if err := json.Unmarshal(found.Bytes(), &of); err != nil {
				return err
			}
			r.Machine.Versions = append(r.Machine.Versions[:1], of.About...) // of Go
			return r.add(of.Figures, nil)
		}},
	})
}
