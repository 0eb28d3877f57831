package session_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/lattice"
	. "github.com/spritekit/lattice/orchestrator/sprites/spritestest"
)

// effect is a world-class call whose effect can be counted; it comes about when somebody makes the file go. It writes no
// outbox, as a third party's skill may.
const effect = `say INFO e1 '{"message":"begun"}'; say INFO e2 '{"message":"going"}'; until [ -e /workspace/go ]; do sleep 0.02; done
echo ran >>/workspace/ran; say INFO e3 '{"message":"done"}'; echo '{"ok":true,"skill":"shell","data":{"n":1},"events":3}'`

// TestCallThroughAMiddleman: whatever happens on the way, a call has its effect at most once, success is never guessed,
// and no process is left.
func TestCallThroughAMiddleman(t *testing.T) {
	const (
		finished = "finished"
		lost     = "lost"
		failed   = "error"
	)
	attach := func(r *http.Request) bool { return Upgrade(r) && !Exec(r) }
	for _, tt := range []struct {
		name   string
		faults []Fault
		want   string
		cause  string // in the error or the loss's detail
		never  bool   // the effect did not come about
		early  bool   // it does not wait for anybody
	}{
		{name: "nothing", early: true, want: finished},
		{name: "cut at the first word", faults: []Fault{{On: Exec, Down: CutAt("begun")}}, want: lost, cause: "exit was known", never: true},
		{name: "cut at the last word", faults: []Fault{{On: Exec, Down: CutAt("going")}}, want: finished},
		{name: "cut at the last word, and joining is cut, too", faults: []Fault{{On: Exec, Down: CutAt("going")}, {On: attach, Times: 3, Down: CutAt("going")}}, want: finished},
		{name: "cut, and joining is refused twice", faults: []Fault{{On: Exec, Down: CutAt("going")}, {On: attach, Times: 2, Instead: Answer(502, "text/html", "<html>")}}, want: finished},
		{name: "cut, and the list is a web page once", faults: []Fault{{On: Exec, Down: CutAt("going")}, {On: On("GET", "/exec"), Instead: Answer(200, "text/html", "<html>sign in")}}, want: failed, cause: "something else than the Sprites API"},
		{name: "cut, and the list is cut off twice", faults: []Fault{{On: Exec, Down: CutAt("going")}, {On: On("GET", "/exec"), Times: 2, After: CutAfter(5)}}, want: finished},
		{name: "cut, and the list is empty although it runs", faults: []Fault{{On: Exec, Down: CutAt("going")}, {On: On("GET", "/exec"), Times: -1, Instead: Answer(200, "application/json", `{"count":0,"sessions":[]}`)}}, want: lost, cause: "exit was known"},
		{name: "closed without an exit", early: true, faults: []Fault{{On: Exec, Down: func(f Frame, send func(Frame)) bool {
			if !f.Exit() {
				send(f)
			}
			return true
		}}}, want: lost, cause: "exit was known"},
		{name: "every frame twice", early: true, faults: []Fault{{On: Exec, Down: func(f Frame, send func(Frame)) bool {
			send(f)
			if f.Op != OpClose {
				send(f)
			}
			return true
		}}}, want: finished},
		{name: "a result line is slipped in before a cut", faults: []Fault{{On: Exec, Down: func(f Frame, send func(Frame)) bool {
			if f.Op == OpText {
				defer send(Frame{Op: OpBinary, Data: []byte("\x01{\"ok\":true,\"skill\":\"shell\",\"data\":{\"n\":666}}\n")})
			}
			return CutAt("going")(f, send)
		}}}, want: finished},
		{name: "the handshake is cut", faults: []Fault{{On: Exec, Instead: Cut}}, want: lost, cause: "whether the command had started", never: true},
		{name: "started, and the handshake's answer is lost", faults: []Fault{{On: Exec, Down: func(Frame, func(Frame)) bool { return false }}}, want: lost, cause: "whether the command had started", never: true},
		{name: "502 instead of the command", faults: []Fault{{On: Exec, Instead: Answer(502, "text/html", "<html>")}}, want: lost, cause: "a proxy's page", never: true},
		{name: "429, then it is run", early: true, faults: []Fault{{On: Exec, Instead: Answer(429, "application/json", `{"error":"limited"}`)}}, want: finished},
		{name: "a web page instead of the command", faults: []Fault{{On: Exec, Instead: Answer(200, "text/html", "<html>sign in")}}, want: failed, cause: "sign in", never: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			release := func() {
				if err := w.client.WriteFile(t.Context(), "s", "/workspace/go", nil, 0o644); err != nil {
					t.Error(err)
				}
			}
			if tt.early {
				release()
			}
			for _, f := range tt.faults {
				w.man.Do(f)
			}
			w.man.Do(Fault{On: attach, Times: -1, Down: func(f Frame, send func(Frame)) bool {
				if f.Op == OpHandshake {
					release()
				}
				send(f)
				return true
			}})
			out, events, err := w.call(shell(manifests.ClassWorld, effect))
			w.man.Behave()
			got, cause := string(out.Kind), out.Detail
			if err != nil {
				got, cause = failed, err.Error()
			}
			if got != tt.want || !strings.Contains(cause, tt.cause) {
				t.Errorf("Call = %+v, %v, want %s with %q; output %s", out, err, tt.want, tt.cause, &w.output)
			}
			if out.Kind == lattice.Finished && (!out.Result.OK || string(out.Result.Data) != `{"n":1}` || names(events) != "INFO INFO INFO") {
				t.Errorf("Call = %+v with events %q", out.Result, names(events))
			}
			release() // for who waits still
			if err != nil {
				// What could not be found out is found out when the run goes on.
				c := shell(manifests.ClassWorld, effect)
				c.Uncertain = true
				if out, _ := w.must(c); out.Kind == lattice.Finished && !out.Result.OK {
					t.Errorf("the uncertain call = %+v", out)
				}
			}
			for w.processes() > 0 { // of the row whose list lies; it ends by itself
				if t.Context().Err() != nil {
					t.Fatal("a process is left")
				}
			}
			if ran := strings.Count(w.sh("cat /workspace/ran 2>/dev/null || true"), "ran"); ran > 1 || tt.never && ran > 0 || !tt.never && ran == 0 {
				t.Errorf("the effect came about %d times", ran)
			}
		})
	}
}

