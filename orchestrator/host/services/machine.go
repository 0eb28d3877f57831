package services

import (
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/records"
)

// This file is the state machine of a sprite's services: facts go in, commands come out, nothing is executed and no clock is
// read. driver.go executes the commands and reports the results.
//
// A service is wanted unless it was stopped by request. While the sandbox is up, every wanted service is kept running: it
// is started when all that it needs runs, and started again when its process ends by itself, after a pause that grows with
// the number of failures in a row. Attempts are numbered, so that a fact about an earlier one changes nothing.

// serviceStatus is the API's word for how a service stands.
type serviceStatus string

const (
	serviceStopped  serviceStatus = "stopped"
	serviceStarting serviceStatus = "starting" // waits for the services that it needs, or is being started
	serviceRunning  serviceStatus = "running"
	serviceStopping serviceStatus = "stopping"
	serviceFailed   serviceStatus = "failed" // ended by itself, or could not be started; is tried again
)

// Pauses before a service is started again, and how long it must run for its earlier failures to be forgotten.
const (
	firstRestart  = time.Second
	longestPause  = time.Minute
	stableAfter   = 30 * time.Second
	jitterPercent = 20
)

// service is one service as the machine knows it.
type service struct {
	spec     records.Service
	wanted   bool
	status   serviceStatus
	run      int  // number of the present attempt, or of the last one
	live     bool // the attempt has a process, or is about to have one
	pid      int
	started  time.Time
	failures int       // in a row
	restarts int       // since the sandbox came up
	next     time.Time // when it is tried again; zero when nothing is planned
	problem  string
	grace    time.Duration // between TERM and KILL when it is stopped before its process is known
	removed  bool          // to be forgotten when its process has ended
}

// machine is the state of all services of one sprite.
type machine struct {
	up       bool // the sandbox runs
	quitting bool // the sandbox is about to end: nothing is started any more
	services map[string]*service
}

// Facts.
type (
	fact       interface{ isFact() }
	boxStarted struct{}
	boxEnding  struct{ grace time.Duration } // services are to end, those that need others first
	boxEnded   struct{}
	defined    struct{ spec records.Service }
	removed    struct{ name string }
	startAsked struct{ name string } // with all that it needs
	stopAsked  struct {
		name  string
		grace time.Duration // between TERM and KILL
	}
	restartAsked struct {
		name  string
		grace time.Duration
	}
	began struct {
		name string
		run  int
		pid  int
	}
	startFailed struct {
		name  string
		run   int
		cause string
	}
	exited struct {
		name string
		run  int
		code int
	}
	timeUp struct {
		name string
		run  int
		of   timerKind
	}
)

func (boxStarted) isFact()   {}
func (boxEnding) isFact()    {}
func (boxEnded) isFact()     {}
func (defined) isFact()      {}
func (removed) isFact()      {}
func (startAsked) isFact()   {}
func (stopAsked) isFact()    {}
func (restartAsked) isFact() {}
func (began) isFact()        {}
func (startFailed) isFact()  {}
func (exited) isFact()       {}
func (timeUp) isFact()       {}

type timerKind string

const (
	timerRestart timerKind = "restart"
	timerKill    timerKind = "kill"
)

// Commands.
type (
	order interface{ isOrder() }
	spawn struct {
		spec records.Service
		run  int
	}
	signalGroup struct {
		name   string
		run    int
		signal string
	}
	setTimer struct {
		after time.Duration
		fact  timeUp
	}
	say struct {
		name, kind, text string
		code             int // of kind "exit"
	}
)

func (spawn) isOrder()       {}
func (signalGroup) isOrder() {}
func (setTimer) isOrder()    {}
func (say) isOrder()         {}

func newMachine() *machine { return &machine{services: map[string]*service{}} }

