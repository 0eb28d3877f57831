package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/leader"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// leaderOptions matter only to the process that leads.
type leaderOptions struct {
	spritekit string
}

func (o *leaderOptions) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&o.spritekit, "spritekit", "", "`PATH` of the spritekit that sprites get (default: beside lattice, else on PATH)")
}

// conn is a command's connection to the leader, which may be this very process: whoever gets the lock leads.
type conn struct {
	*api.Client
	d       *deps
	o       leaderOptions
	socket  string
	leading *leadership // nil while another process leads
}

// leadership is this process's time as leader.
type leadership struct {
	*leader.Leader
	lock   *leader.Lock
	server *http.Server
	group  errgroup.Group
}

// connectWait bounds how long a command waits for a leader that starts or ends.
const connectWait = 15 * time.Second

// connect leads when nobody does, else dials the leader.
func connect(ctx context.Context, d *deps, o leaderOptions) (*conn, error) {
	home := leader.Home(d.home)
	c := &conn{d: d, o: o, socket: home.Socket()}
	c.Client = api.NewClient(c.socket)
	if err := c.establish(ctx); err != nil {
		return nil, err
	}
	c.Redial = c.establish
	return c, nil
}

// establish finds the leader, or becomes it.
func (c *conn) establish(ctx context.Context) error {
	if c.leading != nil {
		return nil
	}
	dial := api.NewClient(c.socket)
	defer dial.Close()
	deadline := time.Now().Add(connectWait)
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 250*time.Millisecond) {
		lock, err := leader.Home(c.d.home).Acquire()
		if err == nil {
			c.leading, err = lead(c.d, c.o, lock)
			return err
		}
		if !errors.Is(err, leader.ErrLed) {
			return err
		}
		hello, err := dial.Hello(ctx)
		switch {
		case err == nil && hello.API != api.Version:
			return api.Refuse(protocol.ExitBusy, "leader_version", fmt.Sprintf("lattice %s (process %d) leads %s and speaks another version of the leader's interface", hello.Version, hello.PID, hello.Home), "end it, or use the same lattice")
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case time.Now().After(deadline):
			return api.Refuse(protocol.ExitBusy, "leader_silent", fmt.Sprintf("another lattice holds %s but does not answer: %v", c.d.home, err), "look for it with: fuser "+c.d.home+"/lattice.lock")
		}
		select { // the lock's holder is about to listen, or about to be gone
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// lead opens the state and serves it on the socket.
func lead(d *deps, o leaderOptions, lock *leader.Lock) (*leadership, error) {
	l, err := leader.Open(leader.Config{
		Home: leader.Home(d.home), Version: d.version, Self: d.exe, Spritekit: o.spritekit, Path: d.getenv("PATH"), Tools: d.hostTools(nil), CheckTool: d.checkTool,
		Remote: d.remoteSprites(), Environ: d.environ, Log: d.log, WrapLog: d.wrapLog,
		Warn: func(message string) { fmt.Fprintf(d.err, "lattice: %s\n", message) },
	})
	if err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	listener, err := listen(leader.Home(d.home).Socket())
	if err != nil {
		return nil, errors.Join(err, l.Close(), lock.Unlock())
	}
	s := &leadership{Leader: l, lock: lock, server: &http.Server{Handler: l.Handler(), ReadHeaderTimeout: 10 * time.Second}}
	s.group.Go(func() error {
		if err := s.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	return s, nil
}

// listen makes the socket, readable for its owner alone. The lock is ours, so an old socket is a dead one's.
func listen(path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove old socket: %w", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen for other commands: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("protect socket: %w", err), l.Close())
	}
	return l, nil
}

// end stops serving and driving, in that order, and gives the leadership up.
func (s *leadership) end() error {
	err := s.Leader.Close() // watchers end with it
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	if s.server.Shutdown(ctx) != nil {
		err = errors.Join(err, s.server.Close())
	}
	return errors.Join(err, s.group.Wait(), s.lock.Unlock())
}

// close ends the command's connection. A leader first waits for runs that other commands follow.
func (c *conn) close() {
	c.Client.Close()
	if c.leading == nil {
		return
	}
	if err := c.leading.end(); err != nil {
		fmt.Fprintf(c.d.err, "lattice: %v\n", err)
	}
	c.leading = nil
}

// warn says what is missing of the sandbox, before anything runs in one.
func (c *conn) warn(ctx context.Context) error {
	hello, err := c.Hello(ctx)
	if err == nil && hello.Warning != "" {
		fmt.Fprintf(c.d.err, "lattice: warning: %s\n", hello.Warning)
	}
	return err
}

// takeOver finds the next leader, or becomes it, and has it go on with the run.
func (c *conn) takeOver(ctx context.Context, v api.RunView) error {
	if c.leading != nil {
		return fmt.Errorf("follow %s: %w", v.RunID, io.ErrUnexpectedEOF)
	}
	if err := c.establish(ctx); err != nil {
		return err
	}
	secrets, err := c.d.renewedSecrets(v, nil)
	if err != nil {
		return err
	}
	_, err = c.Drive(ctx, v.RunID, secrets)
	return err
}

// stopDriving stops a run for a user who pressed Ctrl-C; the process is about to end, so errors are only shown.
func (c *conn) stopDriving(run string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err := c.Stop(ctx, run); err != nil && !errors.Is(err, api.ErrGone) {
		fmt.Fprintf(c.d.err, "lattice: stop %s: %v\n", run, err)
	}
}
