package agent

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"sync"
	"time"

	"github.com/spritekit/lattice/skills/agent/adapter"
	"github.com/spritekit/lattice/skills/agent/idle"
	"github.com/spritekit/lattice/skills/agent/record"
	"github.com/spritekit/lattice/skills/agent/sessionlog"
	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/spritekit/checkpoint"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// After each turn of an agent, which is an answer of the model with the results of its tools, the call keeps the files together
// with the session, so that a run can go back there (lattice turns):
//
//	last result ─► the agent writes it to its session ─► the agent is stopped ─► turnFile, checkpoint ─► the agent goes on
//	rewind, fork ─► the checkpoint is restored ─► a new call of the step finds turnFile ─► the session goes on from there
//
// turnFile is in such checkpoints only. A turn is missed if the agent goes on before it is stopped; the call says so.
//
// A checkpoint costs a copy of the files that changed since the call began or was resumed. When the copies have become slow, the
// call waits for a moment: to be resumed begins a new layer of files (errSlowTurns).

const (
	turnFile = ".lattice/agents/turn.json"
	keepWait = 30 * time.Second // for the checkpoint, while the agent is stopped

	slowTurn    = 200 * time.Millisecond
	restartCost = 2 * time.Second // of an agent; less is not worth a new layer

	turnPrompt = "You were taken back to this point of your work. The files are as they were then. Go on with your task.\n"
)

// keptTurn is the record in turnFile: a call that begins with it goes on from there.
type keptTurn struct {
	pending
	Call         string `json:"call"`
	PromptSHA256 string `json:"prompt_sha256"`
}

func digestPrompt(prompt string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(prompt))) }

// goBack makes a call that begins in the checkpoint of a turn go on from there.
func (l *launch) goBack() error {
	root := l.call.Root
	raw, err := root.ReadFile(turnFile, maxRecord)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err = errors.Join(err, root.Remove(turnFile)); err != nil {
		return fmt.Errorf("read the record of a turn: %w", err)
	}
	var t keptTurn
	if json.Unmarshal(raw, &t) != nil || l.call.Resume != nil || l.call.Again || t.Call == l.call.ID || t.Session.Agent != l.adapter.Name || t.PromptSHA256 != l.asked {
		return nil // left by a call that was cut off, or of another prompt
	}
	l.answers, l.prior, l.inherited, l.changed, l.former = t.Answers, t.SoFar, t.SoFar, t.Changed, t.Said
	if !l.resumesTurns() {
		l.prompt = record.Prompt(l.task, l.former, turnPrompt)
		l.forgetUse()
		return nil
	}
	l.mode, l.prompt = modeResume, turnPrompt
	l.session, err = loadSession(l.call, t.Session.Agent, t.Session.ID)
	return err
}

// turns keeps the turns of one invocation of an agent. The goroutine that reads the agent's stdout calls addEvent; a
// goroutine for each turn keeps it.
type turns struct {
	l       *launch
	ctx     context.Context
	silence *idle.Timer
	log     sessionlog.Log
	running map[string]bool // tools
	tool    string          // the last one
	keeping sync.WaitGroup
	alone   sync.Mutex          // held while a turn is kept
	spent   time.Duration       // for the checkpoints of the invocation, guarded by alone
	failed  error               // a turn could not be kept; no other is tried; guarded by alone
	missed  *protocol.AgentTurn // the last turn if it was not kept, until that is said; guarded by alone

	mu     sync.Mutex              // guards the fields below
	pid    int                     // of the agent, 0 before it has started
	goesOn context.CancelCauseFunc // ends the keeping of the last turn
}

// Reasons other than failures why a turn is not kept.
var (
	errWentOn = errors.New("the agent went on before it was stopped")
	errEnded  = errors.New("the agent ended before it was stopped")
	errNoName = errors.New("the agent has not named its session")
)

// resumesTurns reports whether a turn holds the agent's own session. Else it holds the record of what the agent said and did, with
// which a new session begins.
func (l *launch) resumesTurns() bool {
	return l.adapter.Resumes && (l.adapter.Session != nil || l.adapter.Output == adapter.OutputACP)
}

// newTurns returns nil if the turns of the agent cannot be kept: it does not tell them, or the sprite cannot checkpoint itself.
func (l *launch) newTurns(ctx context.Context, silence *idle.Timer) *turns {
	if !(progress{l}).tells() || l.call.Socket == "" || l.call.RunID == "" || l.call.Nested {
		return nil
	}
	return &turns{l: l, ctx: ctx, silence: silence, running: map[string]bool{}, goesOn: func(error) {}}
}

// noteProcess notes the process of the agent.
func (k *turns) noteProcess(pid int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pid = pid
}

// addEvent notes an event of the agent.
func (k *turns) addEvent(e adapter.Event, o outcome) {
	switch e.Kind {
	case adapter.KindStart:
		k.openLog(o.out.tally.Session)
	case adapter.KindToolCall:
		k.giveUp(errWentOn)
		k.running[e.Text("id")], k.tool = true, e.Text("name")+" "+e.Text("input")
	case adapter.KindTurn, adapter.KindText:
		k.giveUp(errWentOn)
	case adapter.KindEnd:
		k.giveUp(errEnded)
	case adapter.KindToolResult:
		k.log.ExpectResult(e.Text("id"))
		if delete(k.running, e.Text("id")); len(k.running) == 0 {
			k.beginKeeping(o)
		}
	}
}

