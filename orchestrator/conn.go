package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/host/sandbox"
	"github.com/spritekit/lattice/orchestrator/leader"
	"github.com/spritekit/lattice/orchestrator/patient"
	"github.com/spritekit/lattice/spritekit/fault"
)

// leaderOptions matter only to the process that leads.
type leaderOptions struct {
	serve  bool // this process does nothing but lead
	detach bool // this process never leads: a background one does
	// Of lattice serve alone: flags in place of the settings.
	spritekit string
	network   networkOptions
}

// conn is a command's connection to the leader, which may be this very process: whoever gets the lock leads.
type conn struct {
	*api.Client
	d       *deps
	o       leaderOptions
	socket  string
	leading *leadership // nil while another process leads
	inherit []api.HandedRun
	lost    bool // another process asked this one to hand over, and leads next
}

// leadership is this process's time as leader.
type leadership struct {
	*leader.Leader
	lock   *leader.Lock
	server *http.Server
	group  errgroup.Group
	unused *unusedConns
	stop   chan struct{} // closed by end
	ended  chan struct{} // closed when it is over, with err set
	// scratch is removed at the end; "" where the home has its own.
	scratch string
	err     error
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

// establish finds the leader, or becomes it. What an older leader hands over goes on here.
func (c *conn) establish(ctx context.Context) error {
	if c.leading != nil {
		select {
		case <-c.leading.HandedOver():
			c.lost = true
			if err := c.leading.end(); err != nil {
				fmt.Fprintf(c.d.err, "lattice: %v\n", err)
			}
			c.leading = nil
		default:
			return nil
		}
	}
	if err := c.find(ctx); err != nil {
		return err
	}
	for _, r := range c.inherit {
		if err := c.driveOn(ctx, r); err != nil {
			fmt.Fprintf(c.d.err, "lattice: go on with %s: %v\n", r.RunID, err)
		}
	}
	c.inherit = nil
	return nil
}

// driveOn goes on with a run that nobody follows.
func (c *conn) driveOn(ctx context.Context, r api.HandedRun) error {
	req := api.DriveRequest{Values: r.Values, Detach: true}
	if c.leading != nil {
		_, err := c.leading.Drive(ctx, r.RunID, req)
		return err
	}
	_, err := api.NewClient(c.socket).Drive(ctx, r.RunID, req)
	return err
}

// find ends with a leader that answers, or with this process leading. The lock decides; the rest is patience.
func (c *conn) find(ctx context.Context) error {
	dial := api.NewClient(c.socket)
	defer dial.Close()
	begun := time.Now()
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 250*time.Millisecond) {
		// Who took the lead from this process has it in a moment; only if it does not come, the lead is free again.
		if waited := time.Since(begun); !c.lost || waited > 2*time.Second {
			done, err := c.takeLead(ctx)
			if done || err != nil {
				return err
			}
		}
		hello, err := dial.Hello(ctx)
		switch {
		case err == nil && hello.Ending: // the lock is free in a moment
		case err == nil && c.newerThan(hello):
			if err := c.askForLead(ctx, dial, hello); err != nil {
				return err
			}
			begun = time.Now()
			continue
		case err == nil && hello.API > c.d.api && (hello.Oldest == 0 || hello.Oldest > c.d.api):
			return c.tooOld(hello)
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		}
		if time.Since(begun) > connectWait {
			if err == nil {
				err = errors.New("it is ending")
			}
			return fault.Busy("leader_silent", "another lattice holds %s but does not lead: %v", c.d.home, err).WithHint("look for it with: fuser %s/lattice.lock", c.d.home)
		}
		select { // the lock's holder is about to listen, or about to be gone
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// takeLead leads, or has a background process lead, if nobody does.
func (c *conn) takeLead(ctx context.Context) (bool, error) {
	lock, err := leader.Home(c.d.home).Acquire()
	switch {
	case errors.Is(err, leader.ErrLed):
		return false, nil
	case leader.IsReadOnly(err) && !c.o.serve:
		return true, c.readOnly()
	case err != nil:
		return false, err
	case c.o.detach:
		if err := lock.Unlock(); err != nil {
			return false, err
		}
		return false, c.d.startLeader(ctx)
	}
	c.leading, err = lead(c.d, c.o, lock, "")
	return true, err
}

// readOnly leads a home to which nothing can be written, for this command alone.
func (c *conn) readOnly() error {
	dir, err := os.MkdirTemp("", "lattice-read-")
	if err != nil {
		return fmt.Errorf("read a state directory that takes no writes: %w", err)
	}
	if c.leading, err = lead(c.d, c.o, nil, dir); err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	c.leading.scratch, c.socket = dir, filepath.Join(dir, leader.SocketName)
	c.Client = api.NewClient(c.socket)
	return nil
}

// newerThan reports whether this lattice should lead instead: it speaks a newer version of the leader's interface, or it
// was told to serve and is another build.
func (c *conn) newerThan(h api.Hello) bool {
	return h.API < c.d.api || c.o.serve && h.API == c.d.api && h.Version != c.d.version
}

func (c *conn) tooOld(h api.Hello) error {
	return fault.Busy("leader_version", "lattice %s (process %d) leads %s, and this lattice %s is too old to speak with it (interface %d, it serves %d and newer)", h.Version, h.PID, h.Home, c.d.version, c.d.api, max(h.Oldest, h.API)).WithHint("use the newer lattice, or end that process first")
}

// handoverWait is how long a command waits for an older leader that has to finish something first.
const handoverWait = 30 * time.Second

// askForLead has an older leader hand over. It puts down each run when what it has begun is over, and gives up its lock.
func (c *conn) askForLead(ctx context.Context, dial *api.Client, h api.Hello) error {
	req := api.HandoverRequest{API: c.d.api, Version: c.d.version, PID: os.Getpid(), WaitS: handoverWait.Seconds()}
	if c.o.serve {
		req.WaitS = 0 // it was told to lead: until Ctrl-C
	}
	fmt.Fprintf(c.d.err, "lattice: lattice %s (process %d) leads; asking it to hand over to lattice %s\n", h.Version, h.PID, c.d.version)
	handed, err := dial.HandOver(ctx, req)
	var p *fault.Error
	switch {
	case err == nil:
		c.inherit = append(c.inherit, handed.Runs...)
		return nil
	case errors.As(err, &p) && p.Fault.Code != api.CodeLeaderEnding:
		return fault.Busy("leader_version", "lattice %s (process %d) leads %s, is older than this lattice %s and cannot hand over yet: %s", h.Version, h.PID, h.Home, c.d.version, p.Fault.Message).WithHint("try again when that is done, or use lattice %s", h.Version)
	case p != nil, errors.Is(err, api.ErrGone):
		return nil // it is ending anyway
	}
	return err
}

// lead opens the state and serves it on the socket, until end or a hand-over.
func lead(d *deps, o leaderOptions, lock *leader.Lock, readOnly string) (*leadership, error) {
	network, err := d.network(o.network)
	if err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	models, err := d.models()
	if err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	rules, err := d.serverPolicy()
	if err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	var bounds limitOptions
	bounds.withSettings(d.settings)
	cfg := leader.Config{
		Models: models, ModelsOf: d.modelsOf, Credentials: d.credentials, Policy: rules, Notify: d.notifications(), Settings: d.leaderSettings(), Providers: d.agentProviders(), Transport: d.modelTransport(),
		Home: leader.Home(d.home), Version: d.version, API: d.api, Oldest: d.oldest, Serving: o.serve, Self: d.exe,
		Spritekit: d.spritekit(o.spritekit), Path: d.getenv("PATH"), Tools: d.hostTools(d.paths(d.settings.Tools)), CheckTool: d.checkTool, Shared: d.sharedCaches(),
		Network: network, Image: d.expand(d.settings.Image), Remote: d.remoteSprites(), Environ: d.environ, Log: d.log, WrapLog: d.wrapLog,
		Name: d.settings.Git.Name, Email: d.settings.Git.Email, MinIsolation: sandbox.Level(bounds.least), NoRoot: d.settings.NoRoot, Box: bounds.limits(),
		Warn: func(message string) { fmt.Fprintf(d.err, "lattice: %s\n", message) },
	}
	cfg.ReadOnly = readOnly
	cfg.Told.Network, cfg.Told.HostPorts = o.network.preset, o.network.ports()
	l, err := leader.Open(cfg)
	if err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	socket := leader.Home(d.home).Socket()
	if readOnly != "" {
		socket = filepath.Join(readOnly, leader.SocketName)
	}
	listener, err := listen(socket)
	if err != nil {
		return nil, errors.Join(err, l.Close(), lock.Unlock())
	}
	unused := &unusedConns{set: map[net.Conn]bool{}}
	s := &leadership{
		Leader: l, lock: lock, unused: unused,
		server: &http.Server{Handler: l.Handler(), ReadHeaderTimeout: 10 * time.Second, ConnState: unused.note},
		stop:   make(chan struct{}), ended: make(chan struct{}),
	}
	broken := make(chan struct{})
	s.group.Go(func() error {
		defer close(broken)
		if err := s.server.Serve(patient.Listener(listener)); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve other commands: %w", err)
		}
		return nil
	})
	go func() { // owned by end
		defer close(s.ended)
		select {
		case <-s.HandedOver():
		case <-s.stop:
		case <-broken: // a leader that cannot be reached must not keep the lock
		}
		s.err = s.shutdown()
	}()
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

// shutdown stops driving and serving, in that order, and gives the leadership up.
func (s *leadership) shutdown() error {
	err := s.Quiesce() // watchers end with it
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	drop := time.AfterFunc(100*time.Millisecond, s.unused.drop)
	defer drop.Stop()
	if s.server.Shutdown(ctx) != nil {
		err = errors.Join(err, s.server.Close())
	}
	return errors.Join(err, s.group.Wait(), s.Close(), s.lock.Unlock())
}

// unusedConns are connections over which no request came. HTTP clients keep such in store; a server that shuts down would
// wait for them.
type unusedConns struct {
	mu  sync.Mutex
	set map[net.Conn]bool
}

func (u *unusedConns) note(c net.Conn, state http.ConnState) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if state == http.StateNew {
		u.set[c] = true
	} else {
		delete(u.set, c)
	}
}

func (u *unusedConns) drop() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for c := range u.set {
		_ = c.Close() // it is worth nothing
	}
}

// end ends the leadership, if it has not ended by a hand-over, and waits until it is over. It is called once.
func (s *leadership) end() error {
	close(s.stop)
	<-s.ended
	if s.scratch != "" {
		return errors.Join(s.err, os.RemoveAll(s.scratch))
	}
	return s.err
}

// close ends the command's connection. Runs that go on without this command are left to a leader in the background.
func (c *conn) close() {
	c.Client.Close()
	if c.leading == nil {
		return
	}
	var left []api.HandedRun
	if !c.o.serve {
		ctx, cancel := context.WithTimeout(context.Background(), leaveWait)
		left = c.leading.Leave(ctx)
		cancel()
	}
	if err := c.leading.end(); err != nil {
		fmt.Fprintf(c.d.err, "lattice: %v\n", err)
	}
	c.leading = nil
	if len(left) > 0 {
		c.leave(left)
	}
}

// leaveWait is how long a command whose own work is done waits for the steps of runs that go on without it.
const leaveWait = 3 * time.Second

// leave has runs go on in the background.
func (c *conn) leave(left []api.HandedRun) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*connectWait)
	defer cancel()
	c.o.detach, c.inherit = true, left
	if err := c.establish(ctx); err != nil {
		for _, r := range left {
			fmt.Fprintf(c.d.err, "lattice: %s does not go on in the background: %v\n  try: lattice resume --detach %s\n", r.RunID, err, r.RunID)
		}
		return
	}
	for _, r := range left {
		fmt.Fprintf(c.d.err, "%s goes on in the background\n", r.RunID)
	}
}

