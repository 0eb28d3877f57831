package replay

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/spritekit/lattice/orchestrator/engine"
	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// Divergence is the first place where a journal differs from its records.
type Divergence struct {
	Seq     lattice.Seq `json:"seq"`
	Fact    string      `json:"fact,omitempty"` // its type
	Node    string      `json:"node,omitempty"` // that the run was at
	What    string      `json:"what"`           // program | fact | missing | extra | order | call_id | edge | state | snapshot
	Message string      `json:"message"`
	Want    string      `json:"want,omitempty"` // as the journal says
	Got     string      `json:"got,omitempty"`  // as the program gives
}

// Result is a run that was told again by its journal alone, without any effect.
type Result struct {
	Facts    int
	State    runstate.State
	StateSum string
	seq      lattice.Seq
	chain    string // of the last fact
	sums     runstate.Digester
	// Diverged is the first difference, nil when the journal leads byte for byte to the recorded state.
	Diverged *Divergence
}

// Verify folds the facts of a run and compares every step with its record: each fact's own bytes, the ids of calls
// (secret nil leaves that out), the nodes that the step began, the digest of the state behind it, that of all facts up to
// it, and the snapshot of the history where that was taken (nil leaves that out).
func Verify(p *ir.Program, run string, secret []byte, h History) (Result, error) {
	out := Result{State: runstate.New(run)}
	then := out.State // at the snapshot
	facts := slices.DeleteFunc(slices.Clone(h.Facts), func(e lattice.Entry) bool { return e.Kind != lattice.EntryFact })
	for i, e := range facts {
		if d := out.verifyFact(p, secret, e); d != nil {
			if m := out.findMisplaced(facts[i:]); m != nil {
				d = m
			}
			d.Seq, d.Fact = e.Seq, e.Type
			d.Node = cmp.Or(d.Node, out.State.Node)
			out.Diverged = d
			return out, nil
		}
		out.Facts++
		if e.Seq <= h.SnapshotSeq {
			then = out.State
		}
	}
	body, err := out.State.Encode()
	if err != nil {
		return out, fmt.Errorf("encode run state: %w", err)
	}
	out.StateSum = lattice.StateSum(body)
	if len(h.Snapshot) == 0 {
		return out, nil
	}
	if body, err = then.Encode(); err != nil {
		return out, fmt.Errorf("encode run state: %w", err)
	}
	stored, err := runstate.Decode(h.Snapshot)
	if err != nil {
		return out, err
	}
	if theirs, err := stored.Encode(); err != nil || string(theirs) != string(body) {
		out.Diverged = &Divergence{What: "snapshot", Node: stored.Node, Want: lattice.StateSum(theirs), Got: lattice.StateSum(body),
			Message: "the stored state is not the one that the journal leads to"}
	}
	return out, nil
}

// verifyFact tells one fact again.
func (r *Result) verifyFact(p *ir.Program, secret []byte, e lattice.Entry) *Divergence {
	switch {
	case e.Run != r.State.RunID:
		return &Divergence{What: "fact", Want: e.Run, Got: r.State.RunID, Message: "the entry belongs to another run"}
	case e.Seq == r.seq:
		return &Divergence{What: "extra", Message: "the entry occurs twice"}
	case e.Seq < r.seq:
		return &Divergence{What: "order", Message: fmt.Sprintf("the entry comes behind entry %d", r.seq)}
	}
	fact, err := lattice.DecodeFact(e.Type, e.Body)
	if err != nil {
		return &Divergence{What: "fact", Message: err.Error()}
	}
	if d := sameFact(fact, e.Body); d != nil {
		return d
	}
	if start, ok := fact.(lattice.RunStarted); ok && start.Program != p.Digest {
		return &Divergence{What: "program", Want: start.Program, Got: p.Digest, Message: "the run was started with another program"}
	}
	if id, d := callOf(fact), r.State; id.call != "" && secret != nil {
		if c, ok := d.FindCommand(id.command); ok && c.Call != nil {
			if want := lattice.CallID(secret, *c.Call); want != id.call {
				return &Divergence{What: "call_id", Node: c.Node, Want: id.call, Got: want, Message: "the fact is about a call that was never made"}
			}
		}
	}
	next, _, err := engine.Step(p, r.State, fact)
	if err != nil {
		return &Divergence{What: "fact", Message: err.Error() + ": the fact was changed, or others before it are missing"}
	}
	if !slices.Equal(next.Started, e.Started) {
		return &Divergence{What: "edge", Want: fmt.Sprint(e.Started), Got: fmt.Sprint(next.Started), Message: "the run went on to other nodes than the program leads to"}
	}
	if e.StateSum != "" {
		sum, same, err := r.sums.Verify(next, e.StateSum)
		if err != nil {
			return &Divergence{What: "state", Message: err.Error()}
		}
		if !same {
			what := "the fact"
			if _, first := fact.(lattice.RunStarted); first {
				what = "the fact, which holds the run's input, its context and its permissions,"
			}
			return &Divergence{What: "state", Want: e.StateSum, Got: sum, Message: what + " does not lead to the state that was recorded with it: one of the two was changed"}
		}
	}
	if chain := lattice.Chain(r.chain, e); e.Chain != chain && (e.Chain != "" || r.chain != "") {
		return &Divergence{What: "fact", Want: e.Chain, Got: chain, Message: "the fact is not the recorded one: it was changed, or others before it are missing"}
	}
	r.State, r.seq, r.chain = next, e.Seq, e.Chain
	return nil
}

