package engine_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/engine/driver"
	"github.com/spritekit/lattice/orchestrator/engine/replay"
	"github.com/spritekit/lattice/orchestrator/engine/runstate"
	"github.com/spritekit/lattice/orchestrator/ir/expr"
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// The model: a sprite is a map with restore, the world is counters, the log is a slice. Whatever the driver does ticks
// before and after; when the fuse burns, everything answers errKilled until the driver is made anew from the log.

var errKilled = errors.New("killed")

type spriteFiles struct {
	files map[string]int
	calls map[string]lattice.Outcome // the call journal lives in the sprite and is restored with it
}

func (f spriteFiles) clone() spriteFiles {
	return spriteFiles{maps.Clone(f.files), maps.Clone(f.calls)}
}

type world struct {
	mu          sync.Mutex // guards everything below
	fuse        int        // ticks left to live; negative: for ever
	ticks       int
	dead        bool
	sprite      spriteFiles
	copies      map[string]spriteFiles // of items, by sprite
	checkpoints []spriteFiles
	durable     int                     // how many of them survive a loss of power
	disk        int                     // how often the power was lost
	keeps       bool                    // calls of class sprite keep a turn when they begin
	settles     bool                    // checkpoints are durable at once
	onTorn      int                     // calls that worked on torn files
	turns       map[string]lattice.Pair // by the key of their event
	turnsKept   int                     // agents that a loss of power took back to their last turn
	besides     int                     // of them, those beside another one
	effects     map[string]int          // times a world skill acted, by idempotency key
	actions     map[string]int          // actions fulfilled, by key
	asked       int                     // questions to models
	prepared    bool
	log         []lattice.Entry
	snapshot    json.RawMessage
	snapshotSeq lattice.Seq
	last        lattice.Seq
	dedupe      map[string]bool
	clock       time.Time
}

func newWorld(fuse int) *world {
	return &world{
		fuse: fuse, sprite: spriteFiles{map[string]int{}, map[string]lattice.Outcome{}}, effects: map[string]int{},
		turns: map[string]lattice.Pair{}, copies: map[string]spriteFiles{}, actions: map[string]int{}, dedupe: map[string]bool{}, clock: time.Unix(1_800_000_000, 0),
	}
}

// tick is called with mu held.
func (w *world) tick() error {
	w.ticks++
	if w.fuse == 0 {
		w.dead = true
	}
	w.fuse--
	if w.dead {
		return errKilled
	}
	return nil
}

// around runs one atomic effect between two moments at which the driver may die.
func (w *world) around(effect func() error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.tick(); err != nil {
		return err
	}
	if err := effect(); err != nil {
		return err
	}
	return w.tick()
}

func (w *world) Append(_ context.Context, run string, after lattice.Seq, entries []lattice.Entry) (lattice.Seq, error) {
	err := w.around(func() error {
		if after != w.last {
			return lattice.ErrConflict
		}
		for i := range entries {
			e := &entries[i]
			switch {
			case e.Kind == lattice.EntryState:
				w.snapshot = e.Body
				w.snapshotSeq = w.last
				continue
			case e.Dedupe != "" && w.dedupe[e.Dedupe]:
				continue
			case e.Dedupe != "":
				w.dedupe[e.Dedupe] = true
			}
			w.last++
			e.Seq = w.last
			w.log = append(w.log, *e)
		}
		return nil
	})
	return w.last, err
}

func (w *world) Prepare(context.Context, string, string) (map[string]any, error) {
	return map[string]any{"ready": true}, w.around(func() error { w.prepared = true; return nil })
}

func (w *world) Checkpoint(_ context.Context, sprite string) (lattice.Pair, error) {
	var pair lattice.Pair
	return pair, w.around(func() error { pair = w.checkpoint(sprite); return nil })
}

func (w *world) CheckpointDurable(ctx context.Context, sprite string) (lattice.Pair, error) {
	var pair lattice.Pair
	err := w.around(func() error {
		pair = w.checkpoint(sprite)
		pair.Durable, w.durable = true, len(w.checkpoints)
		return nil
	})
	return pair, err
}

