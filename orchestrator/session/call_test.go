package session_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/session"
	"github.com/spritekit/lattice/orchestrator/sprites/spritestest"
	"github.com/spritekit/lattice/spritekit/protocol"
)

const written, read = "PHASE_STARTED ARTIFACT PHASE_FINISHED", "PHASE_STARTED PHASE_FINISHED"

func TestCompleteStream(t *testing.T) {
	w := newWorld(t)
	out, events := w.must(skill(manifests.ClassSprite, "fs.write", `{"path":"a","content":"one"}`))
	if out.Kind != lattice.Finished || out.Failure != "" || !out.Result.OK || names(events) != written {
		t.Errorf("fs.write = %+v with events %q", out, names(events))
	}
	before := w.man.Count(spritestest.On("GET", "/fs/read"))
	c := skill(manifests.ClassRead, "fs.read", `{"path":"a"}`)
	c.ID = "call-2"
	out, events = w.must(c)
	if out.Kind != lattice.Finished || !strings.Contains(string(out.Result.Data), "one") || names(events) != read {
		t.Errorf("fs.read = %+v with events %q", out, names(events))
	}
	if n := w.man.Count(spritestest.On("GET", "/fs/read")) - before; n != 0 {
		t.Errorf("a complete stream of a read skill was followed by %d readings", n)
	}
}

func TestFramesInOtherShapes(t *testing.T) {
	for name, change := range map[string]spritestest.Tampering{
		"a byte at a time": func(f spritestest.Frame, out func(spritestest.Frame)) bool {
			if f.Stdout() == "" {
				out(f)
				return true
			}
			for _, b := range f.Data[1:] {
				out(spritestest.Frame{Op: spritestest.OpBinary, Data: []byte{1, b}})
			}
			return true
		},
		"everything twice": func(f spritestest.Frame, out func(spritestest.Frame)) bool {
			out(f)
			if f.Stdout() != "" {
				out(f)
			}
			return true
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.man.Do(spritestest.Fault{On: spritestest.Exec, Down: change})
			out, events := w.must(skill(manifests.ClassSprite, "fs.write", `{"path":"a","content":"one"}`))
			if out.Kind != lattice.Finished || !out.Result.OK || names(events) != written {
				t.Errorf("fs.write = %+v with events %q", out, names(events))
			}
		})
	}
}

func TestIncompleteStreamIsReconciled(t *testing.T) {
	w := newWorld(t)
	dropped := spritestest.Tampering(func(f spritestest.Frame, out func(spritestest.Frame)) bool {
		if f.Stdout() != "" {
			kept := ""
			for line := range strings.Lines(f.Stdout()) {
				if !strings.Contains(line, "PHASE_STARTED") {
					kept += line
				}
			}
			f.Data = append([]byte{1}, kept...)
		}
		out(f)
		return true
	})
	w.sh("mkdir -p /workspace && echo one >/workspace/a")
	w.man.Do(spritestest.Fault{On: spritestest.Exec, Down: dropped})
	out, events := w.must(skill(manifests.ClassRead, "fs.read", `{"path":"a"}`))
	if len(events) != 2 || out.Kind != lattice.Finished || !out.Result.OK {
		t.Errorf("fs.read = %+v with events %q", out, names(events))
	}
}

