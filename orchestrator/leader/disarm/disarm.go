// Package disarm records that the text of a sprite looks like more than it is: like an event, like a sequence for a terminal, like HTML
// that a browser would carry out. Start with [Notes]. Such text is kept, and shown as text: the terminal gets it without control
// characters, the page escapes it, and output is never an event. Nothing is refused, so without these entries the audit log would
// not have the attempt.
//
// A run has one entry for each [Kind] in its output, one for each in its events and one for each in its results, however much it
// prints: a sprite cannot fill the log. An entry names the kind and the place, never the text.
package disarm

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/caller"
	"github.com/spritekit/lattice/orchestrator/engine/driver"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/store"
)

// Notes records findings.
type Notes struct {
	Facts audit.Facts
	// Queue appends an entry in the transaction of the next commit.
	Queue  func(audit.Entry)
	Logger zerolog.Logger

	mu    sync.Mutex
	known map[string]bool // keys of entries
}

// maxKnown bounds the keys in memory. The log knows all.
const maxKnown = 10000

// found is the body of an entry.
type found struct {
	Where string `json:"where"` // output, result, or the type of an event
	Node  string `json:"node,omitempty"`
	Call  string `json:"call_id,omitempty"`
	Looks Kind   `json:"looks_like"`
	What  string `json:"found"`
	Done  string `json:"outcome"`
}

// outcome is the same for all such texts.
const outcome = "kept as text, not carried out"

// entry returns the entry about a finding. ok is false if this process has recorded one of its kind before.
func (n *Notes) entry(run, place string, f found) (e audit.Entry, ok bool) {
	key := "disarmed:" + run + ":" + place + ":" + string(f.Looks)
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.known[key] {
		return e, false
	}
	if n.known == nil || len(n.known) >= maxKnown {
		n.known = map[string]bool{}
	}
	n.known[key] = true
	f.Done = outcome
	body, err := json.Marshal(f)
	if err != nil {
		return e, false
	}
	who := audit.Who{Name: audit.Run(run), UID: -1}
	return audit.Entry{At: time.Now(), Kind: audit.Disarmed, Subject: audit.Run(run), Key: key, Who: &who, Body: body}, true
}

// Output returns open with writers that record findings in the output of a run, before they write it.
func (n *Notes) Output(open func(run, node string) io.Writer) func(run, node string) io.Writer {
	return func(run, node string) io.Writer {
		return &writer{Writer: open(run, node), notes: n, run: run, node: node}
	}
}

// writer is the log of a node's output.
type writer struct {
	io.Writer
	notes     *Notes
	run, node string
	tail      []byte // the last bytes that were written, in which a finding may begin
	seen      []Kind
}

// maxTail is the number of bytes of a finding that an earlier write may hold.
const maxTail = 256

// Write implements io.Writer.
func (w *writer) Write(p []byte) (int, error) {
	whole := p
	if len(w.tail) > 0 {
		whole = slices.Concat(w.tail, p)
	}
	for _, k := range kinds {
		if slices.Contains(w.seen, k.Kind) {
			continue
		}
		if what := k.find(whole); what != "" {
			w.seen = append(w.seen, k.Kind)
			w.notes.record(w.run, found{Where: "output", Node: w.node, Looks: k.Kind, What: what})
		}
	}
	w.tail = bytes.Clone(whole[max(0, len(whole)-maxTail):])
	return w.Writer.Write(p)
}

// record appends an entry about output. If that fails the output is written nevertheless, as it is harmless.
func (n *Notes) record(run string, f found) {
	e, ok := n.entry(run, "output", f)
	if !ok {
		return
	}
	ctx := caller.With(context.Background(), *e.Who)
	if _, err := n.Facts.AddFact(ctx, e, e.Body, store.Any); err != nil {
		n.Logger.Warn().Err(err).Str("run_id", run).Str("looks_like", string(f.Looks)).Msg("record what output looks like")
	}
}

// results are the types of facts with the result or the question of a skill.
var results = []string{lattice.CallFinished{}.FactType(), lattice.CallSuspended{}.FactType()}

// Log is the engine's log, which also records findings in the texts of events and results, in the transaction that appends them.
type Log struct {
	driver.Log
	Notes *Notes
}

// Append implements driver.Log.
func (l Log) Append(ctx context.Context, run string, after lattice.Seq, entries []lattice.Entry) (lattice.Seq, error) {
	for _, e := range entries {
		place, where := "event", "event "+e.Type
		switch {
		case e.Kind == lattice.EntryEvent:
		case e.Kind == lattice.EntryFact && slices.Contains(results, e.Type):
			place, where = "result", "result"
		default:
			continue
		}
		for _, f := range findInJSON(e.Body) {
			if noted, ok := l.Notes.entry(run, place, found{Where: where, Call: callOf(e), Looks: f.Kind, What: f.What}); ok {
				l.Notes.Queue(noted)
			}
		}
	}
	return l.Log.Append(ctx, run, after, entries)
}

// callOf returns the call that an entry is about. A fact names it in its body.
func callOf(e lattice.Entry) string {
	var body struct {
		CallID string `json:"call_id"`
	}
	if e.CallID == "" && json.Unmarshal(e.Body, &body) != nil {
		return ""
	}
	return cmp.Or(e.CallID, body.CallID)
}

// findInJSON returns the findings in the texts of a JSON value, each kind once.
func findInJSON(raw []byte) []Finding {
	// The beginning of a text counts as the beginning of a line, although its JSON does not.
	if bytes.IndexByte(raw, '<') < 0 && !bytes.Contains(raw, []byte(`\u`)) && !bytes.Contains(raw, []byte("::")) && len(Find(raw)) == 0 {
		return nil
	}
	var v any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber() // a number out of the range of float64 must not make the value unreadable
	if dec.Decode(&v) != nil {
		return Find(raw)
	}
	var all []Finding
	eachText(v, func(text string) {
		for _, f := range Find([]byte(text)) {
			if !slices.ContainsFunc(all, func(known Finding) bool { return known.Kind == f.Kind }) {
				all = append(all, f)
			}
		}
	})
	return all
}

// eachText calls visit with each text in a JSON value, names of members as well.
func eachText(v any, visit func(string)) {
	switch v := v.(type) {
	case string:
		visit(v)
	case []any:
		for _, item := range v {
			eachText(item, visit)
		}
	case map[string]any:
		for name, member := range v {
			visit(name)
			eachText(member, visit)
		}
	}
}
