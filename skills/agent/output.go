package agent

import (
	"encoding/json"
	"strings"
	"time"
	"unicode"

	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

const (
	maxLine          = 1 << 20
	maxLastLine      = 200  // bytes of the agent's last line in a progress event
	maxRelayed       = 1000 // events of one agent
	progressInterval = time.Second
)

// output takes what the agent prints. It is written to by one goroutine, and read after that has ended.
type output struct {
	call       *skill.Call
	transcript *proc.Transcript
	silence    *silence
	pass       bool
	lines      proc.Lines
	tail       proc.Tail
	count      int
	relayed    int
	refused    int
	told       time.Time
	err        error // the first event that could not be emitted
}

func newOutput(c *skill.Call, t *proc.Transcript, s *silence, pass bool) *output {
	o := &output{call: c, transcript: t, silence: s, pass: pass, tail: proc.Tail{Limit: maxFinalText}}
	o.lines = proc.Lines{Max: maxLine, Each: o.line}
	return o
}

func (o *output) Write(p []byte) (int, error) {
	o.silence.heard()
	// Neither tail nor lines can fail; failures of events are kept for the end.
	_, _ = o.tail.Write(p)
	_, _ = o.lines.Write(p)
	return o.transcript.Write(p)
}

func (o *output) line(text string) {
	o.count++
	if body, ok := strings.CutPrefix(text, protocol.Prefix); ok {
		if o.pass {
			o.relay(body)
		}
		return // an event, ours to relay or not, is no progress to show
	}
	if now := time.Now(); now.Sub(o.told) >= progressInterval {
		o.told = now
		o.tell(text)
	}
}

// tell shows where the agent is: how much it said, and the last of it.
func (o *output) tell(last string) {
	metadata, err := json.Marshal(map[string]any{"lines": o.count})
	if err != nil {
		o.fail(err)
		return
	}
	o.fail(o.call.Emit(protocol.Info{Message: sanitise(last), Kind: "agent", Metadata: metadata}))
}

// relay emits an event that the agent printed as ours, if it is one that asks for nothing. One that has an id was
// recorded by the skill that printed it first, and is relayed from there.
func (o *output) relay(body string) {
	event, problems, ok := protocol.Decode([]byte(body))
	if event.EventID != "" {
		return
	}
	if !ok || len(problems) > 0 || o.relayed >= maxRelayed {
		o.refused++
		return
	}
	payload, err := event.Open()
	if err != nil {
		o.refused++
		return
	}
	switch payload := payload.(type) {
	case protocol.Info, protocol.Artifact:
		o.relayed++
		o.fail(o.call.Emit(payload))
	default:
		o.refused++
	}
}

func (o *output) fail(err error) {
	if o.err == nil {
		o.err = err
	}
}

// finish reads the last line and reports what went wrong on the way.
func (o *output) finish() error {
	o.lines.Flush()
	if o.refused > 0 {
		o.call.Warn("events_refused", "events that the agent printed were not relayed: only valid INFO and ARTIFACT are, and not without end")
	}
	return o.err
}

func (o *output) finalText() string { return strings.ToValidUTF8(string(o.tail.Bytes()), "\uFFFD") }

// sanitise makes a line of a stranger fit for a terminal.
func sanitise(line string) string {
	line = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(line[:min(len(line), 4*maxLastLine)], "\uFFFD"))
	if len(line) > maxLastLine {
		line = strings.ToValidUTF8(line[:maxLastLine], "") + "…"
	}
	if line = strings.TrimSpace(line); line == "" {
		return "…"
	}
	return line
}
