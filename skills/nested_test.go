package skills

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/spritekit/lattice/spritekit/outbox"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/workspace"
)

// told writes to a FIFO once a text was written to it.
type told struct {
	text string
	fifo *os.File
	once sync.Once
}

func (w *told) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte(w.text)) {
		w.once.Do(func() { w.fifo.WriteString("go\n") })
	}
	return len(p), nil
}

// nested makes this test binary callable by the agent as a skill.
func (s *sprite) nested(name string) {
	s.t.Helper()
	self, err := os.Executable()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(s.dir, name)); err != nil {
		s.t.Fatal(err)
	}
}

// summary is the events as "TYPE text", those of other calls with a +.
func summary(t *testing.T, id string, events []protocol.Event) []string {
	t.Helper()
	var got []string
	for _, e := range events {
		payload, err := e.Open()
		if err != nil {
			t.Fatal(err)
		}
		text := string(e.Type)
		switch p := payload.(type) {
		case protocol.PhaseStarted:
			text += " " + p.Phase
		case protocol.PhaseFinished:
			text += " " + p.Phase
		case protocol.Artifact:
			text += " " + p.Ref
		case protocol.Info:
			if p.Kind == "agent" {
				if strings.Contains(p.Message, strings.TrimSpace(protocol.Prefix)) {
					t.Errorf("an event is shown as progress: %s", p.Message)
				}
				continue // how often an agent is heard of is a matter of time
			}
			text += " " + p.Message
		}
		if e.CallID != id {
			text = "+" + text
		}
		got = append(got, text)
	}
	return got
}

func TestSkillsOfAnAgentAreSeenLiveAndOnce(t *testing.T) {
	for _, passThrough := range []string{"false", "true"} {
		t.Run("pass_through_events "+passThrough, func(t *testing.T) {
			s := newSprite(t)
			s.nested("fs.write")
			gate := filepath.Join(s.dir, "gate")
			if err := syscall.Mkfifo(gate, 0o600); err != nil {
				t.Fatal(err)
			}
			fifo, err := os.OpenFile(gate, os.O_RDWR, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer fifo.Close()
			s.tee = &told{text: `"ref":"first"`, fifo: fifo}
			// The agent goes on only when the first event was seen.
			s.write("agent.sh", `echo '{"path":"first","content":"1"}' | ./fs.write; read -r x <gate; echo '{"path":"second","content":"2"}' | ./fs.write`)
			s.env.CallID = "call-agent"
			o := s.call("agent.run", `{"command":["sh","agent.sh"],"timeout_s":60,"pass_through_events":`+passThrough+`}`)
			if o.exit != 0 {
				t.Fatalf("agent.run = %s", o.stdout)
			}
			want := []string{
				"PHASE_STARTED agent.run",
				"+PHASE_STARTED fs.write", "+ARTIFACT first", "+PHASE_FINISHED fs.write",
				"+PHASE_STARTED fs.write", "+ARTIFACT second", "+PHASE_FINISHED fs.write",
				"PHASE_FINISHED agent.run",
			}
			if diff := cmp.Diff(want, summary(t, "call-agent", o.events)); diff != "" {
				t.Errorf("stdout (-want +got):\n%s", diff)
			}
			own := 0
			for _, e := range o.events {
				if e.CallID == "call-agent" {
					own++
				}
			}
			if o.result.Events != own {
				t.Errorf("the result counts %d events, stdout has %d of this call", o.result.Events, own)
			}
			seen := map[string]int{}
			for line := range strings.Lines(s.read(protocol.OutboxFile)) {
				e, problems, ok := protocol.Decode([]byte(line))
				if !ok || len(problems) > 0 {
					t.Fatalf("the outbox has %q: %v", line, problems)
				}
				if seen[e.EventID]++; seen[e.EventID] > 1 {
					t.Errorf("the outbox has %s twice", e.Raw)
				}
			}
		})
	}
}

// A program of exec.run is seen with the skills that it calls, and not with other calls in the sprite.
func TestSkillsOfAProgramAreSeen(t *testing.T) {
	s := newSprite(t)
	s.nested("fs.write")
	s.nested("notify.user")
	s.write("script.sh", `echo '{"path":"first","content":"1"}' | ./fs.write; echo '{"title":"mine"}' | ./notify.user; cat line >>`+protocol.OutboxFile)
	s.write("line", `{"protocol_version":"v1","event_type":"ACTION_REQUEST","event_id":"a","call_id":"other","sprite_id":"s1","work_item_id":"w1","timestamp":"`+
		protocol.FormatTime(time.Now().Add(time.Hour))+`","payload":{"action":"NOTIFY_USER","parameters":{"title":"not mine"}}}`+"\n")
	s.env.CallID = "call-exec"
	o := s.call("exec.run", `{"argv":["sh","script.sh"]}`)
	if o.exit != 0 {
		t.Fatalf("exec.run = %s", o.stdout)
	}
	want := []string{
		"PHASE_STARTED exec.run",
		"+PHASE_STARTED fs.write", "+ARTIFACT first", "+PHASE_FINISHED fs.write",
		"+PHASE_STARTED notify.user", "+ACTION_REQUEST", "ACTION_REQUEST", "+PHASE_FINISHED notify.user",
		"PHASE_FINISHED exec.run",
	}
	if diff := cmp.Diff(want, summary(t, "call-exec", o.events)); diff != "" {
		t.Errorf("stdout (-want +got):\n%s", diff)
	}
}

func TestAnAgentsOutboxLinesAreJudged(t *testing.T) {
	line := func(at time.Time, id, call, payload string) string {
		return `{"protocol_version":"v1","event_type":"INFO","event_id":"` + id + `","call_id":"` + call + `","sprite_id":"s1","work_item_id":"w1","timestamp":"` +
			protocol.FormatTime(at) + `","payload":` + payload + "}\n"
	}
	soon := time.Now().Add(time.Hour).UTC()
	after := func(n int) time.Time { return soon.Add(time.Duration(n)) }
	tests := map[string]struct {
		lines string
		want  []string
	}{
		"in order, each once":      {line(after(1), "a", "", `{"message":"a"}`) + line(after(2), "b", "x", `{"message":"b"}`) + line(after(1), "a", "", `{"message":"a"}`), []string{"+INFO a", "+INFO b"}},
		"the agent's own call":     {line(after(1), "a", "call-agent", `{"message":"forged"}`), nil},
		"a result":                 {line(after(1), "a", "x", `{"message":"r","kind":"result"}`), nil},
		"no JSON":                  {"garbage\n\x00\xff\n\n" + line(after(1), "a", "x", `{"message":"a"}`), []string{"+INFO a"}},
		"a huge line":              {strings.Repeat("x", 3<<20) + "\n" + line(after(1), "a", "x", `{"message":"a"}`), []string{"+INFO a"}},
		"a rule broken":            {line(after(1), "a", "x", `{}`), nil},
		"no id":                    {strings.Replace(line(after(1), "a", "x", `{"message":"a"}`), `"event_id":"a",`, "", 1), nil},
		"planted to silence":       {line(soon.AddDate(100, 0, 0), "a", "x", `{"message":"a"}`) + line(after(1), "b", "x", `{"message":"b"}`), []string{"+INFO b"}},
		"torn":                     {line(after(1), "a", "x", `{"message":"a"}`) + `{"protocol_version":"v1","event_`, []string{"+INFO a"}},
		"more than one look takes": {manyLines(300, func(n int) string { return line(after(n), "a", "x", `{"message":"n"}`) }), slicesOf(300, "+INFO n")},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newSprite(t)
			s.env.CallID = "call-agent"
			s.write("planted", test.lines)
			o := s.call("agent.run", `{"command":"cat planted >> .lattice/outbox.jsonl","timeout_s":60}`)
			if o.exit != 0 {
				t.Fatalf("agent.run = %s", o.stdout)
			}
			want := append(append([]string{"PHASE_STARTED agent.run"}, test.want...), "PHASE_FINISHED agent.run")
			if diff := cmp.Diff(want, summary(t, "call-agent", o.events)); diff != "" {
				t.Errorf("stdout (-want +got):\n%s", diff)
			}
		})
	}
}

