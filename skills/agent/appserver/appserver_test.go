package appserver

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/spritekit/lattice/skills/agent/acp"
	"github.com/spritekit/lattice/skills/agent/adapter"
)

// judge allows one command, asks about others, and keeps what was sent and said.
type judge struct {
	asked  []acp.Request
	sent   []string
	events []adapter.Event
	closed bool
}

func (j *judge) Judge(r acp.Request) acp.Verdict {
	j.asked = append(j.asked, r)
	switch {
	case r.SHA256 == "":
		return acp.Deny
	case strings.Contains(string(r.Arguments), "fine"):
		return acp.Allow
	}
	return acp.Ask
}

func (j *judge) Event(e adapter.Event) { j.events = append(j.events, e) }

func (j *judge) Send(line []byte) { j.sent = append(j.sent, string(line)) }

func (j *judge) Close() { j.closed = true }

func TestADialogue(t *testing.T) {
	j := &judge{}
	d := Begin(Config{Cwd: "/w", Model: "m", Mode: acp.Resume, Session: "t1", Prompt: "do it"}, j)
	for _, line := range []string{
		`{"id":7,"result":{}}`, `{"id":1,"result":{}}`, `{"id":2,"result":{"thread":{"id":"t1"},"model":"m"}}`, `{"id":3,"result":{}}`, "", "null", `{"method":7}`,
		`{"method":"item/commandExecution/requestApproval","id":0,"params":{"kind":"command","command":"fine","cwd":"/w"}}`,
		`{"method":"item/fileChange/requestApproval","id":1,"params":{"itemId":"unknown"}}`,
		`{"method":"item/permissions/requestApproval","id":2,"params":{}}`,
		`{"method":"item/started","params":{"item":{"type":"fileChange","id":"c1","changes":[{"path":"a","diff":"x"}]}}}`,
		`{"method":"item/fileChange/requestApproval","id":3,"params":{"itemId":"c1"}}`,
		`{"method":"item/commandExecution/requestApproval","id":4,"params":{"kind":"command","command":"fine","cwd":"/w"}}`,
	} {
		d.Take([]byte(line))
	}
	for i, want := range []string{
		`"method":"initialize"`, `"method":"initialized"`, `"threadId":"t1"`, `"text":"do it"`, `"decision":"accept"`, `"decision":"decline"`, "Method not found",
		`"decision":"cancel"`, `"decision":"cancel"`, // nothing is allowed any more
	} {
		if i >= len(j.sent) || !strings.Contains(j.sent[i], want) {
			t.Fatalf("message %d of %q, want one with %s", i, j.sent, want)
		}
	}
	if !strings.Contains(j.sent[2], "untrusted") || !strings.Contains(j.sent[2], "thread/resume") {
		t.Errorf("the thread is opened with %s", j.sent[2])
	}
	if len(j.sent) != 9 || len(j.asked) != 3 || j.asked[2].Kind != "edit" || !strings.Contains(string(j.asked[2].Arguments), `"diff":"x"`) || j.closed {
		t.Errorf("sent %q, judged %+v, closed %t", j.sent, j.asked, j.closed)
	}
	d.Take([]byte(`{"method":"turn/completed","params":{}}`))
	if !j.closed || len(j.events) != 1 || j.events[0].Text("session") != "t1" {
		t.Errorf("closed %t, events %v", j.closed, j.events)
	}
}

// A thread that is not there ends the dialogue with that reason.
// TestChangesAreHeldInBoundedMemory checks that an agent cannot make us hold the changes of all its items, and that no one is asked about
// changes that are out of date.
func TestChangesAreHeldInBoundedMemory(t *testing.T) {
	large := `[{"diff":"` + strings.Repeat("x", 64<<10) + `"}]`
	for name, test := range map[string]struct{ id, changes string }{
		"changes": {"%d", large},
		"ids":     {strings.Repeat("y", 64<<10) + "%d", "[1]"},
		"items":   {"%d", "[1]"},
	} {
		j := &judge{}
		d := Begin(Config{}, j)
		note := func(id, changes string) {
			raw, err := json.Marshal(map[string]any{"method": "item/fileChange/patchUpdated", "params": map[string]any{"itemId": id, "changes": json.RawMessage(changes)}})
			if err != nil {
				t.Fatal(err)
			}
			d.Take(raw)
		}
		note("first", `["fine"]`)
		for i := range 1000 {
			note(fmt.Sprintf(test.id, i), test.changes)
		}
		if name == "items" {
			for i := range maxChanges {
				note(fmt.Sprint("more", i), "[1]")
			}
		}
		size := 0
		for id, changes := range d.changes {
			size += len(id) + len(changes)
		}
		if size > maxHeld || size != d.held || len(d.changes) > maxChanges {
			t.Errorf("%s: %d bytes of %d items are held, counted as %d", name, size, len(d.changes), d.held)
		}
		note("first", large)
		d.Take([]byte(`{"method":"item/fileChange/requestApproval","id":1,"params":{"itemId":"first"}}`))
		if len(j.asked) != 1 || strings.Contains(string(j.asked[0].Arguments), "fine") {
			t.Errorf("%s: asked about %.200s", name, fmt.Sprint(j.asked))
		}
	}
}

func TestAThreadThatIsNotThere(t *testing.T) {
	j := &judge{}
	d := Begin(Config{Mode: acp.Resume, Session: "t1"}, j)
	d.Take([]byte(`{"id":1,"result":{}}`))
	d.Take([]byte(`{"id":2,"error":{"code":-32600,"message":"no rollout found"}}`))
	if !j.closed || len(j.events) != 1 || j.events[0].Text("reason") != acp.ReasonNoSession {
		t.Errorf("closed %t, events %v", j.closed, j.events)
	}
}
