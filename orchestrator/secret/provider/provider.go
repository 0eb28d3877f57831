// Package provider reads secrets: from an environment variable, a file, a file encrypted with age, or the output of a helper
// program. Start with [Env], [File], [Age] and [Helper], which complete a [secret.Source]. It never decides who gets a secret.
//
// No error contains a secret, nor the output of a helper.
package provider

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"filippo.io/age"
	"filippo.io/age/armor"

	"github.com/spritekit/lattice/orchestrator/secret"
)

// maxText is the size in bytes of the largest secret with its line end.
const maxText = secret.MaxSize + 2

// Env reads the secret from a variable.
func Env(s *secret.Source, name string, getenv func(string) string) {
	s.From = "$" + name
	s.Check = func() error {
		if getenv(name) == "" {
			return fmt.Errorf("the variable %s is not set", name)
		}
		return nil
	}
	s.Resolve = func(context.Context, secret.Request) (string, error) {
		if err := s.Check(); err != nil {
			return "", err
		}
		return secret.Clean(getenv(name))
	}
}

// File reads the secret from a file that only its owner may read.
func File(s *secret.Source, path string) {
	s.From = path
	s.Check = func() error { return checkFile(path, true) }
	s.Resolve = func(context.Context, secret.Request) (string, error) {
		text, err := readFile(path, true)
		if err != nil {
			return "", err
		}
		return secret.Clean(string(text))
	}
}

// Age reads the secret from a file that is encrypted with age, as text or not. The file of identities is only for its owner.
func Age(s *secret.Source, path, identities string) {
	s.From = path
	s.Check = func() error { return errors.Join(checkFile(path, false), checkFile(identities, true)) }
	s.Resolve = func(context.Context, secret.Request) (string, error) {
		text, err := readFile(path, false)
		if err != nil {
			return "", err
		}
		keys, err := readFile(identities, true)
		if err != nil {
			return "", err
		}
		ids, err := age.ParseIdentities(bytes.NewReader(keys))
		if err != nil {
			return "", fmt.Errorf("%s holds no identities of age", identities) // err could contain one
		}
		var from io.Reader = bytes.NewReader(text)
		if bytes.HasPrefix(bytes.TrimSpace(text), []byte(armor.Header)) {
			from = armor.NewReader(from)
		}
		var wrong *age.NoIdentityMatchError
		plain, err := age.Decrypt(from, ids...)
		if errors.As(err, &wrong) {
			return "", fmt.Errorf("no identity in %s opens %s", identities, path)
		}
		if err == nil {
			text, err = io.ReadAll(io.LimitReader(plain, maxText+1))
		}
		switch {
		case err != nil:
			return "", fmt.Errorf("decrypt %s: %w", path, err)
		case len(text) > maxText: // the rest may follow a line end that Clean would remove
			return "", fmt.Errorf("%s holds more than %d bytes", path, secret.MaxSize)
		}
		return secret.Clean(string(text))
	}
}

// helperTimeout bounds a helper program. Tests replace it.
var helperTimeout = 15 * time.Second

// Helper reads the secret from the stdout of a program, which gets the request as JSON on stdin.
func Helper(s *secret.Source, argv, env []string) {
	s.From, s.Scoped = argv[0], true
	s.Check = func() error {
		_, err := exec.LookPath(argv[0])
		return err
	}
	s.Resolve = func(ctx context.Context, r secret.Request) (string, error) {
		input, err := json.Marshal(r)
		if err != nil {
			return "", fmt.Errorf("encode the request: %w", err)
		}
		ctx, cancel := context.WithTimeout(ctx, helperTimeout)
		defer cancel()
		out := &boundedBuffer{cancel: cancel}
		cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
		cmd.Env, cmd.Stdin, cmd.Stdout = env, bytes.NewReader(input), out
		cmd.WaitDelay = time.Second
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // with its children
		err = cmd.Run()
		var exit *exec.ExitError
		switch {
		case out.full:
			return "", fmt.Errorf("%s prints more than %d bytes", argv[0], secret.MaxSize)
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			return "", fmt.Errorf("%s did not end within %v", argv[0], helperTimeout)
		case errors.As(err, &exit):
			return "", fmt.Errorf("%s ended with %v", argv[0], exit.ProcessState)
		case err != nil:
			return "", fmt.Errorf("run %s: %w", argv[0], err)
		}
		return checkHelped(argv[0], out.String())
	}
}

// checkHelped takes one line of text.
func checkHelped(program, text string) (string, error) {
	value, err := secret.Clean(text)
	if err != nil {
		return "", fmt.Errorf("the output of %s cannot be used: %w", program, err)
	}
	if strings.IndexFunc(value, func(c rune) bool { return c < ' ' || c == 0x7f || c == '\uFFFD' }) >= 0 {
		return "", fmt.Errorf("the output of %s is not one line of text", program)
	}
	return value, nil
}

// boundedBuffer ends the program that prints too much.
type boundedBuffer struct {
	bytes.Buffer
	cancel func()
	full   bool
}

func (b *boundedBuffer) Write(p []byte) (int, error) {
	if b.Len()+len(p) > maxText {
		b.full = true
		b.cancel()
		return len(p), nil
	}
	return b.Buffer.Write(p)
}

func checkFile(path string, private bool) error {
	f, err := openFile(path, private)
	if err != nil {
		return err
	}
	return f.Close()
}

// openFile opens a file that only its owner may read, if it is private.
func openFile(path string, private bool) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil {
		st, ok := info.Sys().(*syscall.Stat_t)
		switch {
		case !info.Mode().IsRegular():
			err = fmt.Errorf("%s is not a regular file", path)
		case private && info.Mode().Perm()&0o077 != 0:
			err = fmt.Errorf("%s is open to others (mode %04o): chmod 600 %s", path, info.Mode().Perm(), path)
		case private && ok && int(st.Uid) != os.Getuid():
			err = fmt.Errorf("%s belongs to another user", path)
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func readFile(path string, private bool) ([]byte, error) {
	f, err := openFile(path, private)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	const most = 64 << 10 // an encrypted file is longer than its secret
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err == nil && len(text) > most {
		err = fmt.Errorf("%s has more than %d bytes", path, most)
	}
	return text, err
}
