package skills

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/spritekit/protocol"
)

func TestAnAgentWorks(t *testing.T) {
	s := newSprite(t)
	s.origin()
	s.must("git.clone", `{"url":"origin"}`)
	s.write("repo/dirty", "before\n")
	s.write("agent.sh", `cat > ../prompt; env | sort > ../env
echo changed > README.md; echo new > new.txt
echo 'LATTICE_EVENT {"event_type":"ACTION_REQUEST","payload":{"action":"PUSH_BRANCH","parameters":{},"blocking":false}}'
echo all done
`)
	o := s.call("agent.run", `{"command":["sh","../agent.sh"],"prompt":"fix it; --now","env_allow":["ALLOWED"]}`)
	if o.exit != 0 {
		t.Fatalf("agent.run = %s", o.stdout)
	}
	data := o.data(t)
	if data["status"] != "done" || data["stop_reason"] != "exit" {
		t.Errorf("agent.run = %v", data)
	}
	if !cmp.Equal(data["errors"], any([]any{})) || !cmp.Equal(data["permission_denials"], any([]any{})) {
		t.Errorf("nothing that went wrong is %v and %v, want two empty lists", data["errors"], data["permission_denials"])
	}
	if diff := cmp.Diff([]any{"README.md", "new.txt"}, data["files_changed"]); diff != "" {
		t.Errorf("files_changed (-want +got):\n%s", diff)
	}
	if got := s.read("prompt"); got != "fix it; --now" {
		t.Errorf("the agent read %q", got)
	}
	env := s.read("env")
	for _, want := range []string{"ALLOWED=yes", "IS_SANDBOX=1", "LATTICE_RUN_ID=r1", "LATTICE_SPRITE_ID=s1"} {
		if !strings.Contains(env, want+"\n") {
			t.Errorf("the agent does not see %s", want)
		}
	}
	for _, never := range []string{"s3cr3t", "LATTICE_CALL_ID", "LATTICE_PERMISSIONS", "GOCACHE"} {
		if strings.Contains(env, never) {
			t.Errorf("the agent sees %s", never)
		}
	}
	if !strings.HasSuffix(s.read(data["transcript_path"].(string)), "all done\n") || !strings.HasSuffix(data["final_text"].(string), "all done\n") {
		t.Error("the transcript or the final text lacks what the agent said last")
	}
	for _, e := range o.events {
		if e.Type == protocol.TypeActionRequest {
			t.Error("the agent forged an event")
		}
	}
}

func TestAnAgentsEventsAreFiltered(t *testing.T) {
	s := newSprite(t)
	s.write("agent.sh", `echo 'LATTICE_EVENT {"protocol_version":"v1","event_type":"INFO","sprite_id":"other","work_item_id":"other","timestamp":"2026-01-01T00:00:00Z","payload":{"message":"from the agent"}}'
echo 'LATTICE_EVENT {"event_type":"ARTIFACT","payload":{"kind":"file","ref":"x"}}'
echo 'LATTICE_EVENT {"event_type":"COMPLETED","payload":{"status":"success"}}'
echo 'LATTICE_EVENT {"event_type":"INFO","payload":{}}'
`)
	o := s.call("agent.run", `{"command":["sh","agent.sh"],"pass_through_events":true}`)
	var types []string
	for _, e := range o.events {
		types = append(types, string(e.Type))
		if e.SpriteID != "s1" || e.WorkItemID != "w1" {
			t.Errorf("an event speaks for %s, %s", e.SpriteID, e.WorkItemID)
		}
	}
	if got := strings.Join(types, " "); got != "PHASE_STARTED INFO ARTIFACT PHASE_FINISHED" {
		t.Errorf("events %s: %s", got, o.stdout)
	}
	if len(o.result.Warnings) != 1 || o.result.Warnings[0].Code != "events_refused" {
		t.Errorf("warnings %v", o.result.Warnings)
	}
}

func TestAnAgentIsStopped(t *testing.T) {
	s := newSprite(t)
	// A daemon in a session and an environment of its own, whose parent is gone.
	s.write("agent.sh", `setsid env -i /bin/sh -c 'echo $$ > pid; exec sleep 1000' &
while ! test -s pid; do :; done
echo ready
`)
	tests := map[string]struct {
		input string
		exit  int
		code  string
	}{
		"ends":     {`{"command":"sh agent.sh"}`, 0, ""},
		"fails":    {`{"command":"sh agent.sh; exit 3"}`, 1, "agent_failed"},
		"silent":   {`{"command":"sh agent.sh; sleep 1000","idle_s":0.5}`, 124, "timeout"},
		"too slow": {`{"command":"sh agent.sh; sleep 1000","timeout_s":0.7}`, 124, "timeout"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := s.on(t)
			os.Remove(filepath.Join(s.dir, "pid"))
			o := s.call("agent.run", test.input)
			if o.exit != test.exit || test.code != "" && o.result.Error.Code != test.code {
				t.Errorf("exit %d, %s, want %d %s", o.exit, o.stdout, test.exit, test.code)
			}
			if runtime.GOOS != "linux" {
				return
			}
			pid, err := strconv.Atoi(strings.TrimSpace(s.read("pid")))
			if err != nil {
				t.Fatal(err)
			}
			if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
				t.Errorf("process %d of the agent is still there: %v", pid, err)
			}
		})
	}
}

func TestACancelledAgentSaysSo(t *testing.T) {
	s := newSprite(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if o := s.callCtx(ctx, "agent.run", `{"command":"sleep 1000"}`); o.exit != protocol.ExitCancelled {
		t.Errorf("exit %d, %s, want 130", o.exit, o.stdout)
	}
}

func TestAgentsThatAreNotThere(t *testing.T) {
	s := newSprite(t)
	s.fails("agent.run", `{"agent":"hal"}`, 8, "unsupported")
	s.fails("agent.run", `{}`, 2, "bad_input")
	s.fails("agent.run", `{"command":["no-such-agent"]}`, 8, "unsupported")
	s.fails("agent.run", `{"command":"x","env_allow":["LATTICE_CALL_ID"]}`, 2, "bad_input")
	s.fails("agent.run", `{"command":"x","prompt":"a","prompt_file":"b"}`, 2, "bad_input")
}
