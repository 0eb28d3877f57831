package agent

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/spritekit/lattice/skills/agent/adapter"
	"github.com/spritekit/lattice/skills/agent/idle"
	"github.com/spritekit/lattice/skills/agent/tally"
	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/redact"
	"github.com/spritekit/lattice/spritekit/skill"
	"github.com/spritekit/lattice/spritekit/text"
)

const (
	maxTextLine  = 1 << 20
	maxEventLine = 8 << 20
	maxDocument  = 8 << 20
	maxLastLine  = 200  // bytes of the agent's text in a progress event
	maxRelayed   = 1000 // events of one agent
	maxStderr    = 4 << 10

	progressInterval = time.Second
	toolInterval     = 100 * time.Millisecond
)

// output reads stdout of the agent. It writes everything to the transcript without secrets, adds the events that the adapter's
// rules find to the tally, and emits some of them as INFO of kind "agent". One goroutine writes to it; it is read after that
// goroutine has ended.
type output struct {
	call    *skill.Call
	adapter adapter.Adapter
	secrets *redact.Secrets
	silence *idle.Timer
	pass    bool
	tally   *tally.Tally
	heard   func(adapter.Event) // called after the tally has counted the event; may stop the agent
	talk    *talk               // set if the agent asks us for something while it works

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

// shared is a transcript for both stdout and stderr.
type shared struct {
	mu sync.Mutex
	to io.Writer
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.to.Write(p)
}

func newOutput(c *skill.Call, a adapter.Adapter, talks bool, s *redact.Secrets, transcript io.Writer, silence *idle.Timer, pass bool, heard func(adapter.Event)) *output {
	o := &output{
		call: c, adapter: a, secrets: s, silence: silence, pass: pass, tally: tally.New(), heard: heard,
		tail: proc.Tail{Limit: tally.MaxText}, document: proc.Head{}, told: map[string]time.Time{},
	}
	o.lines = proc.Lines{Max: maxEventLine, Each: o.handleLine}
	switch a.Output {
	case "text":
		o.lines.Max = maxTextLine
	case "document":
		o.document.Limit = maxDocument
	}
	to := io.MultiWriter(transcript, &o.tail, &o.document)
	if !talks {
		to = io.MultiWriter(to, &o.lines)
	}
	o.sink = s.Writer(to)
	return o
}

// Write takes a part of stdout. The messages of a protocol are read as they are, and at once: an agent waits for the answers,
// and a file that it writes has its bytes.
func (o *output) Write(p []byte) (int, error) {
	o.silence.Restart()
	if o.talk != nil {
		_, _ = o.lines.Write(p) // it never fails
	}
	return o.sink.Write(p)
}

// handleLine takes one line of stdout.
func (o *output) handleLine(text string) {
	o.count++
	if body, ok := strings.CutPrefix(text, protocol.Prefix); ok {
		if o.pass {
			o.relayEvent(body)
		}
		return // an event is not shown as progress
	}
	if o.adapter.Output == "text" {
		o.emitInfo(adapter.KindText, progressInterval, text, map[string]any{"lines": o.count})
		return
	}
	if o.adapter.Output != "document" {
		o.applyRules([]byte(text))
	}
	if o.talk != nil {
		o.talk.takeLine(text, o.lines.Cut)
	}
}

// applyRules applies the rules of the adapter to a JSON value. Other text is only written to the transcript.
func (o *output) applyRules(raw []byte) {
	var value any
	if len(o.adapter.Events) == 0 || json.Unmarshal(raw, &value) != nil {
		return
	}
	for _, s := range adapter.Apply(o.adapter.Events, value) {
		o.addEvent(s)
	}
}

// addEvent counts an event and shows it.
func (o *output) addEvent(s adapter.Event) {
	o.tally.Add(s)
	o.reportEvent(s)
	o.heard(s)
}

// reportEvent emits the event as INFO unless the last one of its kind was too recent.
func (o *output) reportEvent(s adapter.Event) {
	switch s.Kind {
	case adapter.KindStart:
		o.emitInfo(s.Kind, 0, o.adapter.Name+" begins", map[string]any{"session_id": s.Text("session"), "model": s.Text("model")})
	case adapter.KindText:
		o.emitInfo(s.Kind, progressInterval, o.tally.Final[max(0, len(o.tally.Final)-4*maxLastLine):], nil)
	case adapter.KindToolCall:
		o.emitInfo(s.Kind, toolInterval, s.Text("name")+" "+s.Text("input"), map[string]any{"tool": cleanLine(s.Text("name"))})
	case adapter.KindToolResult:
		if s.Truth("failed") {
			o.emitInfo(s.Kind, toolInterval, "a tool failed", map[string]any{"failed": true})
		}
	case adapter.KindPlan:
		done, next := planProgress(s.List("entries"))
		o.emitInfo(s.Kind, progressInterval, fmt.Sprintf("plan: %d of %d done; next: %s", done, len(s.List("entries")), next), map[string]any{"done": done, "steps": len(s.List("entries"))})
	case adapter.KindRetry:
		o.emitInfo(s.Kind, progressInterval, "the agent asks the model again: "+s.Text("message"), map[string]any{"attempt": s.Number("attempt"), "status": s.Number("status")})
	case adapter.KindEnd:
		u := o.tally.UsageSince(tally.Usage{})
		o.emitInfo(adapter.KindUsage, 0, o.adapter.Name+" ends", map[string]any{"turns": o.tally.Turns, "input": u.Input, "output": u.Output})
	}
}

// planProgress returns the number of steps of a plan that are done, and the first one that is not.
func planProgress(entries []any) (done int, next string) {
	for _, e := range entries {
		one, _ := e.(map[string]any)
		if step := (adapter.Event{Fields: one}); step.Text("status") == "completed" {
			done++
		} else if next == "" {
			next = step.Text("content")
		}
	}
	return done, next
}

// emitInfo emits INFO of kind "agent", at most one of the same sort in an interval.
func (o *output) emitInfo(sort string, interval time.Duration, message string, more map[string]any) {
	now := time.Now()
	if at, ok := o.told[sort]; ok && now.Sub(at) < interval {
		return
	}
	o.told[sort] = now
	u := o.tally.UsageSince(tally.Usage{})
	metadata := map[string]any{"event": sort, "so_far": map[string]any{
		"turns": o.tally.Turns, "tool_calls": o.tally.Calls.Total, "retries": o.tally.Retries, "tokens": u.Input + u.Output, "cost_usd": o.tally.Paid,
	}}
	maps.Copy(metadata, more)
	raw, err := json.Marshal(metadata)
	if err != nil {
		o.keepError(err)
		return
	}
	// The stream is already redacted, but decoding JSON may have restored a secret.
	o.keepError(o.call.Emit(protocol.Info{Message: o.secrets.Text(cleanLine(o.secrets.Text(message))), Kind: "agent", Metadata: o.secrets.Bytes(raw)}))
}

// relayEvent emits an event that the agent printed as an event of this call if it requests nothing. An event with an id was
// recorded by the skill that printed it first, and is relayed from the outbox.
func (o *output) relayEvent(body string) {
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
		o.keepError(o.call.Emit(o.redactInfo(payload)))
	case protocol.Artifact:
		payload.Kind, payload.Ref, payload.URL = o.secrets.Text(payload.Kind), o.secrets.Text(payload.Ref), o.secrets.Text(payload.URL)
		payload.Metadata = o.secrets.JSON(payload.Metadata) // the lines of an agent that talks are read as they are
		o.relayed++
		o.keepError(o.call.Emit(payload))
	default:
		o.refused++
	}
}

