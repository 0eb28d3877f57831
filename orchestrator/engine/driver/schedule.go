package driver

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"

	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// Scheduler decides, outside of the drive, when the pending commands of runs are performed. With one, a drive performs those
// commands alone that Perform asks for; without one, each as soon as it is pending.
type Scheduler interface {
	// Moved is told of a drive that begins and of facts that were appended, except those that Perform returns. It is called
	// by the goroutine that owns the run, and neither blocks nor calls the Runner.
	Moved(m Moved)
	// NextDrive returns the number of a drive that begins, which is higher than those of all earlier drives of the run, also of those in
	// other processes.
	NextDrive() int64
}

// Moved says that facts stand in the journal of a run.
type Moved struct {
	Run   string `json:"run"`
	From  int    `json:"from"` // the number of facts before Facts
	Facts []Fact `json:"facts,omitempty"`
	// Begins is the number of a drive that begins: each pending command is to be performed. Numbers of later drives are higher.
	Begins int64 `json:"begins,omitempty"`
	// Idle is set when the run was not driven: commands that follow wait for the next drive.
	Idle  bool `json:"idle,omitempty"`
	Ended bool `json:"ended,omitempty"` // the run has
}

// Fact is a fact as the journal has it.
type Fact struct {
	Type string          `json:"type"`
	Body json.RawMessage `json:"body"`
}

// ErrAnswered says that a command is no longer pending: the journal has its outcome.
var ErrAnswered = errors.New("the command has been answered")

// PutDown is the error of a command whose drive ended before it. The next drive finds out its outcome.
type PutDown struct {
	Drive int64 // the number of the drive
	Err   error // of the drive; nil if it was told to end
}

func (p *PutDown) Error() string {
	if p.Err == nil {
		return "the run was put down"
	}
	return "the run was put down: " + p.Err.Error()
}

func (p *PutDown) Unwrap() error { return p.Err }

// gate holds the commands that a Scheduler wants performed now. It is safe for concurrent use.
type gate struct {
	wake chan struct{} // holds a token after an addition

	mu     sync.Mutex
	asking map[string][]chan performed // guarded by mu: by the id of the command
}

type performed struct {
	moved Moved
	err   error
}

func newGate() *gate {
	return &gate{wake: make(chan struct{}, 1), asking: map[string][]chan performed{}}
}

func (g *gate) add(command string, done chan performed) {
	g.mu.Lock()
	g.asking[command] = append(g.asking[command], done)
	g.mu.Unlock()
	select {
	case g.wake <- struct{}{}:
	default:
	}
}

func (g *gate) remove(command string, done chan performed) {
	g.mu.Lock()
	defer g.mu.Unlock()
	left := slices.DeleteFunc(g.asking[command], func(c chan performed) bool { return c == done })
	if g.asking[command] = left; len(left) == 0 {
		delete(g.asking, command)
	}
}

// isOpen reports whether a command is to be performed now.
func (g *gate) isOpen(command string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.asking[command]) > 0
}

// answer answers all that ask for a command for which of returns true, and reports whether there were any.
func (g *gate) answer(of func(command string) bool, with performed) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	any := false
	for command, asking := range g.asking {
		if !of(command) {
			continue
		}
		for _, done := range asking {
			done <- with // it has room for the one answer
			any = true
		}
		delete(g.asking, command)
	}
	return any
}

// Perform has the drive perform a pending command, and returns the facts that were appended with its outcome. It waits for a
// drive, if there is none. Several calls for one command share one performance. If ctx ends, the drive goes on with the command.
func (r *Runner) Perform(ctx context.Context, command string) (Moved, error) {
	done := make(chan performed, 1)
	r.gate.add(command, done)
	defer r.gate.remove(command, done)
	if s := r.State(); !isPending(&s, command) {
		return Moved{}, ErrAnswered // asked after it was registered, so that no outcome falls in between
	}
	select {
	case p := <-done:
		return p.moved, p.err
	case <-ctx.Done():
		return Moved{}, ctx.Err()
	}
}

func isPending(s *runstate.State, command string) bool {
	_, pending := s.FindCommand(command)
	return pending
}

// CallID returns the id under which a pending command calls its skill, "" for commands that call none.
func (r *Runner) CallID(command string) string {
	s := r.State()
	if c, ok := s.FindCommand(command); ok && c.Call != nil {
		return lattice.CallID(r.secret, *c.Call)
	}
	return ""
}

// mayBegin reports whether a pending command is to be performed now.
func (r *Runner) mayBegin(c lattice.Command) bool {
	return r.deps.Scheduler == nil || r.gate.isOpen(c.ID)
}

// reportFacts tells the scheduler of facts that were just committed. Those with the outcome of a command go to the ones who asked for it.
func (r *Runner) reportFacts(facts []Fact) {
	if r.deps.Scheduler == nil || len(facts) == 0 {
		return
	}
	moved := Moved{Run: r.state.RunID, From: r.facts - len(facts), Facts: facts, Idle: !r.driven, Ended: r.state.Status.Ended()}
	told := r.outcomeOf != "" && r.gate.answer(func(id string) bool { return id == r.outcomeOf }, performed{moved: moved})
	r.gate.answer(func(id string) bool {
		return !isPending(&r.state, id)
	}, performed{err: ErrAnswered})
	if !told {
		r.deps.Scheduler.Moved(moved)
	}
}

// announceDrive tells the scheduler that a drive begins. The function that it returns tells those who wait for commands that
// it has ended.
func (r *Runner) announceDrive() (ended func(error)) {
	if r.deps.Scheduler == nil {
		return func(error) {}
	}
	number := r.deps.Scheduler.NextDrive()
	r.drive.Store(number)
	r.deps.Scheduler.Moved(Moved{Run: r.state.RunID, From: r.facts, Begins: number, Ended: r.state.Status.Ended()})
	return func(err error) {
		r.gate.answer(func(string) bool { return true }, performed{err: &PutDown{number, err}})
	}
}

// LastDrive returns the number of the drive that began last.
func (r *Runner) LastDrive() int64 { return r.drive.Load() }