// findMisplaced looks behind an entry with which the tale went wrong for the one that was recorded in its place; nil when there
// is none.
func (r *Result) findMisplaced(rest []lattice.Entry) *Divergence {
	here := rest[0]
	if here.Chain == "" || here.Chain == lattice.Chain(r.chain, here) {
		return nil
	}
	for _, e := range rest[1:] {
		switch {
		case e.Chain != lattice.Chain(r.chain, e):
		case e.Seq < here.Seq:
			return &Divergence{What: "order", Message: fmt.Sprintf("the entry stands before entry %d (%s), which was recorded first", e.Seq, e.Type)}
		default:
			return &Divergence{What: "extra", Message: fmt.Sprintf("the entry was not recorded here; entry %d (%s) was", e.Seq, e.Type)}
		}
	}
	return nil
}

// Differs finds the first fact that a journal has more, or less, or elsewhere, than the recorded one; the content of entries is
// for Replay to judge. Nil when both have the same entries in the same order.
func Differs(recorded, journal []lattice.Entry) *Divergence {
	other := func(e lattice.Entry) bool { return e.Kind != lattice.EntryFact }
	recorded, journal = slices.DeleteFunc(slices.Clone(recorded), other), slices.DeleteFunc(slices.Clone(journal), other)
	at := func(list []lattice.Entry, seq lattice.Seq) int {
		return slices.IndexFunc(list, func(e lattice.Entry) bool { return e.Seq == seq })
	}
	told := func(e lattice.Entry, what, format string, args ...any) *Divergence {
		return &Divergence{Seq: e.Seq, Fact: e.Type, What: what, Message: fmt.Sprintf(format, args...)}
	}
	for i, e := range journal {
		switch {
		case i < len(recorded) && recorded[i].Seq == e.Seq:
		case at(recorded, e.Seq) < 0:
			return told(e, "extra", "the run recorded no such entry")
		case at(recorded, e.Seq) < i:
			return told(e, "extra", "the entry occurs twice")
		case at(journal, recorded[i].Seq) < 0:
			return told(recorded[i], "missing", "the entry was recorded and is not there")
		default:
			return told(e, "order", "the entry stands before entry %d (%s), which was recorded first", recorded[i].Seq, recorded[i].Type)
		}
	}
	if len(journal) < len(recorded) {
		e := recorded[len(journal)]
		return told(e, "missing", "the journal ends before it, and %d of %d entries are missing", len(recorded)-len(journal), len(recorded))
	}
	return nil
}

// sameFact compares the recorded body with the one that this version would write: a member that is not read is a change.
func sameFact(fact lattice.Fact, body json.RawMessage) *Divergence {
	mine, err := expr.Marshal(fact)
	if err != nil {
		return &Divergence{What: "fact", Message: err.Error()}
	}
	theirs, err := expr.Decode(body)
	if err != nil {
		return &Divergence{What: "fact", Message: err.Error()}
	}
	again, err := expr.Decode(mine)
	if err != nil {
		return &Divergence{What: "fact", Message: err.Error()}
	}
	a, errA := expr.Marshal(theirs)
	b, errB := expr.Marshal(again)
	if errA != nil || errB != nil || string(a) != string(b) {
		return &Divergence{What: "fact", Want: string(a), Got: string(b), Message: "the recorded fact is not in the form that lattice writes"}
	}
	return nil
}

type answered struct{ command, call string }

// callOf names the command and the call that a fact is about.
func callOf(fact lattice.Fact) answered {
	switch f := fact.(type) {
	case lattice.CallFinished:
		return answered{f.CommandID, f.CallID}
	case lattice.CallBlocked:
		return answered{f.CommandID, f.CallID}
	case lattice.CallSuspended:
		return answered{f.CommandID, f.CallID}
	case lattice.CallLost:
		return answered{f.CommandID, f.CallID}
	}
	return answered{}
}