func TestCutConnection(t *testing.T) {
	const work = `say PHASE_STARTED e1 '{"phase":"x"}'; note PHASE_STARTED e1 '{"phase":"x"}'; sleep 0.2; touch /workspace/done; ` +
		`note INFO e2 '{"message":"m"}'; `
	const recorded = `note INFO r1 '{"message":"r","kind":"result","metadata":{"ok":true,"skill":"shell","data":{"n":1},"events":2}}'; say INFO e2 '{"message":"m"}'; `
	const result = recorded + `echo '{"ok":true,"skill":"shell","data":{"n":1},"events":2}'`
	for _, tt := range []struct {
		name string
		call lattice.Call
		word string // cut there
		want lattice.OutcomeKind
		done bool // the work
	}{
		{"fs.write before its end", skill(manifests.ClassSprite, "fs.write", `{"path":"done","content":"x"}`), "PHASE_FINISHED", lattice.Finished, true},
		{"only the exit is missing", skill(manifests.ClassSprite, "fs.write", `{"path":"done","content":"x"}`), "", lattice.Finished, true},
		{"sprite class, followed to its result", shell(manifests.ClassSprite, work+result), "e2", lattice.Finished, true},
		{"world class, followed to its result", shell(manifests.ClassWorld, work+result), "e2", lattice.Finished, true},
		{"no result", shell(manifests.ClassWorld, work), "e2", lattice.Lost, true},
		{"a failure of sprite class is done again", shell(manifests.ClassSprite, work+strings.ReplaceAll(result, `"ok":true,"skill":"shell","data":{"n":1}`, `"ok":false,"skill":"shell","error":{"code":"c","message":"m"}`)), "e2", lattice.Lost, true},
		{"a failure of world class counts", shell(manifests.ClassWorld, work+strings.ReplaceAll(result, `"ok":true,"skill":"shell","data":{"n":1}`, `"ok":false,"skill":"shell","error":{"code":"c","message":"m"}`)), "e2", lattice.Finished, true},
		{"read class is stopped", shell(manifests.ClassRead, strings.Replace(work, "sleep 0.2", "say INFO e3 '{\"message\":\"m\"}'; sleep 60", 1)+result), "e3", lattice.Lost, false},
		{"never heard of is stopped", shell(manifests.ClassWorld, "echo nothing; sleep 60"), "nothing", lattice.Lost, false},
		{"another call's result", shell(manifests.ClassWorld, work+`LATTICE_CALL_ID=call-0; `+recorded), "e2", lattice.Lost, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.issued["call-0"] = true
			cut := spritestest.CutAt(tt.word)
			w.man.Do(spritestest.Fault{On: spritestest.Exec, Down: cut})
			out, events := w.must(tt.call)
			if out.Kind != tt.want {
				t.Errorf("Call = %+v, want %s; events %q, output %s", out, tt.want, names(events), &w.output)
			}
			ids := map[string]bool{}
			for _, e := range events {
				if ids[e.Event.EventID] {
					t.Errorf("event %s came twice", e.Event.EventID)
				}
				ids[e.Event.EventID] = true
			}
			if n := w.processes(); n != 0 {
				t.Errorf("%d processes are left", n)
			}
			if got := w.sh("ls /workspace"); strings.Contains(got, "done") != tt.done {
				t.Errorf("/workspace holds %q", got)
			}
		})
	}
}

func TestAdoption(t *testing.T) {
	w := newWorld(t)
	plant := `note INFO r9 '{"message":"r","kind":"result","metadata":{"ok":true,"skill":"shell","data":{"planted":true}}}'; `
	out, _ := w.must(shell(manifests.ClassSprite, plant+`echo '{"ok":true,"skill":"shell","data":{"n":1}}'`))
	if string(out.Result.Data) != `{"n":1}` {
		t.Errorf("the stream's own result lost against a planted one: %s", out.Result.Data)
	}
	// The cursor is behind that record now; a call that is uncertain finds it all the same.
	c := shell(manifests.ClassWorld, "exit 1")
	c.Uncertain = true
	if out, _ := w.must(c); out.Kind != lattice.Finished || !out.Result.OK {
		t.Errorf("an uncertain call that was recorded = %+v", out)
	}
	c.ID = "call-2"
	if out, _ := w.must(c); out.Kind != lattice.Lost {
		t.Errorf("an uncertain call of which nothing is recorded = %+v", out)
	}
}

