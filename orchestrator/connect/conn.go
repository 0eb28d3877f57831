// Package connect is how a command reaches the leader of the state directory, which may be the command's own process, and the
// sprite host behind it. The process that gets the lock leads; the others dial its socket.
//
// Begin with Dial. NewQueryCmd and NewSpriteCmd make the two usual kinds of commands.
package connect

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/caller"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"

	"golang.org/x/sync/errgroup"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/compile"
	"github.com/spritekit/lattice/orchestrator/equip"
	"github.com/spritekit/lattice/orchestrator/fleet"
	"github.com/spritekit/lattice/orchestrator/leader"
	"github.com/spritekit/lattice/orchestrator/leader/home"
	"github.com/spritekit/lattice/orchestrator/patient"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/orchestrator/sources"
	"github.com/spritekit/lattice/orchestrator/trace"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/redact"
)

// Conn is a command's connection to the leader, which may be this process itself: the holder of the lock leads.
type Conn struct {
	*api.Client
	Env     *setup.Env
	o       Options
	Socket  string
	Leading *leadership // nil while another process leads
	inherit []api.HandedRun
	// yields is how long this process waits for another one to lead before it leads.
	yields time.Duration
}

// leadership is this process's time as leader.
type leadership struct {
	*leader.Leader
	lock   *home.Lock
	server *http.Server
	web    *webServer // nil without an address
	group  errgroup.Group
	unused *unusedConns
	stop   chan struct{} // closed by end
	Ended  chan struct{} // closed when it is over, with err set
	// scratch is removed at the end; "" where the home has its own.
	scratch string
	Err     error
}

// connectWait bounds how long a command waits for a leader that starts or ends.
const connectWait = 15 * time.Second

// Dial connects to the leader. If there is none, this process becomes it.
func Dial(ctx context.Context, env *setup.Env, o Options) (*Conn, error) {
	home := home.Home(env.Home)
	c := &Conn{Env: env, o: o, Socket: home.Socket()}
	c.Client = api.NewClient(c.Socket)
	if o.Over != nil {
		c.Client = api.NewClientOver(o.Over)
	}
	if o.Via != "" {
		c.Client.Via(o.Via)
	}
	c.Client.Waiting = func() func() { return env.ShowWait("waiting for the leader") }
	if o.Over != nil {
		return c, nil
	}
	if err := c.Establish(ctx); err != nil {
		return nil, err
	}
	c.Redial = c.Establish
	return c, nil
}

// Establish finds the leader, or becomes it. Runs that an older leader hands over go on here.
func (c *Conn) Establish(ctx context.Context) error {
	if c.Leading != nil {
		select {
		case <-c.Leading.HandedOver():
			c.yields = max(c.yields, 2*time.Second) // the process that asked for the lead has it in a moment
			if err := c.Leading.endLead(); err != nil {
				fmt.Fprintf(c.Env.Err, "lattice: %v\n", err)
			}
			c.Leading = nil
		default:
			return nil
		}
	}
	if err := c.findLeader(ctx); err != nil {
		return err
	}
	for _, r := range c.inherit {
		if err := c.driveOn(ctx, r); err != nil {
			fmt.Fprintf(c.Env.Err, "lattice: continue %s: %v\n", r.RunID, err)
		}
	}
	c.inherit = nil
	return nil
}

// YieldLead lets a command that only follows the leader leave the lead to the next lattice serve when the present one ends.
func (c *Conn) YieldLead() { c.yields = RestartWait }

// RestartWait is how long a command that follows waits for the next leader, which may be restarted at this moment.
const RestartWait = 10 * time.Second

// driveOn continues a run that no command follows.
func (c *Conn) driveOn(ctx context.Context, r api.HandedRun) error {
	req := api.DriveRequest{Values: r.Values, Detach: true}
	if c.Leading != nil {
		_, err := c.Leading.Drive(ctx, r.RunID, req)
		return err
	}
	_, err := api.NewClient(c.Socket).Drive(ctx, r.RunID, req)
	return err
}

