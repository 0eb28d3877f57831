package agent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/spritekit/lattice/skills/agent/adapter"
	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/spritekit/checkpoint"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/workspace"
)

// After each turn of an agent, which is an answer of the model with the results of its tools, the call keeps the files together
// with the session, so that a run can go back there (lattice turns):
//
//	last result ─► the agent writes it to its session ─► the agent is stopped ─► turnFile, checkpoint ─► the agent goes on
//	rewind, fork ─► the checkpoint is restored ─► a new call of the step finds turnFile ─► the session goes on from there
//
// turnFile is in such checkpoints only. A turn is not kept if the agent goes on before it is stopped.
//
// A checkpoint costs a copy of the files that changed since the call began or was resumed. When the copies have become slow, the
// call waits for a moment: to be resumed begins a new layer of files (errSlowTurns).

const (
	turnFile    = ".lattice/agents/turn.json"
	sessionWait = 15 * time.Second // in which an agent writes a result to its session
	sessionPoll = 10 * time.Millisecond
	keepWait    = 30 * time.Second // for the checkpoint, while the agent is stopped

	slowTurn    = 200 * time.Millisecond
	restartCost = 2 * time.Second // of an agent; less is not worth a new layer

	maxSessionRead = 16 << 20 // a line of a session
	turnPrompt     = "You were taken back to this point of your work. The files are as they were then. Go on with your task.\n"
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
	if l.session, err = loadSession(l.call, t.Session.Agent, t.Session.ID); err != nil {
		return err
	}
	l.mode, l.prompt, l.answers, l.prior, l.changed = modeResume, turnPrompt, t.Answers, t.SoFar, t.Changed
	return nil
}

// turns keeps the turns of one invocation of an agent. The goroutine that reads the agent's stdout calls addEvent; a
// goroutine for each turn keeps it.
type turns struct {
	l       *launch
	ctx     context.Context
	silence *silence
	log     sessionLog
	running map[string]bool // tools
	tool    string          // the last one
	keeping sync.WaitGroup
	alone   sync.Mutex    // held while a turn is kept
	spent   time.Duration // for the checkpoints of the invocation, guarded by alone

	mu     sync.Mutex         // guards the fields below
	pid    int                // of the agent, 0 before it has started
	goesOn context.CancelFunc // ends the keeping of the last turn, nil before the first
	failed bool               // a turn could not be kept; no other is tried
}

// newTurns returns nil if the turns of the agent cannot be kept: it has no session, or the sprite cannot checkpoint itself.
func (l *launch) newTurns(ctx context.Context, silence *silence) *turns {
	if !l.adapter.Resumes || l.adapter.Session == nil && l.adapter.Output != adapter.OutputACP || l.call.Socket == "" || l.call.RunID == "" || l.call.Nested {
		return nil
	}
	return &turns{l: l, ctx: ctx, silence: silence, running: map[string]bool{}, goesOn: func() {}}
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
		k.log.open(k.l, o.out.tally.Session)
	case adapter.KindToolCall:
		k.giveUp()
		k.running[e.Text("id")], k.tool = true, e.Text("name")+" "+e.Text("input")
		k.log.catchUp()
	case adapter.KindTurn, adapter.KindText, adapter.KindEnd:
		k.giveUp()
	case adapter.KindToolResult:
		k.log.expectResult()
		if delete(k.running, e.Text("id")); len(k.running) == 0 {
			k.beginKeeping(o)
		}
	}
}

// giveUp ends the keeping of the last turn: the agent goes on.
func (k *turns) giveUp() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.goesOn()
}

// beginKeeping begins to keep the turn that has ended.
func (k *turns) beginKeeping(o outcome) {
	s, now := k.l.sessionAfter(o), k.l.sumUp(o)
	k.mu.Lock()
	defer k.mu.Unlock()
	if s.ID == "" || k.failed || k.pid == 0 {
		return
	}
	record, err := json.Marshal(keptTurn{pending: pending{Session: s, Answers: k.l.answers, SoFar: now, Changed: k.l.changed}, Call: k.l.call.ID, PromptSHA256: k.l.asked})
	if err != nil {
		return // a record of ours can be encoded
	}
	info := protocol.AgentTurn{Turn: now.Turns, Agent: k.l.adapter.Name, Tool: cleanLine(k.l.secrets.Text(k.tool))}
	goesOn, cancel := context.WithCancel(k.ctx)
	k.goesOn()
	k.goesOn = cancel
	pid := k.pid
	k.keeping.Go(func() {
		defer cancel()
		k.alone.Lock()
		defer k.alone.Unlock()
		if err := k.keepTurn(goesOn, pid, s, record, info); err != nil && k.ctx.Err() == nil {
			k.l.call.Warn("turns_not_kept", fmt.Sprintf("no run can go back to turn %d and later ones: %v", info.Turn, err))
			k.mu.Lock()
			defer k.mu.Unlock()
			k.failed = true
		}
	})
}

