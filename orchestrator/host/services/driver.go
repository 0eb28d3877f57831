package services

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/spritekit/lattice/orchestrator/boltfile"
	"github.com/spritekit/lattice/orchestrator/host/core"
	"github.com/spritekit/lattice/orchestrator/host/program"
	"github.com/spritekit/lattice/orchestrator/host/records"
	"github.com/spritekit/lattice/orchestrator/host/sandbox"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
	"github.com/spritekit/lattice/orchestrator/host/wire"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

const (
	stopGrace = 10 * time.Second // between TERM and KILL, unless a request says otherwise
	endGrace  = 2 * time.Second  // the same when the sandbox ends with the host, a restore or a deletion
	lineWait  = 200 * time.Millisecond
	// startWait is how long a call that causes a start waits for its outcome, which usually takes milliseconds.
	startWait = time.Second
	// maxLeft bounds the pipes of a sprite's services that children of ended processes keep open.
	maxLeft = 64
)

// Set keeps the services of one sprite running while its sandbox is up. It carries out the commands of the machine and tells
// it the results. The sprite owns it: for each box, Up starts its goroutines and Wait waits for them.
type Set struct {
	*core.Core
	id     string          // of the sprite
	exists context.Context // ends when the sprite is deleted

	edits boltfile.Lock // one change of definitions at a time: it is recorded first, then told to the machine

	mu      boltfile.Lock // guards the fields below
	machine *machine
	loaded  bool // the machine knows the definitions
	box     *sandbox.Box
	env     []string                 // of all services of this box
	procs   map[string]*sandbox.Proc // by service, while it is live
	starts  int                      // how many processes are being started
	timers  []timer
	rearm   chan struct{} // told when timers has changed
	changed chan struct{} // closed at the next step
	logs    map[string]*serviceLog
	left    []*os.File      // our ends of pipes that only children hold, the oldest first
	gone    []string        // deleted services whose logs are kept, the first deleted first
	tasks   *sync.WaitGroup // goroutines of this box; nil without one
}

type timer struct {
	at   time.Time
	fact timeUp
}

func NewSet(exists context.Context, c *core.Core, id string) *Set {
	return &Set{
		Core: c, id: id, exists: exists, machine: newMachine(), procs: map[string]*sandbox.Proc{}, logs: map[string]*serviceLog{},
		rearm: make(chan struct{}, 1), changed: make(chan struct{}),
	}
}

// Prepare tells the machine the definitions, unless it knows them.
func (v *Set) Prepare() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.loadDefinitions()
}

// loadDefinitions tells the machine the definitions, once. mu is held.
func (v *Set) loadDefinitions() error {
	if v.loaded {
		return nil
	}
	all, err := v.Store.Services(v.id)
	if err != nil {
		return fmt.Errorf("read the services: %w", err)
	}
	for _, spec := range sortedServices(all) {
		v.stepMachine(defined{spec})
	}
	v.loaded = true
	return nil
}

// Up starts the services in a box that has just started.
func (v *Set) Up(box *sandbox.Box, env []string) error {
	v.Wait() // the box before it has, or it would not have been replaced
	if err := v.beginBox(box, env); err != nil {
		return err
	}
	v.awaitStarts()
	return nil
}

func (v *Set) beginBox(box *sandbox.Box, env []string) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if err := v.loadDefinitions(); err != nil {
		return err
	}
	v.box, v.env, v.tasks = box, env, new(sync.WaitGroup)
	v.tasks.Go(func() { v.fireTimers(box) })
	v.stepMachine(boxStarted{})
	return nil
}

// awaitStarts waits until no process is being started, at most as long as a sandbox that answers takes.
func (v *Set) awaitStarts() {
	late := time.NewTimer(startWait)
	defer late.Stop()
	for {
		v.mu.Lock()
		over, changed := v.starts == 0, v.changed
		v.mu.Unlock()
		if over {
			return
		}
		select {
		case <-changed:
		case <-late.C:
			return
		}
	}
}

// Quit ends the services in good order, as far as they do so in time. The box is about to be stopped.
func (v *Set) Quit() {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.box == nil {
		return
	}
	v.stepMachine(boxEnding{endGrace})
	patience := time.NewTimer(2 * endGrace)
	defer patience.Stop()
	for v.machine.hasProcess() {
		changed := v.changed
		v.mu.Unlock()
		over := false
		select {
		case <-changed:
		case <-v.box.Done():
			over = true
		case <-patience.C:
			over = true
		}
		v.mu.Lock()
		if over {
			return
		}
	}
}

// Wait waits until all goroutines of the box are gone, which must be about to end.
func (v *Set) Wait() {
	v.mu.Lock()
	tasks := v.tasks
	v.mu.Unlock()
	if tasks == nil {
		return
	}
	tasks.Wait()
	v.mu.Lock()
	defer v.mu.Unlock()
	v.box, v.tasks = nil, nil
	for _, l := range v.logs {
		l.close()
	}
}

