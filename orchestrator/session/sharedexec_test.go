package session_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/engine/driver"
	"github.com/spritekit/lattice/orchestrator/engine/replay"
	"github.com/spritekit/lattice/orchestrator/ir/check"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/session"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/orchestrator/sprites/spritestest"
)

// numbered is a call with an id of its own.
func numbered(n int, class manifests.Class, name, input string) lattice.Call {
	c := skill(class, name, input)
	c.ID = fmt.Sprint("call-", n)
	return c
}

func all(*http.Request) bool { return true }

// TestRequestsOnTheWire: calls between boundaries share one exec; what is on the wire besides are the checkpoints that
// policy owes, one end of a stream, and at most three more.
func TestRequestsOnTheWire(t *testing.T) {
	const n = 12
	for _, tt := range []struct {
		name        string
		call        func(i int) lattice.Call
		checkpoints int
		execs       int
	}{
		{"reads", func(i int) lattice.Call { return numbered(i, manifests.ClassRead, "fs.read", `{"path":"a"}`) }, 0, 1},
		{"writes with a boundary before each", func(i int) lattice.Call {
			return numbered(i, manifests.ClassSprite, "fs.write", fmt.Sprintf(`{"path":"f%d","content":"x"}`, i))
		}, n, 1},
		{"what others dropped in", func(i int) lattice.Call { return numbered(i, manifests.ClassRead, "third.party", `{"do":"good"}`) }, 0, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.sh("echo one >/workspace/a")
			w.man.Do(spritestest.Fault{On: spritestest.Exec, Times: -1, Down: late, Up: late})
			before, execs := w.man.Count(all), w.man.Count(spritestest.Exec)
			for i := range n {
				if tt.checkpoints > 0 {
					if _, err := w.session.Checkpoint(t.Context(), "s"); err != nil {
						t.Fatal(err)
					}
				}
				if out, _ := w.must(tt.call(i)); out.Failure != "" || !out.Result.OK {
					t.Fatalf("call %d = %+v", i, out)
				}
			}
			w.session.Rest(t.Context(), "s")
			if got := w.man.Count(spritestest.Exec) - execs; got != tt.execs {
				t.Errorf("%d execs, want %d", got, tt.execs)
			}
			if got := w.man.Count(all) - before; got > n+tt.checkpoints+3 {
				t.Errorf("%d requests for %d calls and %d checkpoints", got, n, tt.checkpoints)
			}
			if tt.name == "reads" {
				if got := w.man.Count(all) - before; got > 2 {
					t.Errorf("%d requests for %d calls that only read, want the exec and little else", got, n)
				}
			}
		})
	}
}

// late is a link on which every message takes its time: who asks twice because an answer is not there yet is counted.
func late(f spritestest.Frame, send func(spritestest.Frame)) bool {
	time.Sleep(10 * time.Millisecond)
	send(f)
	return true
}

// quiet is a host that does not say that its checkpoints leave commands undisturbed.
type quiet struct{ session.Host }

// TestBoundaryEndsSharedExec: on such a host nothing serves calls while a checkpoint is taken, and still an exec per stretch
// between boundaries is enough, whatever it is that runs.
func TestBoundaryEndsSharedExec(t *testing.T) {
	w := newWorld(t)
	w.session.Close()
	w.session = session.New(quiet{w.client}, session.Options{Log: zerolog.Nop()})
	before, execs := w.man.Count(all), w.man.Count(spritestest.Exec)
	const stretches = 4
	for i := range stretches {
		if _, err := w.session.Checkpoint(t.Context(), "s"); err != nil {
			t.Fatal(err)
		}
		if running, err := w.client.Sessions(t.Context(), "s"); err != nil || len(running) > 0 {
			t.Errorf("at the boundary %d commands run (%v)", len(running), err)
		}
		w.must(numbered(3*i, manifests.ClassSprite, "fs.write", `{"path":"a","content":"x"}`))
		w.must(numbered(3*i+1, manifests.ClassRead, "fs.read", `{"path":"a"}`))
		w.must(numbered(3*i+2, manifests.ClassRead, "fs.read", `{"path":"a"}`))
	}
	if got := w.man.Count(spritestest.Exec) - execs; got != stretches {
		t.Errorf("%d execs for %d stretches", got, stretches)
	}
	if got := w.man.Count(all) - before - stretches; got > 3*stretches+stretches+3 { // the listings are the test's own
		t.Errorf("%d requests for %d calls and %d checkpoints", got, 3*stretches, stretches)
	}
}

