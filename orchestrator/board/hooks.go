package board

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

// hookTime is the time after which a hook is killed (seed workers-design, "Workers vs Hooks vs Agents").
const hookTime = 10 * time.Second

// maxHookOutput bounds the output of a hook that is shown, in bytes.
const maxHookOutput = 64 << 10

// HooksDigest returns the digest of the hooks, "" if there are none. A person trusts hooks by their digest: a repository may
// come with some of its author's choosing.
func (c Config) HooksDigest() string {
	h := c.Hooks
	if h.PostEvent == "" && len(h.On) == 0 && len(h.Transitions) == 0 {
		return ""
	}
	text, err := json.Marshal(h) // members of maps are sorted
	if err != nil {
		panic(err) // strings only
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// trustFile is the file of a state directory that lists the digests of hooks and commands which the user trusts, one in a line.
const trustFile = "trusted-hooks"

// IsTrusted reports whether the user of a state directory trusts a digest.
func IsTrusted(home, digest string) (bool, error) {
	text, err := os.ReadFile(filepath.Join(home, trustFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	return slices.Contains(strings.Split(string(text), "\n"), digest), nil
}

// Trust records in a state directory that the user trusts a digest.
func Trust(home, digest string) error {
	if trusted, err := IsTrusted(home, digest); err != nil || trusted {
		return err
	}
	if err := os.MkdirAll(home, 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(home, trustFile), os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	line := digest + "\n"
	last := make([]byte, 1)
	if size, err := f.Seek(0, io.SeekEnd); err == nil && size > 0 {
		if _, err := f.ReadAt(last, size-1); err == nil && last[0] != '\n' {
			line = "\n" + line // the last line has no newline: a person edited the file, or a writer was killed
		}
	}
	_, err = f.WriteString(line)
	return errors.Join(err, f.Close())
}

// RunTrustedHooks runs the hooks of events if the user of a state directory trusts them, and otherwise tells Warn how to trust them.
func (b *Board) RunTrustedHooks(ctx context.Context, home string, events []Event, environ []string, out io.Writer) error {
	digest := b.Config.HooksDigest()
	if digest == "" || len(events) == 0 {
		return nil
	}
	trusted, err := IsTrusted(home, digest)
	if err != nil {
		return err
	}
	if trusted {
		b.RunHooks(ctx, events, environ, out)
	} else {
		b.Warn("the hooks of this board do not run until you trust them: read them in .lattice/config.json, then lattice task trust")
	}
	return nil
}

// hooksOf returns the commands for an event: post_event, the type's, and the move's from the most exact to * -> *.
func (h Hooks) hooksOf(e Event) []string {
	var commands []string
	add := func(list ...string) {
		for _, c := range list {
			if c != "" {
				commands = append(commands, c)
			}
		}
	}
	add(h.PostEvent, h.On[e.Type])
	if e.Type != StatusChanged {
		return commands
	}
	d, err := decode[ChangeData](e)
	if err != nil {
		return commands
	}
	from := ""
	if d.From != nil {
		from = *d.From
	}
	for _, move := range [][2]string{{from, d.To}, {"*", d.To}, {from, "*"}, {"*", "*"}} {
		add(h.Transitions[move[0]+" -> "+move[1]]...)
	}
	return commands
}

// RunHooks runs the hooks of events, one after the other, with the event as JSON on their standard input and their output
// on out. A hook that fails or takes longer than ten seconds is reported to Warn and changes nothing else.
func (b *Board) RunHooks(ctx context.Context, events []Event, environ []string, out io.Writer) {
	for _, e := range events {
		text, err := json.Marshal(e)
		if err != nil {
			continue // it was written before
		}
		for _, command := range b.Config.Hooks.hooksOf(e) {
			if err := b.runHook(ctx, command, e, text, environ, out); err != nil {
				b.Warn(fmt.Sprintf("the hook %q after %s: %v", command, e.Type, err))
			}
		}
	}
}

func (b *Board) runHook(ctx context.Context, command string, e Event, text []byte, environ []string, out io.Writer) error {
	ctx, cancel := context.WithTimeout(ctx, hookTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", command)
	cmd.Dir = b.Root
	cmd.Env = append(environ[:len(environ):len(environ)], "LATTICE_ROOT="+b.Root, "LATTICE_TASK_ID="+e.TaskID, "LATTICE_EVENT_ID="+e.ID, "LATTICE_EVENT_TYPE="+e.Type, "LATTICE_ACTOR="+e.Actor)
	cmd.Stdin = bytes.NewReader(text)
	shown := &beginning{to: out, left: maxHookOutput}
	cmd.Stdout, cmd.Stderr = shown, shown
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = time.Second // for output that an escaped child holds open
	err := cmd.Run()
	switch {
	case ctx.Err() == context.DeadlineExceeded:
		return fmt.Errorf("killed after %s", hookTime)
	case errors.Is(err, exec.ErrWaitDelay): // it started something that goes on
		return nil
	case shown.err != nil:
		return shown.err
	case err == nil && shown.cut:
		return fmt.Errorf("its output beyond %d bytes is dropped", maxHookOutput)
	}
	return err
}

// beginning passes on the first bytes that are written, and drops the others.
type beginning struct {
	to   io.Writer
	left int
	cut  bool // some were dropped
	err  error
}

func (b *beginning) Write(p []byte) (int, error) {
	pass := p[:min(len(p), b.left)]
	b.left -= len(pass)
	b.cut = b.cut || len(pass) < len(p)
	if _, err := b.to.Write(pass); err != nil && b.err == nil {
		b.err = err
	}
	return len(p), nil
}