// openLog begins to watch the file of the session.
func (k *turns) openLog(id string) {
	if f := k.l.adapter.Session; f != nil && k.l.files.home != "" {
		if pattern, ok := expandSession(f.Path, id); ok {
			k.log.Open(k.l.call.Root, k.l.call.Root.Own(k.l.files.home+pattern), f)
		}
	}
}

// giveUp ends the keeping of the last turn: the agent goes on or has ended.
func (k *turns) giveUp(why error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.goesOn(why)
}

// beginKeeping begins to keep the turn that has ended.
func (k *turns) beginKeeping(o outcome) {
	s, now := k.l.sessionAfter(o), k.l.sumUp(o)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.pid == 0 {
		return // an agent speaks after it has started
	}
	record, err := json.Marshal(keptTurn{pending: pending{Session: s, Answers: k.l.answers, SoFar: now, Changed: k.l.changed, Said: progress{k.l}.recorded()}, Call: k.l.call.ID, PromptSHA256: k.l.asked})
	if err != nil {
		return // a record of ours can be encoded
	}
	info := protocol.AgentTurn{Turn: now.Turns, Agent: k.l.adapter.Name, Tool: cleanLine(k.l.secrets.Text(k.tool)), Spent: now.Spent(k.l.inherited)}
	goesOn, cancel := context.WithCancelCause(k.ctx)
	k.goesOn(errWentOn)
	k.goesOn = cancel
	pid := k.pid
	k.keeping.Go(func() {
		defer cancel(nil)
		k.alone.Lock()
		defer k.alone.Unlock()
		k.sayMissed(info.Turn)
		if err := k.keepTurn(goesOn, pid, s, record, info); err != nil {
			k.noteMissed(info, err)
		}
	})
}

// noteMissed notes that a turn was not kept. alone is held.
func (k *turns) noteMissed(info protocol.AgentTurn, why error) {
	switch {
	case errors.Is(why, errWentOn):
		info.Reason = protocol.TurnWentOn
	case errors.Is(why, sessionlog.ErrUnwritten):
		info.Reason = protocol.TurnUnwritten
	case errors.Is(why, errNoName):
		info.Reason = protocol.TurnUnnamed
	case errors.Is(why, errEnded), k.ctx.Err() != nil:
		info.Reason = protocol.TurnEnded
	default:
		info.Reason = protocol.TurnFailed
		if k.failed == nil {
			k.failed = why
			k.l.call.Warn("turns_not_kept", fmt.Sprintf("no run can go back to turn %d and later ones: %v", info.Turn, why))
		}
	}
	k.missed = &info
}

// sayMissed says that the last turn was not kept. If that was turn now, then it had not ended: tools that ran side by side end one
// after the other. An event that cannot be written fails the call itself. alone is held.
func (k *turns) sayMissed(now int) {
	m := k.missed
	if k.missed = nil; m != nil && (m.Turn != now || now == 0) {
		_ = k.emitTurn(fmt.Sprintf("turn %d is not kept", m.Turn), *m)
	}
}

func (k *turns) emitTurn(message string, info protocol.AgentTurn) error {
	metadata, err := json.Marshal(info)
	if err != nil {
		return err
	}
	return k.l.call.Emit(protocol.Info{Message: message, Kind: protocol.KindAgentTurn, Metadata: metadata})
}

// keepTurn keeps a turn unless goesOn, which ends when the agent goes on, ends before. alone is held.
func (k *turns) keepTurn(goesOn context.Context, pid int, s session, record []byte, info protocol.AgentTurn) error {
	switch {
	case k.failed != nil:
		return k.failed
	case s.ID == "" && k.l.resumesTurns():
		return errNoName
	}
	if err := k.log.Await(goesOn); err != nil {
		return err
	}
	began := time.Now()
	release := proc.Hold(pid)
	id, err := k.takeCheckpoint(s, record)
	took := time.Since(began)
	info.CheckpointID, info.Milliseconds = id, took.Milliseconds()
	late := context.Cause(goesOn) // the agent printed more before it was stopped
	release()
	if err := cmp.Or(err, late); err != nil {
		return err
	}
	k.spent += took
	if took > slowTurn && k.spent > restartCost {
		k.silence.End(errSlowTurns)
	}
	return k.emitTurn(fmt.Sprintf("turn %d is kept as %s", info.Turn, id), info)
}

// takeCheckpoint takes the checkpoint with the record of a turn. The agent is stopped.
func (k *turns) takeCheckpoint(s session, record []byte) (id string, err error) {
	c := k.l.call
	if err := s.save(c); err != nil {
		return "", err
	}
	if err := c.Root.WriteFile(turnFile, record, 0o600); err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(k.ctx, keepWait)
	defer cancel()
	id, err = checkpoint.Client{Socket: c.Socket}.Create(ctx, protocol.TurnComment+" of "+c.ID)
	return id, errors.Join(err, c.Root.Remove(turnFile))
}

// finish waits for the turn that is being kept. The agent has ended.
func (k *turns) finish() {
	k.giveUp(errEnded)
	k.keeping.Wait()
	k.alone.Lock()
	defer k.alone.Unlock()
	k.sayMissed(-1)
}