// journal is a run's log, and what else a runner needs of the world.
type journal struct {
	*world
	mu     sync.Mutex // guards the fields below
	known  map[string]bool
	facts  []string
	events []string
	last   lattice.Seq
}

func (j *journal) Append(_ context.Context, _ string, _ lattice.Seq, entries []lattice.Entry) (lattice.Seq, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for i := range entries {
		key := entries[i].Dedupe
		if key != "" && j.known[key] {
			continue
		}
		j.known[key] = true
		j.last++
		entries[i].Seq = j.last
		switch e := entries[i]; e.Kind {
		case lattice.EntryFact:
			// Whether the disk was done when a checkpoint was answered is its own affair.
			body := strings.Replace(string(e.Body), `"durable":true`, `"durable":false`, 1)
			j.facts = append(j.facts, e.Type+" "+body)
		case lattice.EntryEvent:
			j.events = append(j.events, e.Type)
		}
	}
	return j.last, nil
}

// Call notes that the id was given out.
func (j *journal) Call(ctx context.Context, c lattice.Call, event func(lattice.Event)) (lattice.Outcome, error) {
	j.issued[c.ID] = true
	return j.session.Call(ctx, c, event)
}

func (j *journal) Prepare(context.Context, string, string) (map[string]any, error) { return nil, nil }

func (j *journal) Inspect(_ context.Context, _ lattice.Call, a lattice.Action) (lattice.Action, lattice.Verdict, string, error) {
	return a, lattice.Deny, "no", nil
}

func (j *journal) Do(context.Context, lattice.Action) ([]byte, error) { return nil, nil }

// drive runs a document in a sprite and returns its journal.
func drive(t *testing.T, skills, doc string) *journal {
	t.Helper()
	w := newWorldOf(t, skills)
	w.sh("mkdir -p /workspace && echo one >/workspace/a")
	third := manifests.Skill{Name: "third.party", SideEffect: manifests.ClassIdempotent, TimeoutS: 60, Permissions: []string{"fs:read"},
		Inputs: []manifests.Field{{Name: "do", Type: "string"}}}
	program, findings := check.Parse([]byte(doc), func(name string) (manifests.Skill, bool) {
		if name == third.Name || name == "third.missing" {
			third := third
			third.Name = name
			return third, true
		}
		return manifests.Lookup(name)
	})
	if program == nil {
		t.Fatal(findings)
	}
	j := &journal{world: w, known: map[string]bool{}}
	r, err := driver.Load(driver.Deps{
		Log: j, Caller: j, Boundary: w.session, Preparer: j, Actor: j, Now: time.Now, After: time.After,
	}, program, "run_1", []byte("secret"), replay.History{})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Begin(t.Context(), lattice.RunStarted{RunID: "run_1", WorkItem: "w", Program: program.Digest, Sprite: "s", Grants: []string{"*"}}); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	return j
}

// flow is a chain of calls, each of which may fail.
func flow(t *testing.T, calls ...string) string {
	t.Helper()
	var nodes, edges []string
	for i, call := range calls {
		tool, args, _ := strings.Cut(call, " ")
		next := fmt.Sprintf("n%d", i+1)
		if i == len(calls)-1 {
			next = "end"
		}
		nodes = append(nodes, fmt.Sprintf(`{"id":"n%d","op":"TOOL_CALL","tool":%q,"args":%s,"outputs":{"result":"$vars.r%d"},"catch":[{"on":["ALL"],"to":%q}]}`, i, tool, args, i, next))
		edges = append(edges, fmt.Sprintf(`{"from":"n%d","to":%q}`, i, next))
	}
	nodes = append(nodes, `{"id":"end","op":"PACK","inputs":{"done":true},"outputs":{"result":"$vars.end"}}`)
	return fmt.Sprintf(`{"execir_version":"1.0","entry_node":"n0","nodes":[%s],"edges":[%s]}`, strings.Join(nodes, ","), strings.Join(edges, ","))
}