// of is a sprite's files: those of the run, or of an item's copy.
func (w *world) of(sprite string) spriteFiles {
	if c, ok := w.copies[sprite]; ok {
		return c
	}
	return w.sprite
}

func isCopy(sprite string) bool { return strings.HasPrefix(sprite, "main-1-") }

func (w *world) put(sprite string, files spriteFiles) {
	if isCopy(sprite) {
		w.copies[sprite] = files
		return
	}
	w.sprite = files
}

// Fork copies a checkpoint, whoever's it is, once.
func (w *world) Fork(_ context.Context, _ string, from lattice.Pair, to string) (map[string]any, error) {
	return map[string]any{"sprite": to}, w.around(func() error {
		if _, there := w.copies[to]; there {
			return nil
		}
		files, err := w.saved(from)
		if err == nil {
			w.put(to, files)
		}
		return err
	})
}

func (w *world) saved(at lattice.Pair) (spriteFiles, error) {
	var n int
	if _, err := fmt.Sscanf(at.CheckpointID, "v%d", &n); err != nil {
		return spriteFiles{}, err
	}
	return w.checkpoints[n-1].clone(), nil
}

// lose tears whatever was not durable, as a loss of power may. What a run that has ended left behind is not looked at.
func (w *world) lose() {
	w.disk++
	if s, err := runstate.Decode(w.snapshot); err == nil && s.Status.Ended() {
		return
	}
	torn := func() spriteFiles { return spriteFiles{map[string]int{"torn": 1}, map[string]lattice.Outcome{}} }
	if w.prepared {
		w.sprite = torn()
	}
	for name := range w.copies {
		w.copies[name] = torn()
	}
	for i := w.durable; i < len(w.checkpoints); i++ {
		w.checkpoints[i] = torn()
	}
}

// diskName is "" as long as nothing is known of the disk.
func (w *world) diskName() string {
	if w.disk == 0 {
		return ""
	}
	return fmt.Sprint("disk ", w.disk)
}

func (w *world) survives(p lattice.Pair) bool {
	var n int
	_, err := fmt.Sscanf(p.CheckpointID, "v%d", &n)
	return err == nil && n <= w.durable && w.checkpoints[n-1].files["torn"] == 0
}

// keptTurns returns the turns whose events are in the log.
func (w *world) keptTurns() (kept []replay.Turn) {
	for _, e := range w.log {
		if pair, ok := w.turns[e.Dedupe]; ok && e.Dedupe != "" {
			kept = append(kept, replay.Turn{Seq: e.Seq, Pair: pair})
		}
	}
	return kept
}

func (w *world) checkpoint(sprite string) lattice.Pair {
	w.durable = max(w.durable, len(w.checkpoints)) // those before are by now
	w.checkpoints = append(w.checkpoints, w.of(sprite).clone())
	if w.settles {
		w.durable = len(w.checkpoints)
	}
	return lattice.Pair{Sprite: sprite, CheckpointID: fmt.Sprint("v", len(w.checkpoints))}
}

func (w *world) Restore(_ context.Context, sprite string, to lattice.Pair) error {
	return w.around(func() error {
		_, copied := w.copies[sprite]
		switch {
		case to.CheckpointID == "" && isCopy(sprite): // made again
			delete(w.copies, sprite)
			return nil
		case to.CheckpointID == "":
			w.put(sprite, spriteFiles{map[string]int{}, map[string]lattice.Outcome{}})
			return nil
		case isCopy(sprite) && !copied:
			return fmt.Errorf("sprite %s does not exist", sprite)
		}
		files, err := w.saved(to)
		if err == nil {
			w.put(sprite, files)
		}
		return err
	})
}

func (w *world) Inspect(_ context.Context, _ lattice.Call, a lattice.Action) (lattice.Action, lattice.Verdict, string, error) {
	return a, lattice.Verdict(a.Name), "because", nil
}