// An outbox that is made anew while the agent runs shows what is new in it, and nothing again.
func TestAnOutboxMadeAnewIsFollowed(t *testing.T) {
	s := newSprite(t)
	root, err := workspace.Open(s.dir)
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	log, err := outbox.Open(root, outbox.Stamp{CallID: "earlier"}, time.Now)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if _, err := log.Append(protocol.Info{Message: "old"}); err != nil {
		t.Fatal(err)
	}
	s.nested("fs.write")
	s.env.CallID = "call-agent"
	o := s.call("agent.run", `{"command":"cp .lattice/outbox.jsonl copy && rm .lattice/outbox.jsonl && mv copy .lattice/outbox.jsonl && echo '{\"path\":\"f\",\"content\":\"\"}' | ./fs.write","timeout_s":60}`)
	want := []string{"PHASE_STARTED agent.run", "+PHASE_STARTED fs.write", "+ARTIFACT f", "+PHASE_FINISHED fs.write", "PHASE_FINISHED agent.run"}
	if diff := cmp.Diff(want, summary(t, "call-agent", o.events)); diff != "" {
		t.Errorf("stdout (-want +got):\n%s", diff)
	}
}

func TestAFloodOfEventsIsNotShown(t *testing.T) {
	s := newSprite(t)
	s.write("flood", floodOfEvents(t, time.Now().Add(time.Minute)))
	o := s.call("agent.run", `{"command":"cat flood >> .lattice/outbox.jsonl","timeout_s":60}`)
	if o.exit != 0 || len(o.stdout) > 17<<20 || len(o.result.Warnings) != 1 || o.result.Warnings[0].Code != "events_not_shown" {
		t.Errorf("exit %d, %d bytes, warnings %v, want a limit and a word about it", o.exit, len(o.stdout), o.result.Warnings)
	}
}

// TestQuestionsAfterAFlood checks that a call waits in the place of a skill that asks after more events than are shown.
func TestQuestionsAfterAFlood(t *testing.T) {
	s := newSprite(t)
	s.nested("ask.user")
	s.write("flood", floodOfEvents(t, time.Now().Add(-time.Minute)))
	s.env.CallID = "call-asks"
	s.waits(s.call("agent.run", `{"command":"cat flood >> .lattice/outbox.jsonl; echo '{\"question\":\"Which color?\"}' | ./ask.user >/dev/null","timeout_s":60}`), "Which color?")
}

// floodOfEvents returns lines of the outbox, more bytes than are shown.
func floodOfEvents(t *testing.T, began time.Time) string {
	payload, err := json.Marshal(protocol.Info{Message: strings.Repeat("x", 200_000)})
	if err != nil {
		t.Fatal(err)
	}
	return manyLines(100, func(n int) string {
		return `{"protocol_version":"v1","event_type":"INFO","event_id":"a","sprite_id":"s1","work_item_id":"w1","timestamp":"` +
			protocol.FormatTime(began.Add(time.Duration(n)).UTC()) + `","payload":` + string(payload) + "}\n"
	})
}

func manyLines(n int, line func(int) string) string {
	var b strings.Builder
	for i := range n {
		b.WriteString(line(i))
	}
	return b.String()
}

func slicesOf(n int, text string) []string {
	s := make([]string, n)
	for i := range s {
		s[i] = text
	}
	return s
}
