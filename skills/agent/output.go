package agent

import (
	"encoding/json"
	"io"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/redact"
	"github.com/spritekit/lattice/spritekit/skill"
)

const (
	maxTextLine  = 1 << 20
	maxEventLine = 8 << 20
	maxDocument  = 8 << 20
	maxLastLine  = 200  // bytes of what an agent said in a progress event
	maxRelayed   = 1000 // events of one agent
	maxStderr    = 4 << 10

	progressInterval = time.Second
	toolInterval     = 100 * time.Millisecond
)

// output takes what the agent prints on stdout: everything goes to the transcript, without secrets, and what the
// adapter's rules understand goes into the tally and, now and then, out as INFO events of kind "agent". It is written to
// by one goroutine, and read after that has ended.
type output struct {
	call    *skill.Call
	adapter adapter
	secrets *redact.Secrets
	silence *silence
	pass    bool
	tally   *tally
	heard   func(said) // after the tally; may stop the agent

	sink     *redact.Writer
	lines    proc.Lines
	tail     proc.Tail
	document proc.Head
	count    int
	relayed  int
	refused  int
	told     map[string]time.Time // by kind
	err      error                // the first event that could not be emitted
}

// shared is a transcript that stdout and stderr are both written to.
type shared struct {
	mu sync.Mutex
	to io.Writer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.to.Write(p)
}

func newOutput(c *skill.Call, a adapter, s *redact.Secrets, transcript io.Writer, silence *silence, pass bool, heard func(said)) *output {
	o := &output{
		call: c, adapter: a, secrets: s, silence: silence, pass: pass, tally: newTally(), heard: heard,
		tail: proc.Tail{Limit: maxFinalText}, document: proc.Head{}, told: map[string]time.Time{},
	}
	o.lines = proc.Lines{Max: maxEventLine, Each: o.line}
	switch a.Output {
	case "text":
		o.lines.Max = maxTextLine
	case "document":
		o.document.Limit = maxDocument
	}
	o.sink = s.Writer(io.MultiWriter(transcript, &o.tail, &o.document, &o.lines))
	return o
}

func (o *output) Write(p []byte) (int, error) {
	o.silence.heard()
	return o.sink.Write(p)
}

func (o *output) line(text string) {
	o.count++
	if body, ok := strings.CutPrefix(text, protocol.Prefix); ok {
		if o.pass {
			o.relay(body)
		}
		return // an event, ours to relay or not, is no progress to show
	}
	if o.adapter.Output == "text" {
		o.tell(kindText, progressInterval, text, map[string]any{"lines": o.count})
		return
	}
	if o.adapter.Output != "document" {
		o.understand([]byte(text))
	}
}

// understand applies the rules to one JSON value. What is none is only in the transcript.
func (o *output) understand(raw []byte) {
	var value any
	if json.Unmarshal(raw, &value) != nil {
		return
	}
	for _, s := range apply(o.adapter.Events, value) {
		o.tally.add(s)
		o.report(s)
		o.heard(s)
	}
}

// report tells of an event, if it is time.
func (o *output) report(s said) {
	switch s.kind {
	case kindStart:
		o.tell(s.kind, 0, o.adapter.Name+" begins", map[string]any{"session_id": s.text("session"), "model": s.text("model")})
	case kindText:
		o.tell(s.kind, progressInterval, o.tally.final[max(0, len(o.tally.final)-4*maxLastLine):], nil)
	case kindToolCall:
		o.tell(s.kind, toolInterval, s.text("name")+" "+s.text("input"), map[string]any{"tool": sanitise(s.text("name"))})
	case kindToolResult:
		if s.truth("failed") {
			o.tell(s.kind, toolInterval, "a tool failed", map[string]any{"failed": true})
		}
	case kindRetry:
		o.tell(s.kind, progressInterval, "the model is asked again: "+s.text("message"), map[string]any{"attempt": s.number("attempt"), "status": s.number("status")})
	case kindEnd:
		u := o.tally.used(usage{})
		o.tell(kindUsage, 0, o.adapter.Name+" ends", map[string]any{"turns": o.tally.turns, "input": u.Input, "output": u.Output})
	}
}

// tell emits INFO of kind "agent", at most one of its sort in an interval.
func (o *output) tell(sort string, interval time.Duration, message string, more map[string]any) {
	now := time.Now()
	if at, ok := o.told[sort]; ok && now.Sub(at) < interval {
		return
	}
	o.told[sort] = now
	u := o.tally.used(usage{})
	metadata := map[string]any{"event": sort, "so_far": map[string]any{
		"turns": o.tally.turns, "tool_calls": o.tally.calls.Total, "retries": o.tally.retries, "tokens": u.Input + u.Output, "cost_usd": o.tally.paid,
	}}
	for key, value := range more {
		metadata[key] = value
	}
	raw, err := json.Marshal(metadata)
	if err != nil {
		o.fail(err)
		return
	}
	// The stream has lost its secrets already; but decoding JSON may have put one together again.
	o.fail(o.call.Emit(protocol.Info{Message: o.secrets.Text(sanitise(o.secrets.Text(message))), Kind: "agent", Metadata: o.secrets.Bytes(raw)}))
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
	case protocol.Info:
		if event.Legacy {
			payload = protocol.MarkLegacy(payload)
		}
		o.relayed++
		o.fail(o.call.Emit(o.clean(payload)))
	case protocol.Artifact:
		o.relayed++
		o.fail(o.call.Emit(payload))
	default:
		o.refused++
	}
}

// clean takes secrets out of an event that JSON's escapes may have hidden them in.
func (o *output) clean(info protocol.Info) protocol.Info {
	info.Message, info.Kind = o.secrets.Text(info.Message), o.secrets.Text(info.Kind)
	if info.Kind == skill.KindNestedWaiting { // only skills ask
		info.Kind = "agent"
	}
	var metadata map[string]any
	if o.secrets.Any() && json.Unmarshal(info.Metadata, &metadata) == nil {
		if raw, err := json.Marshal(metadata); err == nil && string(o.secrets.Bytes(raw)) != string(raw) {
			info.Metadata = o.secrets.Bytes(raw)
		}
	}
	return info
}

func (o *output) fail(err error) {
	if o.err == nil {
		o.err = err
	}
}

// finish reads the last line and reports what went wrong on the way.
func (o *output) finish() error {
	o.fail(o.sink.Flush())
	o.lines.Flush()
	if o.adapter.Output == "document" {
		o.understand(o.document.Bytes())
	}
	if o.refused > 0 {
		o.call.Warn("events_refused", "events that the agent printed were not relayed: only valid INFO and ARTIFACT are, and not without end")
	}
	return o.err
}

// finalText is the last thing that the agent said: by its events, or the end of what it printed.
func (o *output) finalText() string {
	text := o.tally.final
	if o.adapter.Output == "text" {
		text = string(o.tail.Bytes())
	}
	return o.secrets.Text(strings.ToValidUTF8(text, "\uFFFD"))
}

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
