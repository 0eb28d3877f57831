// Package ladder decides about answers of models: what a model is asked, whether what it says holds, what it is told to
// mend, and who is asked next. It is pure: equal arguments give equal results, on every machine, whenever.
//
//	Prompt ──► (a model answers) ──► Checks.Judge ──► nothing wrong: done
//	   ▲                                  │
//	   └── Packet of what is wrong ◄── Next: again ── escalate, upward only ── give up
//
// Start with Checks.Judge and Next. An answer that failed is never passed on: what comes after the last rung is the
// failure, with the answer in it. Attempts count all questions to one class, the first included.
package ladder

import (
	"slices"

	"github.com/spritekit/lattice/orchestrator/ir"
)

// Strategies of a retry policy.
const (
	PatchJSON  = "PATCH_JSON_FROM_ERROR" // the packet goes back, and the whole corrected object is wanted
	Regenerate = "REGENERATE"            // the same question again
	None       = "NONE"                  // one question, whatever max_attempts says
)

// DefaultAttempts are the questions to one class where a policy does not say.
const DefaultAttempts = 2

// CarryFresh has a higher class begin without what went wrong below.
const CarryFresh = "fresh"

// Rung is where a node stands: whom it asks, and how often it has asked so far.
type Rung struct {
	Class   string   `json:"class"`
	Attempt int      `json:"attempt"`           // of this class, from 1
	Try     int      `json:"try"`               // of all classes, from 1
	Used    []string `json:"used,omitempty"`    // classes below, in order
	Packet  *Packet  `json:"packet,omitempty"`  // what this question is to mend; nil = a fresh one
	Limit   int      `json:"limit"`             // questions to this class
	Steps   int      `json:"steps,omitempty"`   // escalations behind it, used or passed over
	Retried bool     `json:"retried,omitempty"` // some answer was refused and asked for anew
}

// First is the lowest rung of a node.
func First(n *ir.Node) Rung {
	return Rung{Class: n.ModelClass, Attempt: 1, Try: 1, Limit: maxAttempts(n.RetryPolicy)}
}

func maxAttempts(p *ir.RetryPolicy) int {
	switch {
	case p == nil:
		return DefaultAttempts
	case p.Strategy == None:
		return 1
	case p.MaxAttempts == 0:
		return DefaultAttempts
	}
	return p.MaxAttempts
}

// answered are the kinds of failure where a model did answer, and may do better when it is told what was wrong.
var answered = []string{ir.FailParse, ir.FailSchema, ir.FailInvariant, ir.FailRefusal, ir.FailTruncated}

// atOnce are those among them that escalate without further attempts where an escalation names them: who refuses once
// will do so again.
var atOnce = []string{ir.FailRefusal, ir.FailTruncated}

// Next is the rung after a failed question, false when there is none. packet is what was wrong.
func Next(n *ir.Node, at Rung, packet Packet) (Rung, bool) {
	kind := packet.Kind
	step, up := nextEscalation(n, at, kind)
	again := slices.Contains(answered, kind) && at.Attempt < at.Limit && (!up || !slices.Contains(atOnce, kind))
	at.Used = slices.Clone(at.Used)
	switch {
	case again:
		at.Attempt++
		at.Try++
		at.Retried = true
		at.Packet = nil
		if n.RetryPolicy == nil || n.RetryPolicy.Strategy != Regenerate {
			at.Packet = &packet
		}
		return at, true
	case up:
		rule := n.Escalation[step]
		next := Rung{
			Class: rule.ToClass, Attempt: 1, Try: at.Try + 1, Used: append(at.Used, at.Class),
			Limit: max(1, rule.MaxAttempts), Steps: step + 1, Retried: at.Retried,
		}
		if rule.Carry != CarryFresh && slices.Contains(answered, kind) {
			packet.Attempt, packet.MaxAttempts = 1, next.Limit
			next.Packet = &packet
		}
		return next, true
	}
	return at, false
}

// nextEscalation finds the next rule that covers kind and leads to a class that was not asked yet.
func nextEscalation(n *ir.Node, at Rung, kind string) (int, bool) {
	for i := at.Steps; i < len(n.Escalation); i++ {
		rule := n.Escalation[i]
		covers := slices.Contains(rule.On, kind) || slices.Contains(rule.On, "ALL") && kind != ir.FailLimit && kind != ir.FailCancelled
		if covers && rule.ToClass != at.Class && !slices.Contains(at.Used, rule.ToClass) {
			return i, true
		}
	}
	return 0, false
}