func (w *world) Do(_ context.Context, a lattice.Action) ([]byte, error) {
	return []byte(`{"sha":"abc"}`), w.around(func() error {
		w.actions[a.Key] = 1 // doing it again is doing it once
		if !strings.Contains(string(a.Parameters), `"free"`) {
			return nil
		}
		told := false
		for _, e := range w.log {
			if e.Type == "ActionNoted" && strings.Contains(string(e.Body), string(a.Parameters)) {
				told = true
				if !strings.Contains(string(e.Body), `"begun":true`) {
					w.actions["again"]++
				}
			}
		}
		if !told {
			w.actions["untold"]++
		}
		return nil
	})
}

func (w *world) Call(_ context.Context, c lattice.Call, event func(lattice.Event)) (lattice.Outcome, error) {
	for _, phase := range []string{"begun", "ended"} {
		body, _ := json.Marshal(protocol.Event{Type: protocol.TypeInfo, CallID: c.ID})
		event(lattice.Event{
			Sprite: c.Sprite, CallID: c.ID, Event: protocol.Event{Type: protocol.TypeInfo, Raw: body},
			Dedupe: fmt.Sprint(c.ID, phase, c.Resume != nil),
		})
	}
	if c.Skill == "m.free" {
		for _, verdict := range []string{"allow", "ask"} {
			payload := fmt.Appendf(nil, `{"action":%q,"parameters":{"free":"%s%s/%d %s"},"blocking":false}`, verdict, c.Path, c.Node, c.Visit, verdict)
			event(lattice.Event{Sprite: c.Sprite, CallID: c.ID, Dedupe: fmt.Sprint(c.ID, verdict),
				Event: protocol.Event{ProtocolVersion: "v1", Type: protocol.TypeActionRequest, CallID: c.ID, Payload: payload, Raw: payload}})
		}
	}
	if c.Skill == "m.agent" && !c.Uncertain {
		if err := w.takeTurns(c, event); err != nil {
			return lattice.Outcome{}, err
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.tick(); err != nil {
		return lattice.Outcome{}, err
	}
	if w.keeps && c.Class == manifests.ClassSprite && c.Skill != "m.agent" {
		w.turns[fmt.Sprint(c.Sprite, "/", c.ID, "begun", c.Resume != nil)] = w.checkpoint(c.Sprite)
		w.durable = len(w.checkpoints)
	}
	known, seen := w.of(c.Sprite).calls[c.ID]
	if seen && (known.Kind == lattice.Finished || !answers(c.Resume, known)) {
		return known, w.tick()
	}
	repeatable := c.Class == manifests.ClassRead || c.Class == manifests.ClassIdempotent
	if c.Uncertain && !repeatable {
		return lattice.Outcome{Kind: lattice.Lost, Detail: "no trace of it"}, w.tick()
	}
	outcome, err := w.work(c)
	if err != nil {
		return outcome, err
	}
	w.of(c.Sprite).calls[c.ID] = outcome
	return outcome, w.tick()
}

// agentTurns is how many turns an agent takes.
const agentTurns = 2

// takeTurns lets an agent take the turns that its files lack. Each is kept, and then told.
func (w *world) takeTurns(c lattice.Call, event func(lattice.Event)) error {
	for turn := range agentTurns {
		name := fmt.Sprintf("%s%s#%d.%d turn %d", c.Path, c.Node, c.Visit, c.Attempt, turn)
		told := fmt.Sprint(c.ID, " turn ", turn)
		err := w.around(func() error {
			files := w.of(c.Sprite).files
			if files[name] > 0 || w.of(c.Sprite).calls[c.ID].Kind == lattice.Finished {
				told = ""
				return nil
			}
			files[name]++
			w.turns[c.Sprite+"/"+told] = w.checkpoint(c.Sprite)
			w.durable = len(w.checkpoints)
			return nil
		})
		if err != nil {
			return err
		}
		if told != "" {
			body, _ := json.Marshal(protocol.Event{Type: protocol.TypeInfo, CallID: c.ID})
			event(lattice.Event{Sprite: c.Sprite, CallID: c.ID, Event: protocol.Event{Type: protocol.TypeInfo, Raw: body}, Dedupe: told})
		}
	}
	return nil
}

// answers reports whether res is for the pause that the call's journal knows, as a skill judges it: a checkpoint does not
// know its own id, so that a journal restored from the very checkpoint names none.
func answers(res *protocol.Resume, known lattice.Outcome) bool {
	if res == nil || known.Result.Waiting == nil {
		return res != nil
	}
	id := known.Result.Waiting.CheckpointID
	return id == "" || id == res.CheckpointID
}

func (w *world) work(c lattice.Call) (lattice.Outcome, error) {
	file := c.Path + c.Node
	w.onTorn += w.of(c.Sprite).files["torn"]
	finished := func(data any) lattice.Outcome {
		raw, _ := json.Marshal(data)
		return lattice.Outcome{Kind: lattice.Finished, Result: protocol.Result{OK: true, Data: raw}}
	}
	if c.Class != manifests.ClassRead && c.Skill != "m.idem" {
		w.of(c.Sprite).files[file+".half"]++ // a kill in the middle leaves it behind
		if err := w.tick(); err != nil {
			return lattice.Outcome{}, err
		}
		delete(w.of(c.Sprite).files, file+".half")
		w.of(c.Sprite).files[file]++
	}
	switch c.Skill {
	case "m.idem":
		w.of(c.Sprite).files[file] = c.Visit
		return finished(map[string]any{"n": c.Visit}), nil
	case "m.world":
		w.effects[c.IdempotencyKey]++
		return finished(map[string]any{"n": c.Visit}), w.tick()
	case "m.flaky":
		if c.Attempt < 3 {
			return lattice.Outcome{Kind: lattice.Finished, Exit: 5, Failure: expr.FailToolUnavailable,
				Result: protocol.Result{Error: &protocol.Fault{Code: "network", Message: "try again"}}}, nil
		}
	case "m.legacy":
		o := finished(nil)
		o.Asked = &protocol.Question{Kind: protocol.KindQuestion, ID: "colour", Prompt: "Which?", Choices: []string{"red", "blue"}, Default: "red"}
		return o, nil
	case "m.ask", "m.allow", "m.wants", "m.deny", "m.peek":
		if c.Resume == nil {
			verdicts := map[string]string{"m.allow": "allow", "m.wants": "ask", "m.deny": "deny"}
			o := lattice.Outcome{Kind: lattice.Suspended}
			if v, ok := verdicts[c.Skill]; ok {
				o.Request = &protocol.ActionRequest{Action: v, Parameters: json.RawMessage(`{"branch":"b"}`), Blocking: true}
			}
			o.Result = protocol.Result{OK: true, Waiting: &protocol.Waiting{Reason: "needs " + c.Skill}}
			w.of(c.Sprite).calls[c.ID] = o // the record is written before the checkpoint, as in DESIGN 14
			named := *o.Result.Waiting
			named.CheckpointID = w.checkpoint(c.Sprite).CheckpointID
			w.durable = len(w.checkpoints)
			o.Result.Waiting = &named // the caller records it again, with the id
			return o, nil
		}
		return finished(map[string]any{"n": w.of(c.Sprite).files[file], "got": c.Resume.Inputs}), nil
	}
	return finished(map[string]any{"n": w.of(c.Sprite).files[file]}), nil
}

func (w *world) Now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.clock = w.clock.Add(time.Millisecond)
	return w.clock
}

func (w *world) After(time.Duration) <-chan time.Time {
	fired := make(chan time.Time, 1)
	fired <- time.Time{}
	return fired
}

func (w *world) deps() driver.Deps {
	return driver.Deps{Log: w, Caller: w, Boundary: w, Preparer: w, Forker: w, Actor: w, Model: w, Now: w.Now, After: w.After}
}
