// Package agent holds agent.run, which runs a coding agent on a prompt. Begin with Skills and launch.run. Package adapter
// describes agents as data.
//
//	adapter + input ─► launch.go: home, environment, configuration, argv ─► proc.Reaper ─► output.go: redact, transcript,
//	adapter.Apply: events ─► package tally: turns, tokens, cost ─► limits ─► report.go: status and error
//
// An agent is not trusted. It gets the prompt on stdin or as a file, never as an argument. Its environment holds a few fixed
// variables and those that its adapter and the caller allow. Its output goes to a capped transcript, without the values of
// keys. When the call ends, all processes that the agent started are dead.
//
// A skill that the agent calls may wait for a person (spritekit/skill/nested.go). The agent is then stopped and this call
// waits instead. After the answer the same session of the agent continues with it. A request of the agent for permission to
// use a tool waits in the same way (permission.go).
package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/spritekit/lattice/skills/agent/acp"
	"github.com/spritekit/lattice/skills/agent/adapter"
	"github.com/spritekit/lattice/skills/agent/answer"
	"github.com/spritekit/lattice/skills/agent/idle"
	"github.com/spritekit/lattice/skills/agent/record"
	"github.com/spritekit/lattice/skills/agent/tally"
	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/skills/propose"
	"github.com/spritekit/lattice/skills/relay"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/redact"
	"github.com/spritekit/lattice/spritekit/skill"
)

const (
	maxTranscript = 64 << 20
	defaultLinger = 10               // seconds in which the agent must exit after its last event
	afterwards    = 30 * time.Second // for listing changed files
)

// Watch notes the state of the repository in dir and returns a function that lists the files that have changed since. A folder
// that is not a repository has no changes.
type Watch func(ctx context.Context, c *skill.Call, dir string) (changed func(context.Context) ([]string, error), err error)

// Skills returns agent.run. It starts processes with r.
func Skills(r *proc.Reaper, watch Watch, match answer.Matcher) []skill.Skill {
	return []skill.Skill{{Name: "agent.run", Run: skill.Typed(func(ctx context.Context, c *skill.Call, in input) (json.RawMessage, error) {
		l := &launch{call: c, in: in, reaper: r, files: files{call: c}, schema: answer.Schema{JSON: in.OutputSchema, Match: match}, self: findSelf(c)}
		return l.start(ctx, watch)
	})}}
}

// maxFailedRequests is how many requests to a model may fail in sequence before the agent is stopped. Agents retry for minutes,
// and a model rarely returns in that time.
const maxFailedRequests = 4

// tooManyRequests is the HTTP status of a model that is available and asks the client to wait.
const tooManyRequests = 429

func (e limitError) Error() string { return "the agent exceeded the limit " + string(e) }

// start finds the adapter, validates the input, prepares the agent and runs it.
func (l *launch) start(ctx context.Context, watch Watch) (json.RawMessage, error) {
	var err error
	if l.adapter, err = adapter.Find(cmp.Or(l.in.Agent, agentCommand), l.in.Adapter, l.self.sibling("agents")); err != nil {
		return nil, err
	}
	if err := l.in.validate(l.adapter); err != nil {
		return nil, err
	}
	if err := l.schema.Check(ctx); err != nil {
		return nil, err
	}
	if err := l.chooseSession(ctx); err != nil {
		return nil, err
	}
	defer l.pruneHomes()
	defer l.files.undoAll()
	for {
		if err := l.prepare(ctx); err != nil {
			return nil, err
		}
		l.crashed = false
		if result, err := l.run(ctx, watch); !l.crashed {
			return result, err
		}
	}
}

// chooseSession sets the session and the prompt: those of the input, or those of the question that was answered.
func (l *launch) chooseSession(ctx context.Context) (err error) {
	if l.prompt, err = readPrompt(l.call, l.in); err != nil {
		return err
	}
	l.task, l.asked = l.prompt, digestPrompt(l.prompt)
	l.mode, l.session = l.in.Session.Mode, session{Agent: l.adapter.Name}
	if l.mode != modeNew {
		l.session, err = loadSession(l.call, l.adapter.Name, l.in.Session.ID)
	}
	if err = errors.Join(err, l.goBack()); err != nil || l.call.Resume == nil && !l.call.Again {
		return err
	}
	p, err := loadPending(l.call)
	if err != nil || l.call.Resume == nil && !p.Running {
		return progress{l}.startOver(err)
	}
	var more string
	switch l.answers = p.Answers; {
	case p.Running, p.SlowTurns:
		more = interruptedPrompt
	case p.Permission != nil:
		more, err = l.takePermission(*p.Permission)
	case p.Limit != nil:
		more, err = l.endPause(*p.Limit)
	default:
		more, err = answerPrompt(p.Question, l.call.Resume.Inputs), l.call.Answer(ctx, p.Question)
	}
	if err != nil {
		return err
	}
	l.prior, l.inherited, l.changed, l.former = p.SoFar, p.Inherited, p.Changed, p.Said
	if p.Session.ID != "" && l.adapter.Resumes {
		l.mode, l.session, l.prompt = modeResume, p.Session, more
		return nil
	} // else the agent starts again, and the skill that asked returns the answer when the agent calls it
	l.prompt = record.Prompt(l.task, l.former, more)
	l.forgetUse()
	return nil
}

