package services

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spritekit/lattice/orchestrator/host/records"
	"pgregory.net/rapid"
)

// play feeds facts to a machine, one second apart, and returns what it commands, a word each.
func play(m *machine, facts ...fact) (said []string) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i, f := range facts {
		for _, o := range m.applyFact(now.Add(time.Duration(i)*time.Second), f) {
			said = append(said, word(o))
		}
	}
	return said
}

func word(o order) string {
	switch o := o.(type) {
	case spawn:
		return fmt.Sprintf("spawn %s#%d", o.spec.Name, o.run)
	case signalGroup:
		return fmt.Sprintf("%s %s#%d", o.signal, o.name, o.run)
	case setTimer:
		return fmt.Sprintf("timer %s %s#%d", o.fact.of, o.fact.name, o.fact.run)
	case say:
		return strings.TrimSpace(fmt.Sprintf("%s: %s %s", o.name, o.kind, o.text))
	}
	return "?"
}

func newService(name string, needs ...string) defined {
	return defined{records.Service{Name: name, Cmd: "x", Needs: needs}}
}

func TestMachine(t *testing.T) {
	for name, c := range map[string]struct {
		facts []fact
		want  []string
		state map[string]serviceStatus
	}{
		"nothing starts before the sandbox": {
			[]fact{newService("a")}, nil, map[string]serviceStatus{"a": serviceStopped}},
		"needs start first, each when those before it run": {
			[]fact{newService("db"), newService("api", "db"), newService("web", "api"), boxStarted{}, began{"db", 1, 10}, began{"api", 1, 11}, began{"web", 1, 12}},
			[]string{"spawn db#1", "db: started", "spawn api#1", "api: started", "spawn web#1", "web: started"},
			map[string]serviceStatus{"db": serviceRunning, "api": serviceRunning, "web": serviceRunning}},
		"one that waits says for what": {
			[]fact{newService("db"), newService("api", "db"), boxStarted{}},
			[]string{"spawn db#1"}, map[string]serviceStatus{"db": serviceStarting, "api": serviceStarting}},
		"an end of its own is a crash, whatever the code": {
			[]fact{newService("a"), boxStarted{}, began{"a", 1, 10}, exited{"a", 1, 0}, timeUp{"a", 1, timerRestart}, began{"a", 2, 11}},
			[]string{"spawn a#1", "a: started", "a: exit", "timer restart a#1", "spawn a#2", "a: started"},
			map[string]serviceStatus{"a": serviceRunning}},
		"a program that is not there is tried again, too": {
			[]fact{newService("a"), boxStarted{}, startFailed{"a", 1, "no such file"}, timeUp{"a", 1, timerRestart}},
			[]string{"spawn a#1", "a: error no such file", "timer restart a#1", "spawn a#2"},
			map[string]serviceStatus{"a": serviceStarting}},
		"a stop is TERM, then KILL, and sticks": {
			[]fact{newService("a"), boxStarted{}, began{"a", 1, 10}, stopAsked{"a", time.Second}, timeUp{"a", 1, timerKill}, exited{"a", 1, 137}, boxEnded{}, boxStarted{}},
			[]string{"spawn a#1", "a: started", "a: stopping", "TERM a#1", "timer kill a#1", "KILL a#1", "a: exit", "a: stopped"},
			map[string]serviceStatus{"a": serviceStopped}},
		"a stop without patience is KILL": {
			[]fact{newService("a"), boxStarted{}, began{"a", 1, 10}, stopAsked{"a", 0}},
			[]string{"spawn a#1", "a: started", "a: stopping", "KILL a#1"}, map[string]serviceStatus{"a": serviceStopping}},
		"a stop between attempts ends them": {
			[]fact{newService("a"), boxStarted{}, began{"a", 1, 10}, exited{"a", 1, 1}, stopAsked{"a", 0}, timeUp{"a", 1, timerRestart}},
			[]string{"spawn a#1", "a: started", "a: exit", "timer restart a#1", "a: stopped"}, map[string]serviceStatus{"a": serviceStopped}},
		"a stop before the process is known": {
			[]fact{newService("a"), boxStarted{}, stopAsked{"a", time.Second}, began{"a", 1, 10}, exited{"a", 1, 143}},
			[]string{"spawn a#1", "a: stopping", "a: started", "TERM a#1", "timer kill a#1", "a: exit", "a: stopped"}, map[string]serviceStatus{"a": serviceStopped}},
		"a restart is a stop and a start": {
			[]fact{newService("a"), boxStarted{}, began{"a", 1, 10}, restartAsked{"a", time.Second}, exited{"a", 1, 143}, began{"a", 2, 11}},
			[]string{"spawn a#1", "a: started", "a: stopping", "TERM a#1", "timer kill a#1", "a: exit", "a: stopped", "spawn a#2", "a: started"},
			map[string]serviceStatus{"a": serviceRunning}},
		"a start asks for all that is needed": {
			[]fact{defined{records.Service{Name: "db", Cmd: "x", Stopped: true}}, newService("api", "db"), boxStarted{}, startAsked{"api"}, began{"db", 1, 10}},
			[]string{"spawn db#1", "db: started", "spawn api#1"}, map[string]serviceStatus{"db": serviceRunning, "api": serviceStarting}},
		"what needs a stopped one is stopped": {
			[]fact{defined{records.Service{Name: "db", Cmd: "x", Stopped: true}}, newService("api", "db"), boxStarted{}},
			nil, map[string]serviceStatus{"db": serviceStopped, "api": serviceStopped}},
		"a changed one starts anew, an unchanged one goes on": {
			[]fact{newService("a"), boxStarted{}, began{"a", 1, 10}, newService("a"), defined{records.Service{Name: "a", Cmd: "y"}}, exited{"a", 1, 143}},
			[]string{"spawn a#1", "a: started", "a: stopping", "TERM a#1", "timer kill a#1", "a: exit", "a: stopped", "spawn a#2"},
			map[string]serviceStatus{"a": serviceStarting}},
		"the sandbox ends: nobody has crashed, all come back": {
			[]fact{newService("a"), boxStarted{}, began{"a", 1, 10}, boxEnded{}, exited{"a", 1, 137}, timeUp{"a", 1, timerRestart}, boxStarted{}},
			[]string{"spawn a#1", "a: started", "a: stopped", "spawn a#2"}, map[string]serviceStatus{"a": serviceStarting}},
		"in good order: those that need others end first": {
			[]fact{newService("db"), newService("api", "db"), boxStarted{}, began{"db", 1, 10}, began{"api", 1, 11}, boxEnding{time.Second}, exited{"api", 1, 143}, exited{"db", 1, 143}},
			[]string{"spawn db#1", "db: started", "spawn api#1", "api: started", "api: stopping", "TERM api#1", "timer kill api#1", "api: exit", "api: stopped",
				"db: stopping", "TERM db#1", "timer kill db#1", "db: exit", "db: stopped"},
			map[string]serviceStatus{"db": serviceStopped, "api": serviceStopped}},
		"one that is removed while it runs": {
			[]fact{newService("a"), boxStarted{}, began{"a", 1, 10}, removed{"a"}, exited{"a", 1, 143}},
			[]string{"spawn a#1", "a: started", "a: stopping", "TERM a#1", "timer kill a#1", "a: exit", "a: stopped"}, map[string]serviceStatus{}},
		"facts about an earlier attempt say nothing": {
			[]fact{newService("a"), boxStarted{}, began{"a", 1, 10}, exited{"a", 1, 1}, timeUp{"a", 1, timerRestart}, began{"a", 2, 11}, exited{"a", 1, 1}, timeUp{"a", 1, timerKill}, timeUp{"a", 1, timerRestart}},
			[]string{"spawn a#1", "a: started", "a: exit", "timer restart a#1", "spawn a#2", "a: started"}, map[string]serviceStatus{"a": serviceRunning}},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMachine()
			if diff := cmp.Diff(c.want, play(m, c.facts...)); diff != "" {
				t.Error(diff)
			}
			state := map[string]serviceStatus{}
			for name, s := range m.services {
				state[name] = s.status
			}
			if diff := cmp.Diff(c.state, state); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestBackoffGrowsAndIsForgotten(t *testing.T) {
	before := time.Duration(0)
	for n := 1; n <= 30; n++ {
		pause := backoffDelay("a", n)
		if pause > longestPause || pause < firstRestart*8/10 || pause < before*8/10 || pause != backoffDelay("a", n) {
			t.Errorf("backoff(%d) = %v after %v", n, pause, before)
		}
		before = pause
	}
	m, now := newMachine(), time.Now()
	fail := func(after time.Duration) int {
		s := m.services["a"]
		m.applyFact(now, began{"a", s.run, 1})
		now = now.Add(after)
		m.applyFact(now, exited{"a", s.run, 1})
		m.applyFact(now, timeUp{"a", s.run, timerRestart})
		return s.failures
	}
	m.applyFact(now, newService("a"))
	m.applyFact(now, boxStarted{})
	got := []int{fail(0), fail(time.Second), fail(stableAfter - 1), fail(stableAfter), fail(0)}
	if diff := cmp.Diff([]int{1, 2, 3, 1, 2}, got); diff != "" {
		t.Error(diff)
	}
	if n := m.services["a"].restarts; n != 5 {
		t.Errorf("restarts = %d, want 5", n)
	}
}

// Whatever happens in whatever order, no service has two processes, none runs that was stopped, none starts before what it
// needs, and every one that is wanted is running, on its way, or says why not.
func TestMachineKeepsItsPromises(t *testing.T) {
	names := []string{"a", "b", "c", "d"}
	rapid.Check(t, func(t *rapid.T) {
		m, now := newMachine(), time.Unix(0, 0)
		alive := map[string]int{} // the world: run of each process
		up := false
		apply := func(f fact) {
			for queue := []fact{f}; len(queue) > 0; queue = queue[1:] {
				now = now.Add(time.Millisecond)
				for _, o := range m.applyFact(now, queue[0]) {
					switch o := o.(type) {
					case spawn:
						if !up || alive[o.spec.Name] != 0 {
							t.Fatalf("%s is started while up=%t and run %d lives", o.spec.Name, up, alive[o.spec.Name])
						}
						for _, need := range o.spec.Needs {
							if alive[need] == 0 {
								t.Fatalf("%s is started before %s", o.spec.Name, need)
							}
						}
						if rapid.Bool().Draw(t, "starts") {
							alive[o.spec.Name] = o.run
							queue = append(queue, began{o.spec.Name, o.run, 1})
						} else {
							queue = append(queue, startFailed{o.spec.Name, o.run, "no"})
						}
					case signalGroup:
						if alive[o.name] != o.run {
							t.Fatalf("%s is sent to run %d of %s, alive is %d", o.signal, o.run, o.name, alive[o.name])
						}
						if o.signal == "KILL" || rapid.Bool().Draw(t, "obeys") {
							delete(alive, o.name)
							queue = append(queue, exited{o.name, o.run, 143})
						}
					}
				}
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"": func(t *rapid.T) {
				for name, s := range m.services {
					if s.live != (alive[name] != 0) || s.live && s.run != alive[name] {
						t.Fatalf("%s: live=%t run=%d, the world has %d", name, s.live, s.run, alive[name])
					}
					if s.live && !s.wanted && s.status != serviceStopping {
						t.Fatalf("%s was stopped and is %s", name, s.status)
					}
					if s.wanted && up && !m.quitting && !s.live && s.next.IsZero() && s.problem == "" {
						t.Fatalf("%s is wanted, idle, and does not say why: %+v", name, s)
					}
				}
			},
			"define": func(t *rapid.T) {
				i := rapid.IntRange(0, 3).Draw(t, "i")
				var needs []string
				for _, n := range names[:i] {
					if m.services[n] != nil && rapid.Bool().Draw(t, n) {
						needs = append(needs, n)
					}
				}
				apply(defined{records.Service{Name: names[i], Cmd: rapid.SampledFrom([]string{"x", "y"}).Draw(t, "cmd"), Needs: needs, Stopped: rapid.Bool().Draw(t, "stopped")}})
			},
			"boot": func(t *rapid.T) {
				if !up {
					up = true
					apply(boxStarted{})
				}
			},
			"end": func(t *rapid.T) {
				if up {
					up = false
					clear(alive)
					apply(boxEnded{})
				}
			},
			"quit":    func(t *rapid.T) { apply(boxEnding{time.Second}) },
			"start":   func(t *rapid.T) { apply(startAsked{rapid.SampledFrom(names).Draw(t, "n")}) },
			"stop":    func(t *rapid.T) { apply(stopAsked{rapid.SampledFrom(names).Draw(t, "n"), time.Second}) },
			"restart": func(t *rapid.T) { apply(restartAsked{rapid.SampledFrom(names).Draw(t, "n"), time.Second}) },
			"remove": func(t *rapid.T) {
				n := rapid.SampledFrom(names).Draw(t, "n")
				if !slices.ContainsFunc(m.serviceNames(), func(o string) bool { return slices.Contains(m.services[o].spec.Needs, n) }) {
					apply(removed{n})
				}
			},
			"crash": func(t *rapid.T) {
				n := rapid.SampledFrom(names).Draw(t, "n")
				if run := alive[n]; run != 0 {
					delete(alive, n)
					apply(exited{n, run, rapid.IntRange(0, 1).Draw(t, "code")})
				}
			},
			"time": func(t *rapid.T) {
				n := rapid.SampledFrom(names).Draw(t, "n")
				run := 0
				if s := m.services[n]; s != nil {
					run = s.run - rapid.IntRange(0, 1).Draw(t, "old")
				}
				apply(timeUp{n, run, rapid.SampledFrom([]timerKind{timerRestart, timerKill}).Draw(t, "of")})
			},
		})
	})
}