// TestBothWaysTellTheSame: a run's journal is the same, byte for byte, whether its calls share an exec or each has one of
// its own, and so are the kinds of its events.
func TestBothWaysTellTheSame(t *testing.T) {
	reads := `{"execir_version":"1.0","entry_node":"each","nodes":[{"id":"each","op":"MAP","items":[1,2,3,4],"max_items":4,"concurrency":1,"outputs":{"result":"$vars.r"},
		"body":{"entry_node":"b","nodes":[{"id":"b","op":"TOOL_CALL","tool":"fs.read","args":{"path":"a"},"outputs":{"result":"$tmp.out"}}],"edges":[]}}],"edges":[]}`
	for name, doc := range map[string]string{
		"ours": flow(t, `fs.write {"path":"b","content":"x"}`, `fs.read {"path":"b"}`, `fs.read {"path":"none"}`,
			`fs.write {"path":"c","content":"y"}`, `fs.write {"path":"d","content":"z"}`, `fs.read {"path":"../.."}`),
		"others": flow(t, `third.party {"do":"good"}`, `third.party {"do":"bad"}`, `third.party {"do":"mute"}`, `third.party {"do":"lies"}`,
			`third.party {"do":"killed"}`, `third.missing {"do":"x"}`, `fs.read {"path":"a"}`, `third.party {"do":"waits"}`),
		"many": reads,
	} {
		t.Run(name, func(t *testing.T) {
			shared, single := drive(t, skillsDir, doc), drive(t, oldSkills, doc)
			if diff := cmp.Diff(single.facts, shared.facts); diff != "" {
				t.Errorf("journals differ (-exec per call +session):\n%s", diff)
			}
			if diff := cmp.Diff(single.events, shared.events); diff != "" {
				t.Errorf("events differ (-exec per call +session):\n%s", diff)
			}
			if len(shared.facts) < 6 {
				t.Errorf("the run came to %d facts", len(shared.facts))
			}
		})
	}
}

// TestOldSpritekit: a sprite whose spritekit serves no sessions is asked once.
func TestOldSpritekit(t *testing.T) {
	w := newWorldOf(t, oldSkills)
	w.sh("echo one >/workspace/a")
	before := w.man.Count(spritestest.Exec)
	const n = 5
	for i := range n {
		if out, _ := w.must(numbered(i, manifests.ClassRead, "fs.read", `{"path":"a"}`)); !out.Result.OK {
			t.Errorf("call %d = %+v", i, out)
		}
	}
	if got := w.man.Count(spritestest.Exec) - before; got != n+1 {
		t.Errorf("%d execs for %d calls, want one more", got, n)
	}
}

// sharedProcess finds the process that serves calls, as the host lists it.
func (w *world) sharedProcess() sprites.Session {
	w.t.Helper()
	running, err := w.client.Sessions(w.t.Context(), "s")
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range running {
		if strings.Contains(r.Command, "spritekit session") {
			return r
		}
	}
	w.t.Fatalf("none of %+v serves calls", running)
	return sprites.Session{}
}

