// Package runstate holds the state of a run: [State] and its parts, which are plain JSON, the [List] that makes long results
// cheap to copy, and the [Digester] whose cost is the size of the change. With the program the state is all that
// engine.Step needs. The package never decides anything.
package runstate

import (
	"bytes"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// SpritesInUse returns the main sprite and the forks whose files the run may still read: those of iterations that have not
// ended and of calls.
func (s State) SpritesInUse() []string { return s.Lane.spritesInUse([]string{s.Sprite}) }

func (l Lane) spritesInUse(known []string) []string {
	if l.Visit == nil {
		return known
	}
	if c := l.Visit.Call; c != nil && !slices.Contains(known, c.Sprite) {
		known = append(known, c.Sprite)
	}
	if l.Visit.Map == nil {
		return known
	}
	for _, it := range l.Visit.Map.Open {
		if it.Ended {
			continue
		}
		if it.Sprite != "" {
			known = append(known, it.Sprite)
		}
		known = it.Lane.spritesInUse(known)
	}
	return known
}

func AttemptOf(c *lattice.Call) lattice.Attempt {
	return lattice.Attempt{Node: c.Node, Path: c.Path, Visit: c.Visit, Number: c.Attempt}
}

// Rests reports whether nothing happens before a person decides or a timer fires.
func (s State) Rests() bool {
	timer := func(c lattice.Command) bool { return c.Kind == lattice.DoTimer }
	return s.Status.Ended() || s.Status.Blocked() ||
		s.Status == lattice.Waiting && !slices.ContainsFunc(s.Pending, func(c lattice.Command) bool { return !timer(c) })
}

// State is everything that a run believes. It is plain JSON and complete: with the program it is all that Step needs.
// Values are treated as immutable; Step copies what it changes.
type State struct {
	RunID    string            `json:"run_id"`
	WorkItem string            `json:"work_item_id"`
	Program  string            `json:"program"` // digest
	Sprite   string            `json:"sprite"`  // name of the main sprite, "" when the flow calls no skill
	Status   lattice.RunStatus `json:"status"`
	Epoch    int               `json:"epoch"`
	Grants   []string          `json:"grants"`
	Disk     string            `json:"disk,omitempty"` // see lattice.PowerLost
	// AskWorld, ApproveWorld and BelowExec are as in lattice.RunStarted.
	AskWorld     bool     `json:"ask_world,omitempty"`
	ApproveWorld []string `json:"approve_world,omitempty"`
	BelowExec    bool     `json:"below_exec,omitempty"`

	// The namespaces of ExecIR that the whole run shares; numbers are json.Number throughout.
	Vars map[string]any `json:"vars"`
	In   any            `json:"in"`
	Ctx  map[string]any `json:"ctx"`

	Lane // the flow itself; iterations are in the visits of their nodes

	Steps  int                     `json:"steps"`           // nodes begun and calls suspended, bounded by max_steps
	Calls  int                     `json:"calls,omitempty"` // attempts at calls of skills, bounded by max_calls
	Serial int                     `json:"serial"`          // number of the last command
	Pairs  map[string]lattice.Pair `json:"pairs"`           // newest boundary by sprite
	Dirty  map[string]bool         `json:"dirty"`           // sprites whose files may have changed since their pair
	// Marks are the boundaries before the last calls of nodes that others name in restore, by node.
	Marks map[string]lattice.Pair `json:"marks,omitempty"`

	// The usage of models so far, in all and by node.
	Models   Spent            `json:"models,omitzero"`
	ModelsBy map[string]Spent `json:"models_by,omitempty"`

	// Pending are the commands that no fact has answered yet, oldest first. Recovery is performing them.
	Pending []lattice.Command `json:"pending"`
	Waits   []lattice.Wait    `json:"waits"`
	Planned []Planned         `json:"planned,omitempty"` // calls that a person approved beforehand
	// Started is for observers; see lattice.Entry. Emitted are the events that this step's EMIT nodes made; who appends
	// the state appends them with it.
	Started []string  `json:"started,omitempty"`
	Emitted []Emitted `json:"emitted,omitempty"`

	// Done are the completed nodes that can be undone, in the order of completion. Undoing is the state of doing so.
	Done    []Undo   `json:"done,omitempty"`
	Undoing *Undoing `json:"undoing,omitempty"`

	// Iterations, by path, whose call waits for room, oldest first; and those whose call emitted WAITING while others were
	// under way, in the order of the barrier. See machine/barrier.go.
	Held     []string `json:"held,omitempty"`
	Settling []string `json:"settling,omitempty"`
	// Overdue are the paths of threads whose node has used up its time and cannot be given up yet. See overdue.go.
	Overdue []string `json:"overdue,omitempty"`

	// Cache are the answers that nodes with cache "run" may take, oldest first; Kept are the names of copies of the sprite
	// that stay behind the run. See parts.go.
	Cache []Cached `json:"cache,omitempty"`
	Kept  []string `json:"kept,omitempty"`

	Losses int `json:"losses,omitempty"` // of power that took the run back
	// Recovering is set while the files are restored after a loss of power; Records are the effects that are not repeated.
	Recovering *Recovering      `json:"recovering,omitempty"`
	Records    []lattice.Record `json:"records,omitempty"`

	Next    *Next         `json:"next,omitempty"`    // of a run whose legacy question was answered
	Output  any           `json:"output,omitempty"`  // of a succeeded run
	Failure *expr.Failure `json:"failure,omitempty"` // of a failed or canceled one

	VarsSize int `json:"-"` // of Vars as JSON, 0 when it is not known
}

// Lane is one thread of a run: the flow itself, or one iteration of a node.
type Lane struct {
	Node       string         `json:"node,omitempty"` // where it is, or where it ended
	Visit      *Visit         `json:"visit,omitempty"`
	Visits     map[string]int `json:"visits"`
	Traversals map[string]int `json:"traversals"` // of edges with max_traversals, by "from→to#n"
	Tmp        map[string]any `json:"tmp"`
	Err        any            `json:"err,omitempty"` // the failure that the last catch caught
}

func NewLane() Lane {
	return Lane{Visits: map[string]int{}, Traversals: map[string]int{}, Tmp: map[string]any{}}
}

// Visit is the state of the node that a lane is at.
type Visit struct {
	Number  int   `json:"number"`            // which visit of this node, from 1
	Attempt int   `json:"attempt"`           // from 1
	Retries []int `json:"retries,omitempty"` // uses of each retry rule in this visit
	// Call is the resolved call of a TOOL_CALL. It has no id: the driver derives that from the run's secret.
	Call *lattice.Call `json:"call,omitempty"`
	// Before is the boundary to which a lost call of class sprite goes back.
	Before    *lattice.Pair `json:"before,omitempty"`
	Losses    int           `json:"losses,omitempty"` // of this attempt
	Cut       string        `json:"cut,omitempty"`    // why the attempt fails when its files are again those before it
	Suspended *Suspension   `json:"suspended,omitempty"`
	// Approved says that a person allowed the call, one of class world, in each attempt of this visit.
	Approved bool `json:"approved,omitempty"`
	Planned  bool `json:"planned,omitempty"` // a HUMAN node's approval did
	// Acted says that an action was done which the call asked for. Ended is how a call that changed the world ended, while
	// a durable checkpoint is taken.
	Acted  bool                  `json:"acted,omitempty"`
	Ended  *lattice.CallFinished `json:"ended,omitempty"`
	Asking *Asking               `json:"asking,omitempty"` // of a node that asks models
	Key    string                `json:"key,omitempty"`    // by which the answer is kept, while it is asked for
	Map    *Mapping              `json:"map,omitempty"`    // of a MAP, PARALLEL, LOOP or SUBGRAPH
}

// Mapping is a node at work that runs others inside: a MAP its iterations, a PARALLEL its branches.
type Mapping struct {
	Items    int          `json:"items"`             // how many there are; of a LOOP 0, which does not know
	Begun    int          `json:"begun"`             // how many of them, the first ones
	Results  List         `json:"results"`           // of the first items, as far as all before them have ended; of a LOOP the newest
	Failures List         `json:"failures,omitzero"` // of the same, as port "failures" has them
	Bytes    int          `json:"bytes"`             // size of the results so far as JSON, those of Open included
	Expired  bool         `json:"expired,omitempty"` // its time is up: nothing more is begun or taken
	Open     []*Iteration `json:"open,omitempty"`    // the items behind Results that were begun, in their order

	Evaluated []any `json:"-"` // of a MAP, once they were evaluated: nothing that they may read changes while it is at work
}

// Iteration is one item of a MAP, branch of a PARALLEL, round of a LOOP or document of a SUBGRAPH. It is under way, or has
// ended and waits for those before it. Item is $item: in a LOOP the result of the previous iteration.
type Iteration struct {
	Sprite string `json:"sprite,omitempty"` // its own copy, "" when it shares the one around
	Index  int    `json:"index"`
	Item   any    `json:"item"`
	Frame  *Frame `json:"frame,omitempty"` // of a SUBGRAPH
	Lane
	Ended   bool          `json:"ended,omitempty"`
	Result  any           `json:"result,omitempty"`
	Failure *expr.Failure `json:"failure,omitempty"`
}

// Frame holds the namespaces that a SUBGRAPH has for itself.
type Frame struct {
	Vars map[string]any `json:"vars"`
	In   any            `json:"in"`
}

// Planned is a call of class world that the approval of a HUMAN node allows.
type Planned struct {
	lattice.PlannedCall
	Path string `json:"path,omitempty"`
	By   string `json:"by"`             // the HUMAN node
	Void string `json:"void,omitempty"` // the node whose call may have changed files since
}

// Emitted is an event that an EMIT node made.
type Emitted struct {
	Key  string `json:"key"` // of this visit of the node
	Node string `json:"node"`
	Info any    `json:"info"` // the payload of an INFO event
}

// Suspension is a call that emitted WAITING and has not been resumed yet.
type Suspension struct {
	CallID       string          `json:"call_id"`
	CheckpointID string          `json:"checkpoint_id"`
	Action       *lattice.Action `json:"action,omitempty"`
	By           string          `json:"by,omitempty"` // who approved the action, and when
	At           string          `json:"at,omitempty"`
	// Deferred is the fact as it came, while its siblings have not ended.
	Deferred *lattice.CallSuspended `json:"deferred,omitempty"`
}

// New is the state before the first fact, which must be lattice.RunStarted for the same run.
func New(run string) State {
	return State{
		RunID: run, Status: lattice.Pending,
		Vars: map[string]any{}, Ctx: map[string]any{}, Lane: NewLane(),
		Pairs: map[string]lattice.Pair{}, Dirty: map[string]bool{},
	}
}

// Encode writes s as JSON; equal states give equal bytes.
func (s State) Encode() (json.RawMessage, error) { return expr.Marshal(s) }

// Decode reads what Encode wrote.
func Decode(raw json.RawMessage) (State, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var s State
	if err := d.Decode(&s); err != nil {
		return State{}, fmt.Errorf("decode run state: %w", err)
	}
	return s, nil
}

// Clone copies everything that Step changes in place. Calls, waits and JSON values are replaced, never changed.
func (s State) Clone() State {
	s.Lane = s.Lane.clone()
	s.Pairs, s.Dirty, s.Marks = maps.Clone(s.Pairs), maps.Clone(s.Dirty), maps.Clone(s.Marks)
	s.ModelsBy = maps.Clone(s.ModelsBy)
	s.Pending, s.Waits = slices.Clone(s.Pending), slices.Clone(s.Waits)
	s.Held, s.Settling, s.Overdue = slices.Clone(s.Held), slices.Clone(s.Settling), slices.Clone(s.Overdue)
	s.Cache, s.Kept = slices.Clone(s.Cache), slices.Clip(s.Kept)
	s.Done, s.Planned = slices.Clip(s.Done), slices.Clone(s.Planned)
	s.Started, s.Emitted = nil, nil
	if s.Undoing != nil {
		u := *s.Undoing
		u.Failed = slices.Clip(u.Failed)
		s.Undoing = &u
	}
	return s
}

func (l Lane) clone() Lane {
	l.Visits, l.Traversals = maps.Clone(l.Visits), maps.Clone(l.Traversals)
	if l.Visit != nil {
		v := *l.Visit
		v.Retries = slices.Clone(v.Retries)
		if v.Map != nil {
			v.Map = v.Map.clone()
		}
		l.Visit = &v
	}
	return l
}

func (mp *Mapping) clone() *Mapping {
	c := *mp
	c.Open = make([]*Iteration, len(mp.Open))
	for i, it := range mp.Open {
		copied := *it
		copied.Lane = it.Lane.clone()
		if it.Frame != nil {
			f := *it.Frame
			copied.Frame = &f
		}
		c.Open[i] = &copied
	}
	return &c
}

// InnerPath returns the path of an iteration of the node that l, whose own path is given, visits.
func (l *Lane) InnerPath(own string, it *Iteration) string {
	visit := ""
	if l.Visit.Number > 1 {
		visit = fmt.Sprintf("#%d", l.Visit.Number)
	}
	if l.Visit.Attempt > 1 { // commands of an earlier attempt have other paths
		visit += fmt.Sprintf("~%d", l.Visit.Attempt)
	}
	path := fmt.Sprintf("%s%s[%d]", l.Node, visit, it.Index)
	if own != "" {
		path = own + "/" + path
	}
	return path
}

// FindLane returns the lane with a path, nil if there is none.
func (s *State) FindLane(path string) (found *Lane) {
	for l, own := range s.LanesTo(path) {
		if found = nil; own == path {
			found = l
		}
	}
	return found
}

// LanesTo yields the flow and the iterations around the one with a path, with their paths, then that one, as far as they exist.
func (s *State) LanesTo(path string) iter.Seq2[*Lane, string] {
	return func(yield func(*Lane, string) bool) {
		l, own := &s.Lane, ""
		for yield(l, own) && own != path && l.Visit != nil && l.Visit.Map != nil {
			i := slices.IndexFunc(l.Visit.Map.Open, func(it *Iteration) bool { return Within(path, l.InnerPath(own, it)) })
			if i < 0 {
				return
			}
			it := l.Visit.Map.Open[i]
			l, own = &it.Lane, l.InnerPath(own, it)
		}
	}
}

// IsSingle reports whether the iteration with a path runs alone, and in the sprite of the run, and so do those around it.
func (s *State) IsSingle(path string) bool {
	for l, own := range s.LanesTo(path) {
		if own != path && (len(l.Visit.Map.Open) != 1 || l.Visit.Map.Open[0].Sprite != "") {
			return false
		}
	}
	return true
}

// Within reports whether path is that of the iteration outer, or of one inside of it.
func Within(path, outer string) bool {
	rest, ok := strings.CutPrefix(path, outer)
	return ok && (rest == "" || rest[0] == '/')
}

func (s *State) FindCommand(id string) (lattice.Command, bool) {
	i := slices.IndexFunc(s.Pending, func(c lattice.Command) bool { return c.ID == id })
	if i < 0 {
		return lattice.Command{}, false
	}
	return s.Pending[i], true
}

func (s *State) FindWait(id string) (lattice.Wait, bool) {
	i := slices.IndexFunc(s.Waits, func(w lattice.Wait) bool { return w.ID == id })
	if i < 0 {
		return lattice.Wait{}, false
	}
	return s.Waits[i], true
}

func OnWorld(c lattice.Command) bool {
	return c.Kind == lattice.DoCall && c.Call.Class == manifests.ClassWorld
}

// LeaveBarrier removes the call of a thread from the barrier.
func (s *State) LeaveBarrier(path string) {
	s.Settling = slices.DeleteFunc(s.Settling, func(p string) bool { return p == path })
}