// warn says what is missing of the sandbox, before anything runs in one.
func (c *conn) warn(ctx context.Context) error {
	hello, err := c.Hello(ctx)
	if err != nil {
		return err
	}
	if hello.Warning != "" {
		fmt.Fprintf(c.d.err, "lattice: warning: %s\n", hello.Warning)
	}
	if stale := c.d.staleSettings(hello); len(stale) > 0 {
		ends := "when that command has ended"
		if hello.Serving {
			ends = "after lattice serve --stop"
		}
		fmt.Fprintf(c.d.err, "lattice: warning: process %d leads with other settings (%s); those of here hold for sprites that were made by hand %s\n", hello.PID, strings.Join(stale, ", "), ends)
	}
	return nil
}

// takeOver finds the next leader, or becomes it, and has it go on with the run.
func (c *conn) takeOver(ctx context.Context, v api.RunView) error {
	if c.leading != nil {
		select {
		case <-c.leading.HandedOver():
		default:
			return fmt.Errorf("follow %s: %w", v.RunID, io.ErrUnexpectedEOF)
		}
	}
	if err := c.establish(ctx); err != nil {
		return err
	}
	values, err := c.d.renewedValues(v, nil)
	if err != nil {
		return err
	}
	_, err = c.Drive(ctx, v.RunID, api.DriveRequest{Values: values})
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
