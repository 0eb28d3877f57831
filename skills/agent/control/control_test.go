package control

import (
	"fmt"
	"strings"
	"testing"

	"github.com/spritekit/lattice/skills/agent/acp"
)

// judge decides by the name of the tool, and keeps what was sent.
type judge struct {
	asked  []acp.Request
	sent   []string
	closed bool
}

func (j *judge) Judge(r acp.Request) acp.Verdict {
	j.asked = append(j.asked, r)
	switch {
	case r.Name == "Read":
		return acp.Allow
	case r.Name == "Bash" && r.SHA256 != "":
		return acp.Ask
	}
	return acp.Deny
}

func (j *judge) Send(line []byte) { j.sent = append(j.sent, string(line)) }

func (j *judge) Close() { j.closed = true }

func request(id int, tool, input string) []byte {
	return fmt.Appendf(nil, `{"type":"control_request","request_id":"%d","request":{"subtype":"can_use_tool","tool_name":%q,"input":%s}}`, id, tool, input)
}

func TestRequestsAreAnsweredAsJudged(t *testing.T) {
	j := &judge{}
	d := Begin(j, "do it")
	d.Take(request(1, "Read", `{"path": "a"}`))
	d.Take(request(2, "Write", `{}`))
	d.Take([]byte(`{"type":"control_request","request_id":"3","request":{"subtype":"hook_callback"}}`))
	for _, noise := range []string{"", "null", "[]", `{"type":7}`, `{"type":"assistant"}`, `{"type":"control_request","request":7}`} {
		d.Take([]byte(noise))
	}
	for i, want := range []string{`"text":"do it"`, `"behavior":"allow","updatedInput":{"path":"a"}`, `"behavior":"deny"`, `"subtype":"error"`} {
		if i >= len(j.sent) || !strings.Contains(j.sent[i], want) {
			t.Fatalf("message %d of %q, want one with %s", i, j.sent, want)
		}
	}
	if len(j.sent) != 4 || j.closed {
		t.Fatalf("sent %q, closed %t", j.sent, j.closed)
	}
	d.Take(request(4, "Bash", `{"command":"x"}`))
	if !strings.Contains(j.sent[4], `"interrupt":true`) || !j.closed {
		t.Errorf("a request that a person decides about was answered with %s", j.sent[4])
	}
	d.Take(request(5, "Read", `{"path":"a"}`)) // nothing is allowed any more, not even what was
	if !strings.Contains(j.sent[5], `"behavior":"deny"`) || len(j.asked) != 3 {
		t.Errorf("after that: %s, %d were judged", j.sent[5], len(j.asked))
	}
}

// The digest is of the tool and all its arguments, whatever their order.
func TestTheDigestIsOfToolAndArguments(t *testing.T) {
	digest := func(tool, input string) string {
		j := &judge{}
		Begin(j, "").Take(request(1, tool, input))
		return j.asked[0].SHA256
	}
	same := digest("Bash", `{"a":1,"b":2}`)
	if same == "" || digest("Bash", `{"b":2,"a":1}`) != same {
		t.Error("the order of arguments changes the digest")
	}
	for _, other := range []string{digest("Bash", `{"a":1,"b":3}`), digest("Write", `{"a":1,"b":2}`), digest("Bash", "null"), digest("", `{"a":1}`)} {
		if other == same {
			t.Error("another request has the same digest")
		}
	}
	if digest("Bash", "null") != "" || digest("", `{"a":1}`) != "" {
		t.Error("a request without a tool or arguments has a digest")
	}
}
