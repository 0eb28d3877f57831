package connect

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/cli"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader/home"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// defaultIdle is how long a leader in the background waits for something to do.
const defaultIdle = 5 * time.Minute

// idleTime is how long a leader that this process starts waits for something to do before it ends.
func idleTime(env *setup.Env) time.Duration {
	return cmp.Or(time.Duration(env.Settings.Serve.Idle), defaultIdle)
}

// startLeader starts lattice serve in the background and waits until it leads. It is not an error when another process was
// faster to lead.
func startLeader(ctx context.Context, env *setup.Env) error {
	logs := home.Home(env.Home).Logs()
	_ = os.MkdirAll(logs, 0o700) // without room for logs there are none
	path := filepath.Join(logs, "serve.log")
	before := fileSize(path)
	// What the process itself does not log, a panic, goes to the same file.
	stderr, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		if stderr, err = os.OpenFile(os.DevNull, os.O_WRONLY, 0); err != nil {
			return fmt.Errorf("start a leader in the background: %w", err)
		}
	}
	defer stderr.Close()
	args := []string{"serve", "--resume", "none", "--idle", idleTime(env).String(), "--log", path}
	ready, line, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("start a leader in the background: %w", err)
	}
	defer ready.Close()
	cmd := exec.Command(env.Exe, args...)
	cmd.Dir, cmd.Env = env.Home, append(withoutVar(env.Environ, "LATTICE_HOME", "PWD"), "LATTICE_HOME="+env.Home)
	cmd.Stdout, cmd.Stderr = line, stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C and the end of the terminal are not its
	err = cmd.Start()
	line.Close()
	if err != nil {
		return fmt.Errorf("start a leader in the background: %w", err)
	}
	stop := context.AfterFunc(ctx, func() { ready.Close() })
	defer stop()
	// It says one line when it leads, and nothing when it ends before.
	if said, err := bufio.NewReader(ready).ReadString('\n'); err == nil && said != "" {
		return cmd.Process.Release()
	}
	if ctx.Err() != nil {
		return errors.Join(ctx.Err(), cmd.Process.Release())
	}
	err = cmd.Wait()
	if cmd.ProcessState.ExitCode() == protocol.ExitBusy {
		return nil
	}
	return fault.Failed("leader_failed", "the leader in the background ended immediately (%v): %s", err, tailOf(path, before)).WithHint("read %s, or try: lattice serve", path)
}

func withoutVar(environ []string, names ...string) []string {
	var out []string
next:
	for _, kv := range environ {
		for _, name := range names {
			if strings.HasPrefix(kv, name+"=") {
				continue next
			}
		}
		out = append(out, kv)
	}
	return out
}

func fileSize(path string) int64 {
	info, err := os.Stat(path)
	if err != nil {
		return 0
	}
	return info.Size()
}

// tailOf returns the text of a log after a position, shortened.
func tailOf(path string, from int64) string {
	f, err := os.Open(path)
	if err != nil {
		return err.Error()
	}
	defer f.Close()
	if _, err := f.Seek(from, io.SeekStart); err != nil {
		return err.Error()
	}
	text, err := io.ReadAll(io.LimitReader(f, 4<<10))
	if err != nil {
		return err.Error()
	}
	return cli.Clean(string(text))
}

// AddDetachFlag adds --detach to a command that has a run go on.
func (o *Options) AddDetachFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&o.Detach, "detach", false, "run in the background: print the run's id and end")
}

// AddWaitFlag adds --wait, the opposite of --detach.
func (o *Options) AddWaitFlag(cmd *cobra.Command) {
	wait := true
	cmd.Flags().BoolVar(&wait, "wait", true, "follow the run until it ends or waits for a person (the opposite of --detach)")
	check := cmd.Args
	cmd.Args = func(c *cobra.Command, list []string) error {
		if o.Detach && wait && c.Flags().Changed("wait") {
			return cli.UsageErrorf("--detach and --wait exclude each other")
		}
		o.Detach = o.Detach || !wait
		return check(c, list)
	}
}

// Detached ends a command whose run goes on in the background: it prints the run's id.
func (c *Conn) Detached(ctx context.Context, v api.RunView, values api.Values) error {
	console := c.Env.Console
	v, err := c.KeepDriving(ctx, v, values)
	if err != nil {
		return err
	}
	if console.JSON {
		return console.PrintJSON(map[string]any{"run_id": v.RunID, "status": v.Status})
	}
	if _, err := fmt.Fprintln(console.Out, v.RunID); err != nil {
		return err
	}
	_, err = fmt.Fprintf(console.Err, "runs in the background; look: lattice show %s\n   or: lattice logs -f %s\n", v.RunID, v.RunID)
	return err
}

// KeepDriving has a run go on in the background if no leader drives it: a leader that ended just when the run was recorded has
// left it to the next.
func (c *Conn) KeepDriving(ctx context.Context, v api.RunView, values api.Values) (api.RunView, error) {
	if v.Driving || v.Status != lattice.Pending && v.Status != lattice.Running {
		return v, nil
	}
	return c.Drive(ctx, v.RunID, api.DriveRequest{Values: values, Detach: true})
}