// applyFact applies one fact and returns the commands that follow, in order.
func (m *machine) applyFact(now time.Time, f fact) (orders []order) {
	do := func(o ...order) { orders = append(orders, o...) }
	switch f := f.(type) {
	case boxStarted:
		m.up, m.quitting = true, false
	case boxEnding:
		m.quitting = true
		for _, s := range m.services {
			s.grace = f.grace
		}
	case boxEnded:
		m.up = false
		do(m.allGone()...)
	case defined:
		do(m.defineService(f.spec)...)
	case removed:
		if s := m.services[f.name]; s != nil {
			if s.removed = s.live; !s.live {
				delete(m.services, f.name)
				break
			}
			s.wanted = false
			do(s.stopProcess(s.grace)...)
		}
	case startAsked:
		for _, name := range m.withNeeded(f.name) {
			m.services[name].markWanted()
		}
	case stopAsked:
		if s := m.services[f.name]; s != nil {
			s.wanted = false
			do(s.stopProcess(f.grace)...)
		}
	case restartAsked:
		for _, name := range m.withNeeded(f.name) {
			m.services[name].markWanted()
		}
		if s := m.services[f.name]; s != nil {
			do(s.stopProcess(f.grace)...)
		}
	case began:
		if s := m.presentAttempt(f.name, f.run); s != nil {
			s.pid, s.started, s.problem = f.pid, now, ""
			do(say{name: f.name, kind: "started"})
			if s.status == serviceStopping { // a stop was requested before it began
				do(s.endProcess(s.grace)...)
			} else {
				s.status = serviceRunning
			}
		}
	case startFailed:
		if s := m.presentAttempt(f.name, f.run); s != nil {
			do(say{name: f.name, kind: "error", text: f.cause})
			do(m.endAttempt(s, now, f.cause)...)
		}
	case exited:
		if s := m.presentAttempt(f.name, f.run); s != nil {
			do(say{name: f.name, kind: "exit", code: f.code})
			do(m.endAttempt(s, now, fmt.Sprintf("exit code %d", f.code))...)
		}
	case timeUp:
		s := m.services[f.name]
		switch {
		case s == nil || s.run != f.run:
		case f.of == timerRestart && !s.live && !s.next.IsZero():
			s.next = time.Time{}
			s.restarts++
		case f.of == timerKill && s.live && s.status == serviceStopping:
			do(signalGroup{f.name, s.run, "KILL"})
		}
	}
	return append(orders, m.settleServices()...)
}

// presentAttempt returns the service if run is its present attempt.
func (m *machine) presentAttempt(name string, run int) *service {
	if s := m.services[name]; s != nil && s.live && s.run == run {
		return s
	}
	return nil
}

// defineService adds a service, or changes it: a running one is then restarted, unless nothing has changed.
func (m *machine) defineService(spec records.Service) []order {
	s := m.services[spec.Name]
	if s == nil {
		m.services[spec.Name] = &service{spec: spec, wanted: !spec.Stopped, status: serviceStopped, grace: stopGrace}
		return nil
	}
	same := s.spec.Equal(spec)
	s.spec, s.removed = spec, false
	if spec.Stopped {
		s.wanted = false
	} else {
		s.markWanted()
	}
	if same && s.wanted {
		return nil
	}
	return s.stopProcess(stopGrace)
}

// markWanted marks the service as one that is kept running, and forgets its planned restart.
func (s *service) markWanted() {
	s.wanted = true
	s.failures, s.next = 0, time.Time{}
}

// stopProcess ends the service's process, or says that there is none. A service that is still wanted starts again.
func (s *service) stopProcess(grace time.Duration) []order {
	s.next, s.failures, s.grace = time.Time{}, 0, grace
	if !s.live {
		s.status, s.problem = serviceStopped, ""
		if s.wanted {
			return nil
		}
		return []order{say{name: s.spec.Name, kind: "stopped"}}
	}
	if s.status == serviceStopping {
		return s.killLater(grace)
	}
	s.status = serviceStopping
	orders := []order{say{name: s.spec.Name, kind: "stopping"}}
	if s.pid == 0 {
		return orders // ended as soon as it has a process
	}
	return append(orders, s.endProcess(grace)...)
}

func (s *service) endProcess(grace time.Duration) []order {
	if grace <= 0 {
		return []order{signalGroup{s.spec.Name, s.run, "KILL"}}
	}
	return append([]order{signalGroup{s.spec.Name, s.run, "TERM"}}, s.killLater(grace)...)
}

func (s *service) killLater(grace time.Duration) []order {
	return []order{setTimer{grace, timeUp{s.spec.Name, s.run, timerKill}}}
}