func TestOutcomes(t *testing.T) {
	const good, bad = `echo '{"ok":true,"skill":"shell","data":{}}'; `, `echo '{"ok":false,"skill":"shell","error":{"code":"c","message":"m"}}'; `
	const waiting = `echo '{"ok":true,"skill":"shell","waiting":{"reason":"'${r:-r}'","checkpoint_id":"none"}}'; `
	const event = `say WAITING w1 '{"reason":"r","checkpoint_id":"none"}'; `
	w := newWorld(t)
	for _, tt := range []struct {
		name, program string
		kind          lattice.OutcomeKind
		failure, code string
		exit          int
	}{
		{"good", good, lattice.Finished, "", "", 0},
		{"bad", bad + "exit 1", lattice.Finished, expr.FailTool, "c", 1},
		{"denied", bad + "exit 4", lattice.Finished, expr.FailToolDenied, "c", 4},
		{"exit 0 that is not ok", bad, lattice.Finished, expr.FailTool, "exit_mismatch", 0},
		{"exit 1 that is ok", good + "exit 1", lattice.Finished, expr.FailTool, "exit_mismatch", 1},
		{"no result", "echo hello", lattice.Finished, expr.FailTool, "no_result", 0},
		{"the last result counts", bad + good, lattice.Finished, "", "", 0},
		{"noise after the result", good + "echo done", lattice.Finished, "", "", 0},
		{"a result that no reader takes", `printf '{"ok":true,"skill":"shell","data":{"x":"'; head -c 1100000 /dev/zero | tr '\0' x; echo '"}}'`, lattice.Finished, expr.FailTool, "result_too_long", 0},
		{"waiting", event + waiting + "exit 75", lattice.Suspended, "", "", 75},
		{"waiting for a long reason", `r=$(head -c 5000 /dev/zero | tr '\0' x); say WAITING w1 "{\"reason\":\"$r\",\"checkpoint_id\":\"none\"}"; ` + waiting + "exit 75", lattice.Suspended, "", "", 75},
		{"waiting without WAITING", waiting + "exit 75", lattice.Finished, expr.FailTool, "exit_mismatch", 75},
		{"waiting that exits 0", event + waiting, lattice.Finished, expr.FailTool, "exit_mismatch", 0},
		{"exit 75 that says nothing", "exit 75", lattice.Finished, expr.FailTool, "no_result", 75},
		{"goes on after WAITING", event + waiting + "sleep 60", lattice.Suspended, "", "", 75},
		{"goes on after WAITING, wordless", event + "sleep 60", lattice.Suspended, "", "", 75},
	} {
		t.Run(tt.name, func(t *testing.T) {
			grace := time.Minute // who waits ends by itself, however slow the machine is
			if strings.HasPrefix(tt.name, "goes on") {
				grace = 50 * time.Millisecond
			}
			w.renew(grace)
			out, _ := w.must(shell(manifests.ClassSprite, tt.program))
			code := ""
			if out.Result.Error != nil {
				code = out.Result.Error.Code
			}
			if late := slices.ContainsFunc(out.Result.Warnings, func(w protocol.Warning) bool { return w.Code == "output_after_result" }); late != strings.HasPrefix(tt.name, "noise after") {
				t.Errorf("Call = %+v; it warns of output after the result: %t", out, late)
			}
			if out.Kind != tt.kind || out.Failure != tt.failure || code != tt.code || out.Exit != tt.exit {
				t.Errorf("Call = %+v (%s), want %s, failure %q, code %q, exit %d", out, code, tt.kind, tt.failure, tt.code, tt.exit)
			}
			if n := w.processes(); n != 0 {
				t.Errorf("%d processes are left", n)
			}
			if out.Kind != lattice.Suspended {
				return
			}
			all, err := w.client.Checkpoints(t.Context(), "s")
			if err != nil {
				t.Fatal(err)
			}
			found := false
			for _, cp := range all {
				found = found || cp.ID == out.Result.Waiting.CheckpointID
			}
			if !found {
				t.Errorf("checkpoint %q does not exist", out.Result.Waiting.CheckpointID)
			}
		})
	}
}

func TestTimeout(t *testing.T) {
	w := newWorld(t)
	// Said before, so that it does not matter how far the call gets in its time.
	w.must(shell(manifests.ClassSprite, `note INFO e1 '{"message":"m"}'; `+good))
	w.renew(time.Minute)
	c := shell(manifests.ClassSprite, `sleep 60`)
	c.TimeoutS = 1
	out, events := w.must(c)
	if out.Failure != expr.FailTimeout || out.Exit != 124 || names(events) != "INFO" {
		t.Errorf("Call = %+v with events %q, want a timeout with INFO", out, names(events))
	}
	if n := w.processes(); n != 0 {
		t.Errorf("%d processes are left", n)
	}
}

