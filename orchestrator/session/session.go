// Package session runs skill calls in sprites over exec and converts their results to outcomes. Start with Session: it is the
// engine's Caller and Boundary for any host that speaks the Sprites API.
//
// All output of a sprite is hostile until it is validated here: events are checked, attributed by call id and flagged;
// results are adopted from the outbox only for the outstanding call whose stream was lost (DESIGN 4). A session never
// decides what happens next and never retries a call. No process outlives its call: an abandoned process is stopped.
//
//	skill failure      the skill said so, or exited non-zero           → Finished with a failure kind
//	waiting            exit 75, WAITING, a checkpoint that exists      → Suspended
//	timeout            the process was stopped                         → Finished with failure timeout, exit 124
//	transport loss     no exit frame, no result in the outbox          → Lost: unknown, never success
//	request refused    the host will never run this (400, 413 …)       → Finished with failure tool_unavailable
//	sprite removed     404                                             → *lattice.Refusal
//	host unreachable   nothing could be found out (5xx, 401, 409, 429) → error; the call stays pending
//
// Between boundaries the calls of a run share one exec: "spritekit session" in the sprite, which the first call
// opens and Rest, Restore, a checkpoint or half a minute without calls end (hosts whose checkpoints are live-safe keep
// it). A call with secrets of its own, a call of a skill whose input is not a JSON object, and all calls in a sprite with an older
// spritekit have an exec of their own; journals are the same either way.
//
//	call ─► pendingCall ─► sharedExec.stdin ─► exec ─► sharedExec.handleRecord ─► the pendingCall that the line names ─► judgeStream
//
// Other programs in the sprite have the power that DESIGN 4 concedes: one that writes to the session's stdout can forge
// events for a call in progress, as it can in the outbox. It cannot end a call, which takes the token that only the session
// was sent, and the session hides its pipes and memory from processes of its user. A call is lost with its session. Its
// outcome is then found like that of any lost call: the process is looked for, its input is ended and it is followed (calls
// that only read are stopped instead), then the outbox is read, then the rules of the call's class decide.
package session

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/redact"
	"github.com/spritekit/lattice/spritekit/tracecontext"
)

// Host is the part of the Sprites API that a session needs; *sprites.Client implements it. Exec returns *sprites.LostError when the
// stream ended without an exit code.
type Host interface {
	Exec(ctx context.Context, sprite string, e sprites.Exec) (exit int, err error)
	Attach(ctx context.Context, sprite, session string, e sprites.Exec) (exit int, err error)
	Sessions(ctx context.Context, sprite string) ([]sprites.Session, error)
	Kill(ctx context.Context, sprite, session, signal string) error
	ReadFrom(ctx context.Context, sprite, path string, offset int64) (io.ReadCloser, error)
	WriteFile(ctx context.Context, sprite, path string, r io.Reader, mode uint32) error
	Checkpoint(ctx context.Context, sprite, comment string) (sprites.Checkpoint, error)
	CheckpointDurable(ctx context.Context, sprite, comment string) (sprites.Checkpoint, error)
	Checkpoints(ctx context.Context, sprite string) ([]sprites.Checkpoint, error)
	Restore(ctx context.Context, sprite, id string) error
}

// liveHost is a Host that reports its capabilities.
type liveHost interface{ Offers(capability string) bool }

// Session drives calls on one host. It is safe for concurrent use. In one sprite the engine runs calls at once only when
// all of them read.
type Session struct {
	host Host
	log  zerolog.Logger
	// output returns a writer for one stream of output of a node's skills that is not an event; it may be io.Discard. The node
	// is "" where it is not known.
	output func(run, node string) io.Writer
	// secrets returns KEY=VALUE pairs for agent.run of a run; they are never stored or logged.
	secrets func(run, sprite string) []string
	// issued returns the call ids that were given out in a run so far; other ids are strangers'.
	issued func(run string) map[string]bool
	// leased returns the variables with secrets that were leased for a call.
	leased func(ctx context.Context, c lattice.Call) ([]string, error)
	// known returns the secrets that nothing of a run may show.
	known    func(run string) *redact.Secrets
	equip    func(ctx context.Context, sprite string) error
	grace    time.Duration
	budget   budget // of one call
	registry *processRegistry

	running sync.WaitGroup // the shared execs

	mu       sync.Mutex             // guards the fields below
	cursors  map[string]cursor      // by sprite
	equipped map[string]bool        // sprites that Equip has seen to
	shared   map[string]*sharedExec // by sprite
	alone    map[string]bool        // sprites whose spritekit serves no sessions
	closed   bool
}