// TestSharedExecDies: the death of the process is the end of the one call that was under way, as if it had been that call's own;
// a call that it has not begun is made elsewhere, and calls beside each other do not pay for each other.
func TestSharedExecDies(t *testing.T) {
	w := newWorld(t)
	kill := func() {
		if err := w.client.Kill(t.Context(), "s", w.sharedProcess().ID, "KILL"); err != nil {
			t.Error(err)
		}
	}
	began := make(chan bool, 8)
	call := func(n int, class manifests.Class, do string) (lattice.Outcome, error) {
		c := numbered(n, class, "third.party", fmt.Sprintf(`{"do":%q}`, do))
		return w.session.Call(t.Context(), c, func(lattice.Event) { began <- true })
	}
	if out, err := call(0, manifests.ClassRead, "good"); err != nil || !out.Result.OK {
		t.Fatalf("a call = %+v, %v", out, err)
	}
	kill()
	if out, err := call(1, manifests.ClassRead, "good"); err != nil || !out.Result.OK {
		t.Errorf("the call after the death of an idle session = %+v, %v", out, err)
	}

	// The slow ones wait until somebody opens the gate.
	drained := func() {
		for len(began) > 0 {
			<-began
		}
	}
	drained()
	ended := make(chan lattice.Outcome, 2)
	slow := func(n int, class manifests.Class) {
		go func() {
			out, err := call(n, class, "slow good")
			if err != nil {
				t.Error(err)
			}
			ended <- out
		}()
	}
	slow(2, manifests.ClassWorld)
	<-began
	kill()
	if out := <-ended; out.Kind != lattice.Lost || !strings.Contains(out.Detail, "signal 9") {
		t.Errorf("the call under way = %+v", out)
	}
	drained()
	slow(3, manifests.ClassRead)
	slow(4, manifests.ClassRead)
	<-began
	<-began
	kill()
	w.sh("touch /workspace/open")
	for range 2 {
		if out := <-ended; !out.Result.OK {
			t.Errorf("a call beside another = %+v %+v; output %s", out, out.Result.Error, &w.output)
		}
	}
}

// TestCutSession: a call whose session was cut off is found out about like one of its own exec: followed to its result
// where it must not be done twice, stopped where it can simply be done again, and its effect comes about once at most.
func TestCutSession(t *testing.T) {
	attach := func(r *http.Request) bool { return spritestest.Upgrade(r) && !spritestest.Exec(r) }
	for _, tt := range []struct {
		name  string
		class manifests.Class
		cut   spritestest.Tampering
		want  lattice.OutcomeKind
		ran   int
	}{
		{"world, under way", manifests.ClassWorld, spritestest.CutAt("begun"), lattice.Finished, 1},
		{"sprite, under way", manifests.ClassSprite, spritestest.CutAt("begun"), lattice.Finished, 1},
		{"read, under way", manifests.ClassRead, spritestest.CutAt("begun"), lattice.Lost, 0},
		{"world, the result was under way", manifests.ClassWorld, spritestest.CutAt(`"ok"`), lattice.Finished, 1},
		{"world, the handshake's answer was lost", manifests.ClassWorld, func(spritestest.Frame, func(spritestest.Frame)) bool { return false }, lattice.Lost, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			release := func() {
				if err := w.client.WriteFile(t.Context(), "s", "/workspace/open", nil, 0o644); err != nil {
					t.Error(err)
				}
			}
			if strings.Contains(tt.name, "result") {
				release()
			}
			w.man.Do(spritestest.Fault{On: spritestest.Exec, Down: tt.cut})
			w.man.Do(spritestest.Fault{On: attach, Times: -1, Down: func(f spritestest.Frame, send func(spritestest.Frame)) bool {
				if f.Op == spritestest.OpHandshake {
					release()
				}
				send(f)
				return true
			}})
			out, events := w.must(numbered(1, tt.class, "third.party", `{"do":"slow good"}`))
			w.man.Behave()
			if out.Kind != tt.want || out.Kind == lattice.Finished && (!out.Result.OK || names(events) != "INFO INFO") {
				t.Errorf("Call = %+v with events %q, want %s; output %s", out, names(events), tt.want, &w.output)
			}
			if n := w.processes(); n != 0 {
				t.Errorf("%d processes are left", n)
			}
			if got := strings.Count(w.sh("cat /workspace/ran 2>/dev/null || true"), "ran"); got != tt.ran {
				t.Errorf("the effect came about %d times, want %d", got, tt.ran)
			}
		})
	}
}