// TestTimeoutBeyondAllTime: a skill's manifest may name any number of seconds.
func TestTimeoutBeyondAllTime(t *testing.T) {
	w := newWorld(t)
	c := shell(manifests.ClassRead, good)
	c.TimeoutS = 1e12
	if out, _ := w.must(c); !out.Result.OK {
		t.Errorf("Call = %+v", out)
	}
}

func TestCancel(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	_, err := w.session.Call(ctx, shell(manifests.ClassSprite, `say INFO e1 '{"message":"m"}'; sleep 60`), func(lattice.Event) { cancel() })
	if !errors.Is(err, context.Canceled) {
		t.Errorf("Call = %v, want canceled", err)
	}
	if n := w.processes(); n != 0 {
		t.Errorf("%d processes are left", n)
	}
	late, cancelLate := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancelLate()
	if _, err := w.session.Call(late, shell(manifests.ClassSprite, `sleep 60`), func(lattice.Event) {}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Call = %v, want the caller's own deadline, not a timeout of the call", err)
	}
}

func TestRefusals(t *testing.T) {
	w := newWorld(t)
	for _, tt := range []struct {
		status int
		want   string // error, refusal or the failure
	}{
		{400, expr.FailToolUnavailable}, {413, expr.FailToolUnavailable}, {404, "refusal"}, {401, "error"}, {409, "error"},
		{429, "error"}, {500, "error"}, {503, "error"}, {507, "error"},
	} {
		w.man.Do(spritestest.Fault{On: spritestest.Exec, Times: -1, Instead: spritestest.Answer(tt.status, "application/json", `{"error":"refused"}`)})
		out, _, err := w.call(shell(manifests.ClassWorld, "true"))
		got := out.Failure
		var refusal *lattice.Refusal
		if errors.As(err, &refusal) {
			got = "refusal"
		} else if err != nil {
			got = "error"
		}
		w.man.Behave()
		if got != tt.want {
			t.Errorf("status %d: Call = %+v, %v, want %s", tt.status, out, err, tt.want)
		}
	}
	if err := w.client.Delete(t.Context(), "s"); err != nil {
		t.Fatal(err)
	}
	c := shell(manifests.ClassWorld, "true")
	for _, c.Uncertain = range []bool{false, true} {
		var refusal *lattice.Refusal
		if _, _, err := w.call(c); !errors.As(err, &refusal) || refusal.Fault.Code != "sprite_gone" {
			t.Errorf("a call in a removed sprite = %v, want a refusal", err)
		}
	}
}

// TestSpriteMadeAnew: a sprite that was removed and made again under its name has lost what it was equipped with.
func TestSpriteMadeAnew(t *testing.T) {
	w := newWorld(t)
	var seenTo []string
	w.session = session.New(w.client, session.Options{Log: zerolog.Nop(), Equip: func(_ context.Context, sprite string) error {
		seenTo = append(seenTo, sprite)
		return nil
	}})
	lacking := skill(manifests.ClassRead, "lacking", "{}")
	for i, c := range []lattice.Call{shell(manifests.ClassRead, good), lacking, shell(manifests.ClassRead, good)} {
		if out, _ := w.must(c); (out.Failure == "") != (i != 1) {
			t.Errorf("call %d = %+v", i, out)
		}
	}
	if len(seenTo) != 2 {
		t.Errorf("the sprite was seen to %d times, want before the first call and after the skill that was missing", len(seenTo))
	}
}

func TestSkillsAreNotTheSprites(t *testing.T) {
	w := newWorld(t)
	w.sh(`mkdir -p /workspace/skills && printf '#!/bin/sh\necho "{}"' >/workspace/skills/mine && chmod +x /workspace/skills/mine
! cp /workspace/skills/mine /skills/mine 2>/dev/null; ! rm /skills/fs.read 2>/dev/null; ! mv /skills /skills2 2>/dev/null`)
	out, _ := w.must(skill(manifests.ClassSprite, "mine", "{}"))
	if out.Failure != expr.FailToolUnavailable || out.Result.Error.Code != "skill_missing" {
		t.Errorf("a skill below /workspace = %+v, want skill_missing", out)
	}
}
