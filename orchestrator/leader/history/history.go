// Package history reads what a home holds of runs: records, facts, states, moments and output logs. Start with Records;
// States adds the runs that are in memory, and Past the moments of one run. It begins, changes and ends no run.
package history

import (
	"encoding/json"
	"sync"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/engine/replay"
	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/memo"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// Run is the record of a run, with its options decoded.
type Run struct {
	store.RunRecord
	Kept Options
}

// Options is the part of a record that the leader defines. Begin is the run's first fact, which is appended again if a crash
// came between the record and the fact.
type Options struct {
	api.Options
	Begin lattice.RunStarted `json:"begin"`
	// Pinned holds the manifests of drop-in skills as they were when the run started.
	Pinned []json.RawMessage `json:"pinned,omitempty"`
	// Asked is the digest of the request, "" if its client chose no key.
	Asked string `json:"asked,omitempty"`
	// ResumedFrom is the run that asked the question whose answer began this one; Answers are all answers so far.
	ResumedFrom string            `json:"resumed_from,omitempty"`
	Answers     map[string]string `json:"answers,omitempty"`
	// Fork replaces Begin in a run that was forked from another one.
	Fork *lattice.RunForked `json:"fork,omitempty"`
	// Session is the run that a fork, or a run that goes on from another one, comes from; "" is the run itself.
	Session string `json:"session,omitempty"`
	// Account is the work item whose budget pays for a fork: that of the run from which it was forked.
	Account string `json:"account,omitempty"`
}

// Records reads the records and facts of runs. It is safe for concurrent use.
type Records struct {
	Store    *store.Store
	turns    turnCache
	programs memo.Memo[*ir.Program]
}

// Past is a run with its facts and moments.
type Past struct {
	Run
	Parsed *ir.Program
	Facts  []lattice.Entry
	Points []replay.Point
	Turns  []Turn // of agents, if [Records.ReadTurns] read them
}

// Turn is a turn of an agent: a run goes back to it by beginning the agent's step again on the files of the turn, which hold the
// agent's session (skills/agent/turn.go). A turn without a checkpoint was not kept.
type Turn struct {
	Said  protocol.AgentTurn
	Event lattice.Entry
	Point replay.Point // where the step began, with the checkpoint of the turn as its files

	since  lattice.Seq // the turn belongs to the step that began last before
	rewind *lattice.Moment
}

// knownTurns are the turns of a run up to an entry.
type knownTurns struct {
	all  []Turn // not changed
	last lattice.Seq
}

// turnCache keeps turns that were read, so that only the entries behind them are read next time. The zero value is ready; it is safe
// for concurrent use.
type turnCache struct {
	mu   sync.Mutex
	runs map[string]knownTurns // guarded by mu
	size int                   // guarded by mu: the turns of all runs
}