// endAttempt takes the end of an attempt: asked for, or a failure after which the service is tried again.
func (m *machine) endAttempt(s *service, now time.Time, cause string) []order {
	asked := s.status == serviceStopping
	s.live, s.pid = false, 0
	switch {
	case s.removed:
		delete(m.services, s.spec.Name)
	case asked:
		s.status, s.problem = serviceStopped, ""
	case !s.wanted, m.quitting:
		s.status, s.problem = serviceStopped, cause
	default:
		if !s.started.IsZero() && now.Sub(s.started) >= stableAfter {
			s.failures = 0
		}
		s.failures++
		pause := backoffDelay(s.spec.Name, s.failures)
		s.status, s.problem, s.started, s.next = serviceFailed, cause, time.Time{}, now.Add(pause)
		return []order{setTimer{pause, timeUp{s.spec.Name, s.run, timerRestart}}}
	}
	s.started = time.Time{}
	return []order{say{name: s.spec.Name, kind: "stopped"}}
}

// backoffDelay returns the pause before the n-th attempt after failures: doubled each time, less a part that is derived from the
// name, so that services that failed together do not come back together.
func backoffDelay(name string, n int) time.Duration {
	pause := longestPause
	if n < 8 {
		pause = min(longestPause, firstRestart<<(n-1))
	}
	h := fnv.New32a()
	h.Write([]byte(name + "/" + strconv.Itoa(n)))
	return pause - pause*time.Duration(h.Sum32()%(jitterPercent+1))/100
}

// allGone is the end of the sandbox: whatever ran has ended with it, and is not held against the services.
func (m *machine) allGone() (orders []order) {
	for _, name := range m.serviceNames() {
		s := m.services[name]
		if s.live {
			orders = append(orders, say{name: name, kind: "stopped"})
		}
		if s.removed {
			delete(m.services, name)
			continue
		}
		*s = service{spec: s.spec, wanted: s.wanted, status: serviceStopped, run: s.run, grace: stopGrace}
	}
	return orders
}

// settleServices starts the wanted services that can run, and when the sandbox is about to end, ends those that nothing needs.
func (m *machine) settleServices() (orders []order) {
	for _, name := range m.serviceNames() {
		s := m.services[name]
		switch {
		case m.quitting:
			s.next = time.Time{}
			if s.live && s.status != serviceStopping && !m.neededByLive(name) {
				orders = append(orders, s.stopProcess(s.grace)...)
			}
		case !m.up || s.live || !s.wanted || !s.next.IsZero():
		default:
			orders = append(orders, m.startAttempt(s)...)
		}
	}
	return orders
}

// startAttempt begins an attempt if all that the service needs runs, else notes in its state which ones it waits for.
func (m *machine) startAttempt(s *service) []order {
	var missing, off []string
	for _, need := range s.spec.Needs {
		if on := m.services[need]; on == nil || !on.wanted {
			off = append(off, need)
		} else if on.status != serviceRunning {
			missing = append(missing, need)
		}
	}
	switch {
	case len(off) > 0:
		s.status, s.problem = serviceStopped, "needs "+strings.Join(off, ", ")+", which was stopped"
		return nil
	case len(missing) > 0:
		s.status, s.problem = serviceStarting, "waits for "+strings.Join(missing, ", ")
		return nil
	}
	s.run++
	s.live, s.status, s.pid, s.problem = true, serviceStarting, 0, ""
	return []order{spawn{s.spec, s.run}}
}

func (m *machine) neededByLive(name string) bool {
	for _, s := range m.services {
		if s.live && slices.Contains(s.spec.Needs, name) {
			return true
		}
	}
	return false
}

// withNeeded names a service and all that it needs, directly or not.
func (m *machine) withNeeded(name string) []string {
	specs := map[string]records.Service{}
	for n, s := range m.services {
		specs[n] = s.spec
	}
	return needsOf(specs, name)
}

func (m *machine) serviceNames() []string { return slices.Sorted(maps.Keys(m.services)) }

// hasProcess reports whether any service has a process.
func (m *machine) hasProcess() bool {
	for _, s := range m.services {
		if s.live {
			return true
		}
	}
	return false
}
