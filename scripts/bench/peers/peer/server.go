package peer

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// Server is a program that serves until it is stopped.
type Server struct {
	cmd   *exec.Cmd
	log   string
	ended chan struct{}
}

// Start starts a server in a folder of its own. Its output goes to a file there, and Ctrl-C at a terminal to us alone.
func Start(dir string, as *syscall.Credential, env []string, argv ...string) (*Server, error) {
	log := filepath.Join(dir, "server.log")
	f, err := os.Create(log)
	if err != nil {
		return nil, err
	}
	defer f.Close() // the server has it
	s := &Server{cmd: exec.Command(argv[0], argv[1:]...), log: log, ended: make(chan struct{})}
	s.cmd.Dir, s.cmd.Env, s.cmd.Stdout, s.cmd.Stderr = dir, append(os.Environ(), env...), f, f
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Credential: as}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = s.cmd.Wait() // how it ended is in its log
		close(s.ended)
	}()
	return s, nil
}

// Await returns when the server answers.
func (s *Server) Await(ctx context.Context, answers func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	for {
		err := answers(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-s.ended:
			return errors.New("the server ended: " + s.lastWords())
		case <-ctx.Done():
			return fmt.Errorf("%w: %w: %s", ctx.Err(), err, s.lastWords())
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func (s *Server) lastWords() string {
	text, _ := os.ReadFile(s.log) // without it there are none
	words := strings.Fields(string(text))
	return strings.Join(words[max(0, len(words)-20):], " ")
}

// Stop ends it, with force when it does not end by itself.
func (s *Server) Stop(sig syscall.Signal) error {
	for _, sig := range []syscall.Signal{sig, syscall.SIGKILL} {
		_ = syscall.Kill(-s.cmd.Process.Pid, sig) // it may have ended
		select {
		case <-s.ended:
			return nil
		case <-time.After(10 * time.Second):
		}
	}
	return fmt.Errorf("process %d does not end", s.cmd.Process.Pid)
}