// findLeader ends with a leader that answers, or with this process leading. The lock decides; the rest is patience.
func (c *Conn) findLeader(ctx context.Context) error {
	dial := api.NewClient(c.Socket)
	defer dial.Close()
	begun := time.Now()
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, 250*time.Millisecond) {
		if c.yields == 0 || time.Since(begun) > c.yields {
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
		case err == nil && hello.API > c.Env.API && (hello.Oldest == 0 || hello.Oldest > c.Env.API):
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
			return fault.Busy("leader_silent", "another lattice process holds the lock of %s but does not answer: %v", c.Env.Home, err).WithHint("find the process with: fuser %s/lattice.lock", c.Env.Home)
		}
		select { // the lock's holder is about to listen, or about to be gone
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// takeLead leads, or starts a background process that leads, if there is no leader.
func (c *Conn) takeLead(ctx context.Context) (bool, error) {
	lock, err := home.Home(c.Env.Home).Acquire()
	switch {
	case errors.Is(err, home.ErrLed):
		return false, nil
	case leader.IsReadOnly(err) && !c.o.Serve:
		return true, c.readOnly()
	case err != nil:
		return false, err
	case c.o.Detach:
		if err := lock.Unlock(); err != nil {
			return false, err
		}
		return false, startLeader(ctx, c.Env)
	}
	c.Leading, err = leadState(c.Env, c.o, lock, "")
	return true, err
}

// readOnly leads a home to which nothing can be written, for this command alone.
func (c *Conn) readOnly() error {
	dir, err := os.MkdirTemp("", "lattice-read-")
	if err != nil {
		return fmt.Errorf("read a read-only state directory: %w", err)
	}
	if c.Leading, err = leadState(c.Env, c.o, nil, dir); err != nil {
		return errors.Join(err, os.RemoveAll(dir))
	}
	c.Leading.scratch, c.Socket = dir, filepath.Join(dir, leader.SocketName)
	c.Client = api.NewClient(c.Socket)
	return nil
}

// newerThan reports whether this lattice should lead instead: it speaks a newer version of the leader's interface, or it
// was told to serve and is another build.
func (c *Conn) newerThan(h api.Hello) bool {
	return h.API < c.Env.API || c.o.Serve && h.API == c.Env.API && h.Version != c.Env.Version
}

func (c *Conn) tooOld(h api.Hello) error {
	return fault.Busy("leader_version", "lattice %s (process %d) is the leader of %s, and this lattice %s is too old to talk to it (interface %d; it serves %d and newer)", h.Version, h.PID, h.Home, c.Env.Version, c.Env.API, max(h.Oldest, h.API)).WithHint("use the newer lattice, or end that process first")
}

// handoverWait is how long a command waits for an older leader that has to finish something first.
const handoverWait = 30 * time.Second

// askForLead asks an older leader to hand over. It finishes the current step of each run, and releases its lock.
func (c *Conn) askForLead(ctx context.Context, dial *api.Client, h api.Hello) error {
	req := api.HandoverRequest{API: c.Env.API, Version: c.Env.Version, PID: os.Getpid(), WaitS: handoverWait.Seconds()}
	if c.o.Serve {
		req.WaitS = 0 // it was told to lead: until Ctrl-C
	}
	fmt.Fprintf(c.Env.Err, "lattice: the leader is lattice %s (process %d); asking it to hand over to lattice %s\n", h.Version, h.PID, c.Env.Version)
	handed, err := dial.HandOver(ctx, req)
	var p *fault.Error
	switch {
	case err == nil:
		c.inherit = append(c.inherit, handed.Runs...)
		return nil
	case errors.As(err, &p) && p.Fault.Code != api.CodeLeaderEnding:
		return fault.Busy("leader_version", "lattice %s (process %d) is the leader of %s, is older than this lattice %s and cannot hand over yet: %s", h.Version, h.PID, h.Home, c.Env.Version, p.Fault.Message).WithHint("try again when it is done, or use lattice %s", h.Version)
	case p != nil, errors.Is(err, api.ErrGone):
		return nil // it is ending anyway
	}
	return err
}

// leadState opens the state and serves it on the socket, until end or a hand-over.
func leadState(env *setup.Env, o Options, lock *home.Lock, readOnly string) (*leadership, error) {
	network, err := equip.BuildNetwork(env, o.Network)
	if err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	models := env.Models()
	client, err := models.Client()
	if err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	if _, err := env.ServerPolicy(); err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	var bounds equip.LimitOptions
	bounds.WithSettings(env.Settings)
	cfg := leader.Config{
		Models: client, ModelsOf: models.ClientOf, Credentials: env.Credentials, Secrets: env.SecretSources(), Policy: env.ServerPolicy, Notify: env.Notifications(), Schedules: env.Schedules(), Fleet: func() (fleet.Document, error) { return env.Fleet("") }, FleetEvery: time.Duration(env.Settings.Serve.Fleet), Forges: env.Forges(), ObserveForges: env.CodeHosts().Observe, Publisher: env.CodeHosts().Publisher(), AuthorizeGit: env.CodeHosts().AuthorizeGit, Settings: env.LeaderSettings, Providers: env.Agents().Providers(), Transport: models.Transport,
		Home: home.Home(env.Home), Store: env.StoreAddress(), Version: env.Version, API: env.API, Oldest: env.Oldest, Serving: o.Serve, Self: env.Exe,
		Spritekit: env.Spritekit(o.Spritekit), Path: env.Getenv("PATH"), Tools: equip.ListHostTools(env, env.Paths(env.Settings.Tools)), CheckTool: func(path string) (string, error) { return equip.CheckTool(env, path) }, Shared: equip.FindSharedCaches(env.Console),
		Network: network, Image: env.Expand(env.Settings.Image), Remote: env.RemoteSprites(), Environ: env.Environ, Log: env.Log, LogSecrets: func(secrets func() *redact.Secrets) { env.LogSecrets.Store(&secrets) }, WrapLog: env.WrapLog, Recorded: env.Recorded,
		Name: env.Settings.Git.Name, Email: env.Settings.Git.Email, MinIsolation: spec.Level(bounds.Least), NoRoot: env.Settings.NoRoot, OneUser: env.Settings.OneUser, Box: bounds.Limits(), KeepTurns: env.Settings.Run.KeepTurns,
		Warn: func(message string) { fmt.Fprintf(env.Err, "lattice: %s\n", message) },
	}
	if o.Serve {
		cfg.Boards, cfg.Flows.Folders = env.Boards(), env.Flows()
		cfg.Issues = env.MirroredIssues(cfg.Boards)
	}
	if readOnly == "" {
		if cfg.Engine, err = env.Engine(context.Background()); err != nil {
			return nil, errors.Join(err, lock.Unlock())
		}
	}
	cfg.Flows.Sources = func() (compile.Sources, error) { return sources.ReadAll(env, sources.Options{}) }
	cfg.ReadOnly = readOnly
	cfg.Told.Network, cfg.Told.HostPorts = o.Network.Preset, o.Network.Ports()
	if cfg.Traces, err = trace.Configure(env.Getenv, env.Version); err != nil {
		cfg.Warn(err.Error())
	}
	web, err := listenWeb(o)
	if err != nil && !o.HTTPRequired {
		cfg.Warn(err.Error())
		err = nil
	}
	if err != nil {
		return nil, errors.Join(err, lock.Unlock())
	}
	if web != nil {
		cfg.Told.HTTP, cfg.Lead.URL = web.url, cmp.Or(o.URL, web.url)
	}
	if o.Standby {
		cfg.Lead.Term = term
	}
	l, err := leader.Open(cfg)
	if err != nil {
		return nil, errors.Join(err, web.close(), lock.Unlock())
	}
	socket := home.Home(env.Home).Socket()
	if readOnly != "" {
		socket = filepath.Join(readOnly, leader.SocketName)
	}
	listener, err := listenSocket(socket)
	if err != nil {
		return nil, errors.Join(err, web.close(), l.Close(), lock.Unlock())
	}
	unused := &unusedConns{set: map[net.Conn]bool{}}
	s := &leadership{
		Leader: l, lock: lock, unused: unused, web: web,
		server: &http.Server{Handler: l.Handler(), ReadHeaderTimeout: 10 * time.Second, ConnState: unused.noteState, ConnContext: caller.WithPeer},
		stop:   make(chan struct{}), Ended: make(chan struct{}),
	}
	broken := make(chan struct{})
	s.group.Go(func() error {
		defer close(broken)
		if err := s.server.Serve(patient.Listener(listener)); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve other commands: %w", err)
		}
		return nil
	})
	if web != nil {
		web.serveLeader(l, o)
		web.server.ConnState = unused.noteState // browsers connect ahead of requests
		s.group.Go(web.run)
		s.group.Go(web.runInside)
	}
	go func() { // owned by end
		defer close(s.Ended)
		select {
		case <-s.HandedOver():
		case <-s.stop:
		case <-broken: // a leader that cannot be reached must not keep the lock
		case <-s.Lost():
			defer s.endInTime(env).Stop()
			s.Err = errors.Join(ErrLost, s.shutDown())
			return
		}
		s.Err = s.shutDown()
	}()
	return s, nil
}

// listenSocket makes the socket, readable for its owner alone. The lock is ours, so an old socket is a dead one's.
func listenSocket(path string) (net.Listener, error) {
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

// shutDown stops driving and serving, in that order, and gives the leadership up.
func (s *leadership) shutDown() error {
	err := s.Quiesce() // watchers end with it
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	drop := time.AfterFunc(100*time.Millisecond, s.unused.dropUnused)
	defer drop.Stop()
	if s.web != nil {
		err = errors.Join(err, s.web.shutDown(ctx))
	}
	if s.server.Shutdown(ctx) != nil {
		err = errors.Join(err, s.server.Close())
	}
	return errors.Join(err, s.group.Wait(), s.Close(), s.lock.Unlock())
}

// endLead ends the leadership, if it has not ended by a hand-over, and waits until it is over. It is called once.
func (s *leadership) endLead() error {
	close(s.stop)
	<-s.Ended
	if s.scratch != "" {
		return errors.Join(s.Err, os.RemoveAll(s.scratch))
	}
	return s.Err
}

// Close ends the command's connection. Runs that go on without this command are left to a leader in the background.
func (c *Conn) Close() {
	c.Client.Close()
	if c.Leading == nil {
		return
	}
	var left []api.HandedRun
	if !c.o.Serve {
		ctx, cancel := context.WithTimeout(context.Background(), leaveWait)
		left = c.Leading.Leave(ctx)
		cancel()
	}
	if err := c.Leading.endLead(); err != nil {
		fmt.Fprintf(c.Env.Err, "lattice: %v\n", err)
	}
	c.Leading = nil
	if len(left) > 0 {
		c.leaveRuns(left)
	}
}

// leaveWait is how long a command whose own work is done waits for the steps of runs that go on without it.
const leaveWait = 3 * time.Second

// leaveRuns has runs go on in the background.
func (c *Conn) leaveRuns(left []api.HandedRun) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*connectWait)
	defer cancel()
	c.o.Detach, c.inherit = true, left
	if err := c.Establish(ctx); err != nil {
		for _, r := range left {
			fmt.Fprintf(c.Env.Err, "lattice: %s could not continue in the background: %v\n  try: lattice resume --detach %s\n", r.RunID, err, r.RunID)
		}
		return
	}
	for _, r := range left {
		fmt.Fprintf(c.Env.Err, "%s continues in the background\n", r.RunID)
	}
}