// TestDroppedMessage: an event is lost on a connection that goes on. The result tells how many there were, so the event is read from the outbox,
// also of a call that is not read there otherwise.
func TestDroppedMessage(t *testing.T) {
	t.Parallel()
	const both = `for n in 1 2 3; do say INFO e$n "{\"message\":\"event $n\"}"; note INFO e$n "{\"message\":\"event $n\"}"; done
echo '{"ok":true,"skill":"shell","data":{},"events":3}'`
	for _, class := range []manifests.Class{manifests.ClassRead, manifests.ClassWorld} {
		t.Run(string(class), func(t *testing.T) {
			w := newWorld(t)
			dropped := 0
			w.man.Do(Fault{On: Exec, Times: -1, Down: func(f Frame, send func(Frame)) bool {
				if text := f.Stdout(); strings.Contains(text, "event 2") {
					f.Data = []byte{1}
					for line := range strings.Lines(text) {
						if strings.Contains(line, "event 2") {
							dropped++
							continue
						}
						f.Data = append(f.Data, line...)
					}
				}
				send(f)
				return true
			}})
			out, events := w.must(shell(class, both))
			said := map[string]int{}
			for _, e := range events {
				said[e.Event.EventID]++
			}
			if dropped != 1 || out.Kind != lattice.Finished || !out.Result.OK || len(events) != 3 || said["e1"] != 1 || said["e2"] != 1 || said["e3"] != 1 {
				t.Errorf("%d messages were dropped; Call = %+v with the events %v", dropped, out, said)
			}
		})
	}
}

// TestDroppedResult: the result line is lost on a connection that goes on. It is read from the outbox, with the exit code of the process. Of a call
// of class read the outbox holds no data, so that the call is repeated. A skill that leaves no result fails, as it does without a fault.
func TestDroppedResult(t *testing.T) {
	t.Parallel()
	const recorded = `note INFO e1 '{"kind":"result","message":"ended","metadata":{"ok":true,"skill":"shell","data":{"n":1},"events":1}}'
`
	const failed = `note INFO e1 '{"kind":"result","message":"ended","metadata":{"ok":false,"skill":"shell","error":{"code":"broken","message":"it broke"},"events":1}}'
`
	for _, tt := range []struct {
		name, program string
		class         manifests.Class
		want          lattice.OutcomeKind
		code          string
	}{
		{"recorded", recorded + `echo '{"ok":true,"skill":"shell","data":{"n":1},"events":1}'`, manifests.ClassWorld, lattice.Finished, ""},
		{"read", recorded + `echo '{"ok":true,"skill":"shell","data":{"n":1},"events":1}'`, manifests.ClassRead, lattice.Lost, ""},
		{"failed", failed + `echo '{"ok":false,"skill":"shell"}'; exit 7`, manifests.ClassSprite, lattice.Finished, "broken"},
		{"recorded, and another exit code", recorded + `exit 7`, manifests.ClassWorld, lattice.Finished, "no_result"},
		{"nothing recorded", `true`, manifests.ClassWorld, lattice.Finished, "no_result"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.man.Do(Fault{On: Exec, Times: -1, Down: func(f Frame, send func(Frame)) bool {
				if !strings.Contains(f.Stdout(), `"skill":"shell"`) {
					send(f)
				}
				return true
			}})
			out, events := w.must(shell(tt.class, tt.program))
			code := ""
			if out.Result.Error != nil {
				code = out.Result.Error.Code
			}
			if out.Kind != tt.want || code != tt.code || tt.want == lattice.Finished && out.Result.OK != (code == "") {
				t.Errorf("Call = %+v with the events %v, want %s with the code %q", out, names(events), tt.want, tt.code)
			}
			if code == "broken" && out.Exit != 7 {
				t.Errorf("the exit code is %d, want 7", out.Exit)
			}
		})
	}
}