// keepTurn keeps a turn unless goesOn, which ends when the agent goes on, ends before.
func (k *turns) keepTurn(goesOn context.Context, pid int, s session, record []byte, info protocol.AgentTurn) error {
	if !k.log.await(goesOn) {
		return nil
	}
	began := time.Now()
	release := proc.Hold(pid)
	id, err := k.takeCheckpoint(s, record)
	took := time.Since(began)
	info.CheckpointID, info.Milliseconds = id, took.Milliseconds()
	late := goesOn.Err() != nil // the agent printed more before it was stopped
	release()
	if err != nil || late {
		return err
	}
	k.spent += took
	if took > slowTurn && k.spent > restartCost {
		k.silence.cancel(errSlowTurns)
	}
	metadata, err := json.Marshal(info)
	if err != nil {
		return err
	}
	return k.l.call.Emit(protocol.Info{Message: fmt.Sprintf("turn %d is kept as %s", info.Turn, id), Kind: protocol.KindAgentTurn, Metadata: metadata})
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
	k.giveUp()
	k.keeping.Wait()
}

// sessionLog is the file to which an agent appends its session; see [adapter.SessionFile]. Without one nothing is awaited.
type sessionLog struct {
	root    *workspace.Root
	pattern string
	mark    []byte // is in the file once for each result of a tool

	mu    sync.Mutex // guards the fields below
	name  string     // of the file
	read  int64      // the lines up to here are counted
	count int        // results in there
	want  int        // results that the agent has reported
}

// moveSession gives the file of a session that is resumed the name that the adapter wants; see [adapter.SessionFile].
func (l *launch) moveSession() error {
	f := l.adapter.Session
	if f == nil || f.Moved == "" || l.mode != modeResume || l.files.home == "" {
		return nil
	}
	pattern, ok := expandSession(f.Path, l.session.ID)
	if !ok {
		return nil
	}
	found, err := filepath.Glob(l.call.Root.Own(l.files.home + pattern))
	if err != nil || len(found) == 0 {
		return nil // the agent says that there is no such session
	}
	newest := found[len(found)-1]
	name, _ := expandSession(f.Moved, l.session.ID)
	if to := filepath.Join(filepath.Dir(newest), name); to != newest {
		return l.call.Root.Rename(newest, to)
	}
	return nil
}

// expandSession replaces the variables of a path of a session's file. ok is false if there can be no such file.
func expandSession(path, id string) (expanded string, ok bool) {
	return strings.NewReplacer("{home}", "", "{session}", id, "{session_head}", id[:min(8, len(id))]).Replace(path), id != "" && !strings.ContainsAny(id, `/\*?[`)
}

// open notes which file holds the session, and counts the results of earlier invocations.
func (s *sessionLog) open(l *launch, id string) {
	f := l.adapter.Session
	if f == nil || l.files.home == "" {
		return
	}
	pattern, ok := expandSession(f.Path, id)
	if !ok {
		return
	}
	s.root, s.mark = l.call.Root, []byte(f.Result)
	s.pattern = s.root.Own(l.files.home + pattern)
	s.catchUp()
}

// expectResult notes that the agent is going to write the result of a tool.
func (s *sessionLog) expectResult() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.want++
}

// catchUp makes results that the agent wrote without reporting them count as reported.
func (s *sessionLog) catchUp() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readMore()
	s.want = max(s.want, s.count)
}

// await waits until the file holds all results that were reported. It returns false if ctx ends before, or if the agent does
// not write them.
func (s *sessionLog) await(ctx context.Context) bool {
	tick := time.NewTicker(sessionPoll)
	defer tick.Stop()
	for end := time.Now().Add(sessionWait); !s.holdsAll(); {
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
		if time.Now().After(end) {
			s.mu.Lock()
			s.want = s.count
			s.mu.Unlock()
			return false
		}
	}
	return ctx.Err() == nil
}

func (s *sessionLog) holdsAll() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.readMore()
	return s.mark == nil || s.count >= s.want
}

// readMore counts the results in the lines that were appended to the file. s.mu is held.
func (s *sessionLog) readMore() {
	if s.mark == nil {
		return
	}
	found, err := filepath.Glob(s.pattern)
	if err != nil || len(found) == 0 {
		return // it is not there yet
	}
	if newest := found[len(found)-1]; newest != s.name { // agents begin the names with the time
		s.name, s.read, s.count = newest, 0, 0
	}
	for {
		data, _, err := s.root.ReadRange(s.name, s.read, maxSessionRead)
		lines := data[:bytes.LastIndexByte(data, '\n')+1]
		if err != nil || len(lines) == 0 {
			return
		}
		s.read += int64(len(lines))
		s.count += bytes.Count(lines, s.mark)
	}
}