// Options of New. All but Log may be nil; without Issued only the call at hand is known.
type Options struct {
	Log     zerolog.Logger
	Output  func(run, node string) io.Writer
	Secrets func(run, sprite string) []string // additional variables of a run's agents, KEY=VALUE
	Issued  func(run string) map[string]bool
	// Leased returns variables with secrets for a call, KEY=VALUE. It is asked for each attempt.
	Leased func(ctx context.Context, c lattice.Call) ([]string, error)
	// Known returns the secrets that are taken out of everything that a call of a run says. It is asked when a call has been
	// given its variables.
	Known func(run string) *redact.Secrets
	// Equip makes sure that a sprite has its skills; nil where the host sees to that. It is asked before a sprite's first
	// call, and again after a restore, which may have taken them away, and after a call whose skill was missing.
	Equip func(ctx context.Context, sprite string) error
	// WaitingGrace is how long a skill may go on after WAITING before it is stopped; 0 = 5 s (DESIGN 22).
	WaitingGrace time.Duration
	// MaxEvents and MaxEventBytes bound the events of its own that one call hands on, and separately those of other
	// programs in the outbox, so that a sprite cannot fill the journal that other runs share; 0 = 100,000 events and
	// 64 MiB of payload. Further events stay in the sprite's outbox, where only those of the call itself are still looked
	// for, and a line to Output says so.
	MaxEvents, MaxEventBytes int
}

// New makes a session on host.
func New(host Host, o Options) *Session {
	if o.Output == nil {
		o.Output = func(_, _ string) io.Writer { return io.Discard }
	}
	if o.Secrets == nil {
		o.Secrets = func(string, string) []string { return nil }
	}
	if o.Issued == nil {
		o.Issued = func(string) map[string]bool { return nil }
	}
	if o.Leased == nil {
		o.Leased = func(context.Context, lattice.Call) ([]string, error) { return nil, nil }
	}
	if o.Known == nil {
		o.Known = func(string) *redact.Secrets { return nil }
	}
	if o.Equip == nil {
		o.Equip = func(context.Context, string) error { return nil }
	}
	o.WaitingGrace = cmp.Or(o.WaitingGrace, 5*time.Second)
	o.MaxEvents = cmp.Or(o.MaxEvents, 100_000)
	o.MaxEventBytes = cmp.Or(o.MaxEventBytes, 64<<20)
	return &Session{
		host: host, log: o.Log, output: o.Output, secrets: o.Secrets, issued: o.Issued, leased: o.Leased, known: o.Known, equip: o.Equip, grace: o.WaitingGrace,
		budget:  budget{events: o.MaxEvents, bytes: o.MaxEventBytes},
		cursors: map[string]cursor{}, equipped: map[string]bool{}, registry: newProcessRegistry(),
		shared: map[string]*sharedExec{}, alone: map[string]bool{},
	}
}

// workspace is where a sprite's workspace lies, seen from inside.
const workspace = "/workspace"

// Checkpoint takes a boundary of sprite. The pair's Seq is left to the caller, who knows the journal.
func (s *Session) Checkpoint(ctx context.Context, sprite string) (lattice.Pair, error) {
	return s.takeBoundary(ctx, sprite, s.host.Checkpoint)
}

// CheckpointDurable is Checkpoint that returns when the checkpoint survives a loss of power, where the host can tell.
func (s *Session) CheckpointDurable(ctx context.Context, sprite string) (lattice.Pair, error) {
	return s.takeBoundary(ctx, sprite, s.host.CheckpointDurable)
}

// taker is a way to take a checkpoint.
type taker func(ctx context.Context, sprite, comment string) (sprites.Checkpoint, error)

func (s *Session) takeBoundary(ctx context.Context, sprite string, take taker) (lattice.Pair, error) {
	if live, ok := s.host.(liveHost); !ok || !live.Offers(sprites.LiveCheckpoints) {
		s.Rest(ctx, sprite)
	}
	cp, err := s.takeCheckpoint(ctx, sprite, BoundaryComment, take)
	if err != nil {
		return lattice.Pair{}, asRefusal(fmt.Errorf("checkpoint sprite %s: %w", sprite, err), "the sprite was removed")
	}
	return lattice.Pair{Sprite: sprite, CheckpointID: cp.ID, Durable: cp.Durable}, nil
}

// BoundaryComment is how the comments of boundaries begin.
const BoundaryComment = "boundary"

// maxCheckpoints bounds the requests for a checkpoint whose replies are lost.
const maxCheckpoints = 3