// tellMachine passes a fact to the machine, and waits for the processes that start because of it.
func (v *Set) tellMachine(f fact) {
	v.mu.Lock()
	v.stepMachine(f)
	v.mu.Unlock()
	v.awaitStarts()
}

// stepMachine takes in a fact and all that follows from it at once. mu is held.
func (v *Set) stepMachine(f fact) {
	for facts := []fact{f}; len(facts) > 0; facts = facts[1:] {
		for _, o := range v.machine.applyFact(v.Clock(), facts[0]) {
			if came := v.carryOut(o); came != nil {
				facts = append(facts, came)
			}
		}
	}
	close(v.changed)
	v.changed = make(chan struct{})
}

// carryOut executes one command and returns its result as a fact, nil when that is not known yet. mu is held.
func (v *Set) carryOut(o order) fact {
	switch o := o.(type) {
	case spawn:
		return v.spawnProcess(o)
	case signalGroup:
		if p := v.procs[o.name]; p != nil {
			if err := p.Signal(o.signal); err != nil {
				v.Config.Log.Debug().Err(err).Str("service", o.name).Msg("signal a service") // its box is gone
			}
		}
	case setTimer:
		v.timers = append(v.timers, timer{v.Clock().Add(o.after), o.fact})
		select {
		case v.rearm <- struct{}{}:
		default:
		}
	case say:
		e := sprites.ServiceEvent{Type: o.kind, Data: o.text}
		if o.kind == "exit" {
			e.ExitCode = &o.code
		}
		v.logOf(o.name).addEvent(e)
	}
	return nil
}

// logOf returns the log of a service, which may exist no more. mu is held.
func (v *Set) logOf(name string) *serviceLog {
	l := v.logs[name]
	if l == nil {
		l = newServiceLog(v.LogPath(v.id, name), v.Now)
		v.logs[name] = l
	}
	return l
}

// retireLog closes the log of a deleted service and keeps its files. Beyond a limit it removes the oldest such log: a sprite may make and
// delete any number of services.
func (v *Set) retireLog(name string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.logOf(name).close()
	v.gone = append(slices.DeleteFunc(v.gone, func(known string) bool { return known == name }), name)
	for len(v.gone) > maxServices {
		oldest := v.gone[0]
		v.gone = v.gone[1:]
		if v.machine.services[oldest] != nil {
			continue // it was made again
		}
		if err := v.logOf(oldest).removeFiles(); err != nil {
			v.Config.Log.Warn().Err(err).Str("service", oldest).Msg("remove the log of a deleted service")
		}
		delete(v.logs, oldest)
	}
}

// spawnProcess starts a service's process. It asks the sandbox without the lock: a sandbox that is frozen, or does not answer, must not
// block calls that list the services or stop them.
func (v *Set) spawnProcess(o spawn) fact {
	if v.box == nil {
		return v.noteFailure(o, errors.New("the sandbox is not up"))
	}
	service := o.spec
	p := spec.Process{Program: service.Cmd, Argv: append([]string{service.Cmd}, service.Args...), Dir: service.Dir, Whole: true}
	p.Dir = cmp.Or(p.Dir, program.DefaultDir)
	p.Env = program.MergeEnv(v.env, program.EnvOf(service.Env))
	var outputs [2]*os.File // our ends of stdout and stderr
	for i, to := range []**os.File{&p.Stdout, &p.Stderr} {
		r, w, err := os.Pipe()
		if err != nil {
			closeFiles(outputs[0], p.Stdout)
			return v.noteFailure(o, fmt.Errorf("make a pipe: %w", err))
		}
		outputs[i], *to = r, w
	}
	box := v.box
	v.starts++
	v.tasks.Go(func() {
		proc, err := box.Exec(p)
		closeFiles(p.Stdout, p.Stderr)
		v.mu.Lock()
		defer v.mu.Unlock()
		v.starts--
		v.stepMachine(v.noteStart(o, proc, err, outputs))
	})
	return nil
}

// noteStart follows a process that has started, and returns the outcome of the start as a fact. mu is held.
func (v *Set) noteStart(o spawn, proc *sandbox.Proc, err error, outputs [2]*os.File) fact {
	name := o.spec.Name
	if err != nil {
		closeFiles(outputs[:]...)
		return v.noteFailure(o, err)
	}
	if v.machine.presentAttempt(name, o.run) != nil {
		v.procs[name] = proc
		v.attendProcess(name, o.run, proc, v.logOf(name), outputs)
	} else { // the sandbox has ended in between
		closeFiles(outputs[:]...)
	}
	return began{name, o.run, proc.PID}
}