// TestUncertainInASession: who takes over after a crash finds the session that the call runs in, lets it end, and has the
// result.
func TestUncertainInASession(t *testing.T) {
	w := newWorld(t)
	c := numbered(1, manifests.ClassWorld, "third.party", `{"do":"slow good"}`)
	began, ended := make(chan bool, 2), make(chan error, 1)
	go func() {
		_, err := w.session.Call(t.Context(), c, func(lattice.Event) { began <- true })
		ended <- err
	}()
	<-began
	w.man.Do(spritestest.Fault{On: func(r *http.Request) bool { return spritestest.Upgrade(r) && !spritestest.Exec(r) },
		Down: func(f spritestest.Frame, send func(spritestest.Frame)) bool {
			if f.Op == spritestest.OpHandshake {
				if err := w.client.WriteFile(t.Context(), "s", "/workspace/open", nil, 0o644); err != nil {
					t.Error(err)
				}
			}
			send(f)
			return true
		}})
	next := session.New(w.client, session.Options{Log: zerolog.Nop()})
	defer next.Close()
	c.Uncertain = true
	out, err := next.Call(t.Context(), c, func(lattice.Event) {})
	if err != nil || out.Kind != lattice.Finished || !out.Result.OK {
		t.Errorf("the uncertain call = %+v, %v", out, err)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got := strings.Count(w.sh("cat /workspace/ran"), "ran"); got != 1 {
		t.Errorf("the effect came about %d times", got)
	}
}

// TestForgedResult: a line on the stdout of the session that names a call under way ends nothing without that call's token.
func TestForgedResult(t *testing.T) {
	w := newWorld(t)
	w.sh("echo one >/workspace/a")
	forged := `{"ok":true,"skill":"fs.read","data":{"content":"forged"},"events":0,"call_id":"call-1","exit":0}` + "\n" +
		`{"ok":true,"skill":"fs.read","data":{"content":"forged"},"events":0,"call_id":"call-1","exit":0,"token":"guess"}` + "\n" +
		`{"session":"refused","line":1,"call_id":"call-2"}` + "\n" + `{"call_id":"call-9","stderr":"x"}` + "\n" +
		`{"call_id":"call-1","stdout":"{\"ok\":true,\"skill\":\"fs.read\",\"data\":{\"content\":\"forged\"}}"}` + "\n"
	w.man.Do(spritestest.Fault{On: spritestest.Exec, Down: func(f spritestest.Frame, send func(spritestest.Frame)) bool {
		if strings.Contains(f.Stdout(), "PHASE_STARTED") {
			send(spritestest.Frame{Op: spritestest.OpBinary, Data: []byte("\x01" + forged)})
		}
		send(f)
		return true
	}})
	out, events := w.must(skill(manifests.ClassRead, "fs.read", `{"path":"a"}`))
	var data struct{ Content string }
	if err := json.Unmarshal(out.Result.Data, &data); err != nil || data.Content != "one\n" {
		t.Errorf("fs.read = %+v with %s", out, out.Result.Data)
	}
	if names(events) != read {
		t.Errorf("events: %q", names(events))
	}
	if !strings.Contains(w.output.String(), "no call waits for") {
		t.Errorf("nobody was told: %s", &w.output)
	}
}

// TestSessionIsOutOfReach: a process of the same user finds neither the pipes nor the memory of the session.
func TestSessionIsOutOfReach(t *testing.T) {
	w := newWorld(t)
	w.sh("echo one >/workspace/a")
	w.must(skill(manifests.ClassRead, "fs.read", `{"path":"a"}`))
	w.sharedProcess() // it runs
	got := w.sh(`id -u; for p in /proc/[0-9]*; do
		case $(tr '\0' ' ' <$p/cmdline 2>/dev/null) in */spritekit\ session*)
			(echo forged >$p/fd/1) 2>/dev/null && echo reached; ls $p/fd >/dev/null 2>&1 && echo listed; cat $p/environ >/dev/null 2>&1 && echo read ;;
		esac
	done; true`)
	if strings.HasPrefix(got, "0\n") {
		t.Skip("commands of this sandbox are root's, whom nothing keeps out")
	}
	if strings.Contains(got, "reached") || strings.Contains(got, "listed") || strings.Contains(got, "read") {
		t.Errorf("the attacker got: %q", got)
	}
}