// TestRecordedResultAfterTimeout: a program of the sprite that writes a result into the outbox and then hangs its call does not make it succeed.
func TestRecordedResultAfterTimeout(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := shell(manifests.ClassWorld, `note INFO e1 '{"kind":"result","message":"ended","metadata":{"ok":true,"skill":"shell","data":{"n":1},"events":1}}'
sleep 60`)
	c.TimeoutS = 2
	out, _ := w.must(c)
	if out.Kind != lattice.Finished || out.Result.OK || out.Failure != "timeout" {
		t.Errorf("Call = %+v, want a timeout", out)
	}
}

// TestCallThatTheHostRefuses: a refusal of this very request fails the call, as repeating it would change nothing.
func TestCallThatTheHostRefuses(t *testing.T) {
	w := newWorld(t)
	w.man.Do(Fault{On: Exec, Times: -1, Instead: Answer(400, "application/json", `{"code":"bad_request","message":"no such program"}`)})
	out, _, err := w.call(shell(manifests.ClassWorld, effect))
	w.man.Behave()
	if err != nil || out.Result.Error == nil || out.Result.Error.Code != "exec_refused" {
		t.Errorf("Call = %+v, %v, want exec_refused", out, err)
	}
}

// TestBoundariesThroughAMiddleman: a checkpoint whose answer was lost is found, not taken twice.
func TestBoundariesThroughAMiddleman(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	count := func() int {
		all, err := w.client.Checkpoints(t.Context(), "s")
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	for _, tt := range []struct {
		name  string
		fault Fault
		taken int
		fails string
	}{
		{name: "taken, and the answer is cut", fault: Fault{On: On("POST", "/checkpoint"), After: CutAfter(20)}, taken: 1},
		{name: "taken, and a proxy says 504", fault: Fault{On: On("POST", "/checkpoint"), After: Replace(504, "text/html", "<html>")}, taken: 1},
		{name: "not taken, and the request is cut", fault: Fault{On: On("POST", "/checkpoint"), Instead: Cut}, taken: 1},
		{name: "an error line under 200", fault: Fault{On: On("POST", "/checkpoint"), Instead: Answer(200, "application/x-ndjson", `{"type":"error","error":"no space left"}`)}, fails: "no space left"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := count()
			w.man.Do(tt.fault)
			pair, err := w.session.Checkpoint(t.Context(), "s")
			if taken := count() - before; taken != tt.taken {
				t.Errorf("%d checkpoints were taken, want %d", taken, tt.taken)
			}
			if tt.fails == "" && (err != nil || pair.CheckpointID == "") || tt.fails != "" && (err == nil || !strings.Contains(err.Error(), tt.fails)) {
				t.Errorf("Checkpoint = %+v, %v", pair, err)
			}
		})
	}
}

// TestHungConnection: the caller's context ends a call that nothing is heard of.
func TestHungConnection(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	w.man.Do(Fault{On: Exec, Instead: func(rw http.ResponseWriter, r *http.Request) {
		cancel()
		w.man.Hang(rw, r)
	}})
	if _, err := w.session.Call(ctx, shell(manifests.ClassWorld, effect), func(lattice.Event) {}); !errors.Is(err, context.Canceled) {
		t.Errorf("Call = %v, want canceled", err)
	}
}

// TestCutProcessIsBounded: a host ends the process of a call that nobody came back for, after the call's own timeout.
func TestCutProcessIsBounded(t *testing.T) {
	w := newWorld(t)
	got := ""
	w.man.Do(Fault{Times: -1, On: func(r *http.Request) bool {
		if Exec(r) {
			got = r.URL.Query().Get("max_run_after_disconnect")
		}
		return false
	}})
	w.must(shell(manifests.ClassRead, `echo '{"ok":true,"skill":"shell","data":{}}'`))
	if got != "1m0s" { // 30 s of the call, and as much again
		t.Errorf("max_run_after_disconnect = %q", got)
	}
}