// run runs the prepared agent and returns the result of the call.
func (l *launch) run(ctx context.Context, watch Watch) (json.RawMessage, error) {
	c := l.call
	changed, err := watch(ctx, c, l.spec.Dir)
	if err != nil {
		c.Warn("files_changed_unknown", err.Error())
		changed = func(context.Context) ([]string, error) { return nil, nil }
	}
	transcript, err := proc.OpenTranscript(c, ".agent.log", maxTranscript)
	if err != nil {
		return nil, err
	}
	defer transcript.Close()
	o, err := l.runAgent(ctx, transcript)
	l.scrubHome()
	if err != nil {
		return nil, err
	}
	if o.exit.Leftover > 0 {
		c.Warn("processes_killed", fmt.Sprintf("processes that the agent left behind were killed: %d", o.exit.Leftover))
	}
	l.files.undoAll()
	r := l.newReport(o)
	r.TranscriptPath, r.Truncated = transcript.Path, transcript.Omitted() > 0
	r.Output += transcript.Total()
	r.describe(c.Stderr)
	if err := l.saveSession(o); err != nil {
		return nil, err
	}
	// Changed files are listed even if the call is cancelled.
	after, stop := context.WithTimeout(context.WithoutCancel(ctx), afterwards)
	defer stop()
	if r.FilesChanged, err = changed(after); err != nil {
		c.Warn("files_changed_unknown", err.Error())
	}
	r.FilesChanged = append([]string{}, append(r.FilesChanged, l.changed...)...)
	slices.Sort(r.FilesChanged)
	r.FilesChanged = slices.Compact(r.FilesChanged)
	if o.question != nil && errors.Is(o.cause, errWaiting) {
		p := progress{l}.newPending(r, o)
		p.Question = *o.question
		if err := p.save(c); err != nil {
			return nil, err
		}
		return nil, relay.Suspend(ctx, c, *o.question)
	}
	if asked := o.out.asked(); asked != nil && errors.Is(o.cause, errWaiting) {
		p := progress{l}.newPending(r, o)
		p.Permission = &acp.Request{Title: l.title(*asked), SHA256: asked.SHA256} // the arguments may hold a key
		if err := p.save(c); err != nil {
			return nil, err
		}
		return nil, propose.Ask(ctx, c, protocol.ActionUseTool, l.describePermission(*asked))
	}
	if errors.Is(o.cause, errSlowTurns) && len(o.out.tally.Ends) == 0 {
		p := progress{l}.newPending(r, o)
		p.SlowTurns = true
		if err := p.save(c); err != nil {
			return nil, err
		}
		return nil, c.SuspendUntil(ctx, l.adapter.Name+" is started again on a new layer of files", time.Now())
	}
	result, err := l.newDecision(r, o).decide()
	if until, ok := l.pauseUntil(err, o, time.Now()); ok {
		return nil, l.pause(ctx, r, o, until)
	}
	if ctx.Err() != nil { // the call may be made again
		return result, errors.Join(err, progress{l}.noteProgress(o, r.FilesChanged))
	}
	if l.crashed = (progress{l}).canGoOn(err, o); l.crashed {
		progress{l}.goOnAfterCrash(r, o)
		return nil, err
	}
	return result, errors.Join(err, progress{l}.forgetProgress())
}