// takeCheckpoint takes one checkpoint. If the reply is lost it looks for the checkpoint by its comment before it repeats the
// request.
func (s *Session) takeCheckpoint(ctx context.Context, sprite, comment string, take taker) (sprites.Checkpoint, error) {
	comment += " #" + rand.Text()[:8]
	for attempt := 1; ; attempt++ {
		cp, err := take(ctx, sprite, comment)
		if !sprites.Uncertain(err) || attempt == maxCheckpoints || ctx.Err() != nil {
			return cp, err
		}
		known, listErr := s.host.Checkpoints(ctx, sprite)
		if listErr != nil {
			return cp, errors.Join(err, listErr)
		}
		for _, cp := range known {
			if cp.Comment == comment && cp.Health == "" {
				return cp, nil
			}
		}
	}
}

// Equip makes sure that a sprite is ready for calls. It inspects each sprite once.
func (s *Session) Equip(ctx context.Context, sprite string) error {
	s.mu.Lock()
	done := s.equipped[sprite]
	s.mu.Unlock()
	if done {
		return nil
	}
	if err := s.equip(ctx, sprite); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.equipped[sprite] = true
	return nil
}

// unequip has a sprite seen to before its next call.
func (s *Session) unequip(sprite string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.equipped, sprite)
	delete(s.alone, sprite)
}

// Restore puts the sprite's files back. All processes in the sprite end.
func (s *Session) Restore(ctx context.Context, sprite string, to lattice.Pair) error {
	s.Forget(ctx, sprite)
	if err := s.host.Restore(ctx, sprite, to.CheckpointID); err != nil {
		return asRefusal(fmt.Errorf("restore sprite %s to %s: %w", sprite, to.CheckpointID, err), "the sprite or that checkpoint was removed")
	}
	return nil
}

// Forget drops the state of a sprite that is about to be made again.
func (s *Session) Forget(ctx context.Context, sprite string) {
	s.Rest(ctx, sprite)
	s.forgetOutbox(sprite)
	s.unequip(sprite)
}

// CodeSpriteGone is the code of a refusal because a sprite, or a file in it, does not exist any more.
const CodeSpriteGone = "sprite_gone"

// asRefusal converts an error that a retry cannot repair to a refusal.
func asRefusal(err error, why string) error {
	if !errors.Is(err, sprites.ErrNotFound) {
		return err
	}
	return &lattice.Refusal{Fault: protocol.Fault{Code: CodeSpriteGone, Message: err.Error() + "; " + why}}
}

// callEnv returns the variables with the context of a call (DESIGN 12), in addition to the sprite's own environment.
func (s *Session) callEnv(c lattice.Call) []string {
	env := []string{
		"LATTICE_SPRITE_ID=" + c.Sprite,
		"LATTICE_WORK_ITEM_ID=" + c.WorkItem,
		"LATTICE_RUN_ID=" + c.RunID,
		"LATTICE_CALL_ID=" + c.ID,
		"LATTICE_IDEMPOTENCY_KEY=" + c.IdempotencyKey,
		"LATTICE_PERMISSIONS=" + strings.Join(c.Permissions, ","),
		"LATTICE_STDIN_BYTES=" + strconv.Itoa(len(c.Input)),
		"TRACEPARENT=" + tracecontext.Parent(c.RunID, c.ID),
	}
	if c.Skill == "agent.run" {
		env = append(env, s.secrets(c.RunID, c.Sprite)...)
	}
	return env
}

// withDeadline bounds a call. The skill's own timeouts are shorter.
func withDeadline(ctx context.Context, c lattice.Call) (context.Context, context.CancelFunc) {
	if c.TimeoutS <= 0 {
		return context.WithCancel(ctx)
	}
	return context.WithTimeout(ctx, callTimeout(c))
}

// callTimeout returns the time limit of a call, at most a year, because manifests may name any number.
func callTimeout(c lattice.Call) time.Duration {
	const year = 365 * 24 * time.Hour
	return time.Duration(min(c.TimeoutS, year.Seconds()) * float64(time.Second))
}

// resumeFile is resume.json in the sprite.
const resumeFile = workspace + "/" + protocol.ResumeFile

func (s *Session) newObserver(c lattice.Call, event func(lattice.Event)) *observer {
	known := s.outboxCursor(c.Sprite).foreign
	return &observer{
		call: c, issued: sync.OnceValue(func() map[string]bool { return s.issued(c.RunID) }), event: event,
		seen: map[digest]bool{}, known: known, foreign: maps.Clone(known), own: s.budget, others: s.budget, grace: s.grace,
	}
}