// redactInfo removes secrets that JSON escapes may have hidden in an event.
func (o *output) redactInfo(info protocol.Info) protocol.Info {
	info.Message, info.Kind = o.secrets.Text(info.Message), o.secrets.Text(info.Kind)
	if info.Kind == skill.KindNestedWaiting || info.Kind == protocol.KindAgentTurn { // only skills may say so
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

// keepError keeps the first error.
func (o *output) keepError(err error) {
	if o.err == nil {
		o.err = err
	}
}

// finish handles the last line and returns the first error.
func (o *output) finish() error {
	o.keepError(o.sink.Flush())
	o.lines.Flush()
	if o.adapter.Output == "document" {
		o.applyRules(o.document.Bytes())
	}
	if o.refused > 0 {
		o.call.Warn("events_refused", "some events that the agent printed were not relayed: only valid INFO and ARTIFACT are, and only a limited number")
	}
	return o.err
}

// finalText returns the last text of the agent: that of its events, or the end of its output.
func (o *output) finalText() string {
	text := o.tally.Final
	if o.adapter.Output == "text" {
		text = string(o.tail.Bytes())
	}
	return o.secrets.Text(strings.ToValidUTF8(text, "\uFFFD"))
}

// cleanLine makes an untrusted line safe to show on a terminal.
func cleanLine(line string) string {
	line = text.Head(text.Line(line[:min(len(line), 4*maxLastLine)]), maxLastLine)
	if line = strings.TrimSpace(line); line == "" {
		return "…"
	}
	return line
}