// runAgent runs the agent until it ends or is stopped.
func (l *launch) runAgent(ctx context.Context, transcript *proc.Transcript) (outcome, error) {
	c := l.call
	limited, cancel := context.WithTimeoutCause(ctx, seconds(l.in.Limits.After(l.prior).WallS), errWall)
	defer cancel()
	alive, silence := idle.Watch(limited, seconds(l.in.Limits.IdleS), errIdle)
	defer silence.Stop()

	var o outcome
	l.said = record.New(l.former)
	log := &shared{to: transcript}
	o.out = newOutput(c, l.adapter, l.talks(), l.secrets, log, silence, l.in.PassThrough, func(s adapter.Event) { l.checkLimits(s, &o, silence) })
	l.spec.Stdout, l.spec.Stderr = o.out, o.out
	words := &proc.Tail{Limit: maxStderr}
	stderr := &listener{silence: silence, to: l.secrets.Writer(io.MultiWriter(words, log))}
	if l.adapter.Output != "text" {
		l.spec.Stderr = stderr
	}
	var once sync.Once
	nested, err := relay.Follow(c, func(q skill.Question) {
		once.Do(func() {
			o.question = &q // read after the relay has ended
			silence.End(errWaiting)
		})
	})
	if err != nil {
		return o, err
	}
	if l.talks() {
		if o.out.talk, err = l.newTalk(o.out, silence); err != nil {
			return o, errors.Join(err, nested.Finish())
		}
	}
	l.began = time.Now()
	if l.turns = l.newTurns(alive, silence); l.turns != nil {
		l.spec.Started = l.turns.noteProcess
	}
	o.exit, err = l.reaper.Run(alive, l.spec)
	if l.turns != nil {
		l.turns.finish()
	}
	o.cause = context.Cause(alive)
	if o.out.talk != nil {
		o.out.talk.feed.finish()
	}
	shown := nested.Finish()
	if err != nil {
		return o, fmt.Errorf("run the agent: %w", err)
	}
	if err := errors.Join(stderr.to.Flush(), o.out.finish(), shown); err != nil {
		return o, err
	}
	o.stderr = string(words.Bytes())
	if (o.question != nil || o.out.asked() != nil) && o.cause == nil { // the agent ended before it could be stopped
		o.cause = errWaiting
	}
	return o, nil
}

// checkLimits stops the agent if its last event exceeds a limit.
func (l *launch) checkLimits(s adapter.Event, o *outcome, silence *idle.Timer) {
	l.said.Add(s)
	if l.turns != nil {
		l.turns.addEvent(s, *o)
	}
	switch s.Kind {
	case adapter.KindStart:
		if l.offered && o.noServer == "" {
			o.noServer = serverStatus(o.out.tally.Servers)
			if asked := l.in.MCP.Spritekit; o.noServer != "" && asked != nil && *asked {
				silence.End(errNoTools)
			}
		}
	case adapter.KindText, adapter.KindTurn, adapter.KindToolCall:
		if s.Kind == adapter.KindText && l.adapter.Resumes { // its session holds the text
			break
		}
		if err := (progress{l}).noteProgress(*o, l.changed); err != nil {
			l.call.Warn("progress_not_kept", err.Error())
		}
	case adapter.KindEnd:
		silence.EndAfter(seconds(cmp.Or(l.adapter.LingerS, defaultLinger)), errLingers)
		return // the work is done; a limit that the last answer exceeds changes nothing
	}
	slow := s.Number("status") == tooManyRequests || l.adapter.CauseOf(s.Text("message")) == adapter.CauseRate
	if s.Kind == adapter.KindRetry && !slow && o.out.tally.FailedRequests >= maxFailedRequests {
		silence.End(errDead)
	}
	if name := l.in.Limits.FirstPassed(o.out.tally, l.usageBefore(), l.in.Prices, l.prior); name != "" {
		silence.End(limitError(name))
	}
}

// serverStatus returns the status of our server if the agent reports that it is not connected, else "".
func serverStatus(servers []tally.Server) string {
	for _, s := range servers {
		if s.Name == ownServer && s.Status != "connected" && s.Status != "pending" {
			return s.Status
		}
	}
	return ""
}

// usageBefore returns the usage of earlier calls that the agent includes in its totals.
func (l *launch) usageBefore() tally.Base {
	var b tally.Base
	for _, total := range l.adapter.Cumulative {
		switch total {
		case "usage":
			b.Usage = l.session.Base.Usage
		case "cost":
			b.CostUSD = l.session.Base.CostUSD
		}
	}
	return b
}

// sessionAfter returns the session with the id and totals that the agent reported.
func (l *launch) sessionAfter(o outcome) session {
	s := l.session
	t := o.out.tally
	if t.Session != "" {
		s.ID = t.Session
	}
	if t.Total != nil {
		s.Base.Usage = *t.Total
	}
	if t.Paid != nil {
		s.Base.CostUSD = *t.Paid
	}
	return s
}

// saveSession records the session for later calls.
func (l *launch) saveSession(o outcome) error {
	if l.adapter.Home == "inherit" && !l.adapter.Resumes {
		return nil
	}
	return l.sessionAfter(o).save(l.call)
}

// seconds returns a duration, at most the longest that a call may take.
func seconds(s float64) time.Duration {
	return time.Duration(min(s, maxTimeout.Seconds()) * float64(time.Second))
}

// listener passes stderr on, and restarts the idle timer.
type listener struct {
	silence *idle.Timer
	to      *redact.Writer
}

func (w *listener) Write(p []byte) (int, error) {
	w.silence.Restart()
	return w.to.Write(p)
}