// noteFailure logs why a process could not be started. mu is held.
func (v *Set) noteFailure(o spawn, err error) fact {
	v.logOf(o.spec.Name).addOutput("stderr", [][]byte{[]byte(err.Error() + "\n")})
	return startFailed{o.spec.Name, o.run, err.Error()}
}

func closeFiles(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			f.Close()
		}
	}
}

// attendProcess reads the output of the process and tells the machine of its exit, after all of its output.
func (v *Set) attendProcess(name string, run int, proc *sandbox.Proc, log *serviceLog, outputs [2]*os.File) {
	over := make(chan struct{}) // closed at the exit
	var read sync.WaitGroup     // the output until the exit
	for i, stream := range []string{"stdout", "stderr"} {
		read.Add(1)
		p := pump{stream, log, outputs[i], over, v.box.Done()}
		v.tasks.Go(func() {
			v.awaitStep() // it says that the service has started, which comes before all that the service says
			p.run(sync.OnceFunc(func() {
				v.leavePipe(p.from)
				read.Done()
			}))
			v.forgetPipe(p.from)
		})
	}
	v.tasks.Go(func() {
		code, err := proc.Wait()
		close(over)
		for _, f := range outputs {
			_ = f.SetReadDeadline(time.Now()) // it fails on a pipe that has been read to its end
		}
		read.Wait()
		if err != nil {
			return // the box has ended, which follow tells
		}
		v.mu.Lock()
		defer v.mu.Unlock()
		if v.procs[name] == proc {
			delete(v.procs, name)
		}
		v.stepMachine(exited{name, run, code})
	})
}

// fireTimers fires timers until the box has ended, and says so to the machine.
func (v *Set) fireTimers(box *sandbox.Box) {
	alarm := time.NewTimer(time.Hour)
	defer alarm.Stop()
	for {
		v.mu.Lock()
		alarm.Reset(v.fireDue())
		v.mu.Unlock()
		select {
		case <-alarm.C:
		case <-v.rearm:
		case <-box.Done():
			v.mu.Lock()
			defer v.mu.Unlock()
			v.timers = nil
			clear(v.procs)
			v.stepMachine(boxEnded{})
			return
		}
	}
}

// fireDue tells of the timers that are due, and returns how long the next one has to go. mu is held.
func (v *Set) fireDue() time.Duration {
	now := v.Clock()
	var due []timeUp
	v.timers = slices.DeleteFunc(v.timers, func(t timer) bool {
		if t.at.After(now) {
			return false
		}
		due = append(due, t.fact)
		return true
	})
	for _, f := range due {
		v.stepMachine(f)
	}
	next := time.Hour
	for _, t := range v.timers {
		next = min(next, t.at.Sub(now))
	}
	return max(next, 0)
}

// describeService describes a service as the API does. mu is held.
func (s *service) describeService() sprites.Service {
	state := sprites.ServiceState{Name: s.spec.Name, Status: string(s.status), PID: s.pid, Error: s.problem, RestartCount: s.restarts}
	if !s.started.IsZero() {
		at := s.started.UTC()
		state.StartedAt = &at
	}
	if !s.next.IsZero() {
		at := s.next.UTC()
		state.NextRestartAt = &at
	}
	return sprites.Service{
		Name: s.spec.Name, Cmd: s.spec.Cmd, Args: s.spec.Args, Env: s.spec.Env, Dir: s.spec.Dir, Needs: s.spec.Needs, HTTPPort: s.spec.HTTPPort,
		State: &state,
	}
}

// List describes all services, in the order of their names.
func (v *Set) List() []sprites.Service {
	v.mu.Lock()
	defer v.mu.Unlock()
	all := []sprites.Service{}
	for _, name := range v.machine.serviceNames() {
		all = append(all, v.machine.services[name].describeService())
	}
	return all
}

// copyState returns a copy of a service's state.
func (v *Set) copyState(name string) (service, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	s := v.machine.services[name]
	if s == nil {
		return service{}, noService(name)
	}
	return *s, nil
}

func noService(name string) error {
	return wire.Refuse(http.StatusNotFound, errNoService.Error()+": "+name, "")
}

// Web describes the service of a sprite that has an HTTP port.
type Web struct {
	Name, Status, Problem string
	Wanted                bool // it is kept running
}

// Web returns the service that has an HTTP port, nil when there is none.
func (v *Set) Web() *Web {
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, s := range v.machine.services {
		if s.spec.HTTPPort != 0 {
			return &Web{Name: s.spec.Name, Status: string(s.status), Problem: s.problem, Wanted: s.wanted}
		}
	}
	return nil
}

func sortedServices(all map[string]records.Service) []records.Service {
	return slices.SortedFunc(maps.Values(all), func(a, b records.Service) int { return cmp.Compare(a.Name, b.Name) })
}