// Warn prints which protection the sandbox lacks, before anything runs in it.
func (c *Conn) Warn(ctx context.Context) error {
	hello, err := c.Hello(ctx)
	if err != nil {
		return err
	}
	if hello.Warning != "" {
		fmt.Fprintf(c.Env.Err, "lattice: warning: %s\n", hello.Warning)
	}
	if stale := c.Env.StaleSettings(hello); len(stale) > 0 {
		ends := "when its command has ended"
		if hello.Serving {
			ends = "after lattice serve --stop"
		}
		fmt.Fprintf(c.Env.Err, "lattice: warning: the leader, process %d, has different settings (%s); yours take effect for sprites created by hand %s\n", hello.PID, strings.Join(stale, ", "), ends)
	}
	return nil
}

// TakeOver finds the next leader, or becomes it, and has it go on with the run.
func (c *Conn) TakeOver(ctx context.Context, v api.RunView) error {
	if c.Leading != nil {
		select {
		case <-c.Leading.HandedOver():
		default:
			return fmt.Errorf("follow %s: %w", v.RunID, io.ErrUnexpectedEOF)
		}
	}
	if err := c.Establish(ctx); err != nil {
		return err
	}
	values, err := c.Env.Values().Renew(v, nil)
	if err != nil {
		return err
	}
	_, err = c.Drive(ctx, v.RunID, api.DriveRequest{Values: values})
	return err
}

// StopDriving stops a run for a user who pressed Ctrl-C; the process is about to end, so errors are only shown.
func (c *Conn) StopDriving(run string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if _, err := c.Stop(ctx, run); err != nil && !errors.Is(err, api.ErrGone) {
		fmt.Fprintf(c.Env.Err, "lattice: stop %s: %v\n", run, err)
	}
}
