// Package agent holds agent.run: it runs a coding agent on a prompt. Start with Skills and run; adapter.go is what there
// is to know about an agent, as data.
//
//	adapter + input ─► launch.go: home, environment, configuration, argv ─► proc.Reaper ─► output.go: redact, transcript,
//	rules.go: events in our words ─► tally.go: turns, tokens, cost ─► limits ─► report.go: verdict
//
// An agent is a stranger in the house. It gets the prompt on stdin or as a file, never as an argument; of the environment
// it sees a fixed handful of names and those that its adapter and the caller allowed; what it prints goes to a capped
// transcript, without the values of keys; and when the call ends, however it ends, every process that it started is dead.
//
// A skill that the agent calls may wait for a person (spritekit/skill/nested.go). Then the agent is stopped, this call
// waits in its place, and when the answer is there the same session of the agent goes on with it.
package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/spritekit/redact"
	"github.com/spritekit/lattice/spritekit/skill"
)

const (
	maxTranscript = 64 << 20
	maxFinalText  = 8 << 10
	lingerS       = 10               // seconds for an agent that said its last word
	afterwards    = 30 * time.Second // to look at the repository
)

// Watch notes the state of the repository in dir and returns a function that lists the files that changed since.
// A folder that is not a repository has no changes.
type Watch func(ctx context.Context, c *skill.Call, dir string) (changed func(context.Context) ([]string, error), err error)

// Skills returns agent.run. r starts its processes.
func Skills(r *proc.Reaper, watch Watch, match Matcher) []skill.Skill {
	return []skill.Skill{{Name: "agent.run", Run: skill.Typed(func(ctx context.Context, c *skill.Call, in input) (json.RawMessage, error) {
		l := &launch{call: c, in: in, reaper: r, match: match, self: findSelf(c)}
		return l.start(ctx, watch)
	})}}
}

// Why an agent was stopped.
var (
	errWall    = errors.New("the agent used up its time")
	errIdle    = errors.New("the agent was silent for too long")
	errDead    = errors.New("the agent asks a model again and again that does not answer")
	errLingers = errors.New("the agent said its last word and did not end")
	errAsked   = errors.New("a skill that the agent called waits for an answer")
	errNoTools = errors.New("the agent could not start our MCP server")
)

// maxVain is how often an agent may ask a model again without an answer in between. Agents go on for minutes, and the
// model is not going to come back in that time.
const maxVain = 4

// tooManyRequests is a model that answers, and asks to wait.
const tooManyRequests = 429

// limitError is a limit that the agent passed.
type limitError string

func (e limitError) Error() string { return "the agent passed the limit " + string(e) }

// start finds the adapter, checks the input, prepares the agent and runs it.
func (l *launch) start(ctx context.Context, watch Watch) (json.RawMessage, error) {
	var err error
	if l.adapter, err = findAdapter(l.in, l.beside("agents")); err != nil {
		return nil, err
	}
	if err := l.in.check(l.adapter); err != nil {
		return nil, err
	}
	if err := l.checkSchema(ctx); err != nil {
		return nil, err
	}
	if err := l.choose(ctx); err != nil {
		return nil, err
	}
	defer l.prune()
	defer l.clean()
	if err := l.prepare(ctx); err != nil {
		return nil, err
	}
	return l.run(ctx, watch)
}

// choose settles on a session and a prompt: those of the input, or those of the pause that was answered.
func (l *launch) choose(ctx context.Context) (err error) {
	if l.prompt, err = prompt(l.call, l.in); err != nil {
		return err
	}
	l.mode, l.session = l.in.Session.Mode, session{Agent: l.adapter.Name}
	if l.mode != modeNew {
		l.session, err = loadSession(l.call, l.adapter.Name, l.in.Session.ID)
	}
	if err != nil || l.call.Resume == nil {
		return err
	}
	p, err := loadPending(l.call)
	if err != nil {
		return err
	}
	if err := l.call.Answer(ctx, p.Question); err != nil {
		return err
	}
	l.prior = p.SoFar
	if p.Session.ID != "" && l.adapter.Resumes {
		l.mode, l.session = modeResume, p.Session
		l.prompt = answered(p.Question, l.call.Resume.Inputs)
	} // else it begins anew, and the skill that asked has the answer ready when it is called again
	return nil
}

// outcome is all that is known when the agent is dead.
type outcome struct {
	exit     proc.Exit
	cause    error // why it was stopped, nil when it ended by itself
	out      *output
	stderr   string
	question *skill.Question
	lonely   string // our MCP server's status, when the agent is without it
}

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
	o, err := l.drive(ctx, transcript)
	l.scrub()
	if err != nil {
		return nil, err
	}
	if o.exit.Leftover > 0 {
		c.Warn("processes_killed", fmt.Sprintf("%d processes that the agent left behind were killed", o.exit.Leftover))
	}
	l.clean()
	r := l.report(o)
	r.TranscriptPath, r.Truncated = transcript.Path, transcript.Omitted() > 0
	r.Output += transcript.Total()
	if err := l.keep(o); err != nil {
		return nil, err
	}
	// The call may be cancelled; what the agent did to the files is still worth knowing.
	after, stop := context.WithTimeout(context.WithoutCancel(ctx), afterwards)
	defer stop()
	if r.FilesChanged, err = changed(after); err != nil {
		c.Warn("files_changed_unknown", err.Error())
	}
	if r.FilesChanged == nil {
		r.FilesChanged = []string{}
	}
	if o.question != nil && errors.Is(o.cause, errAsked) {
		p := pending{Session: l.left(o), Question: *o.question, SoFar: r.soFar}
		if err := p.save(c); err != nil {
			return nil, err
		}
		return nil, c.Suspend(ctx, o.question.Waiting.Reason, o.question.Waiting.ExpectedInputs, o.question.Request)
	}
	return l.verdict(r, o)
}

// drive runs the agent to its end, or to ours.
func (l *launch) drive(ctx context.Context, transcript *proc.Transcript) (outcome, error) {
	c := l.call
	limited, cancel := context.WithTimeoutCause(ctx, seconds(l.in.Limits.WallS), errWall)
	defer cancel()
	alive, silence := watchSilence(limited, seconds(l.in.Limits.IdleS))
	defer silence.end()

	var o outcome
	log := &shared{to: transcript}
	o.out = newOutput(c, l.adapter, l.secrets, log, silence, l.in.PassThrough, func(s said) { l.judge(s, &o, silence) })
	l.spec.Stdout, l.spec.Stderr = o.out, o.out
	words := proc.Tail{Limit: maxStderr}
	stderr := &listener{silence: silence, to: l.secrets.Writer(tee{log, &words})}
	if l.adapter.Output != "text" {
		l.spec.Stderr = stderr
	}
	var once sync.Once
	nested, err := follow(c, func(q skill.Question) {
		once.Do(func() {
			o.question = &q // read when the relay has ended
			silence.cancel(errAsked)
		})
	})
	if err != nil {
		return o, err
	}
	o.exit, err = l.reaper.Run(alive, l.spec)
	o.cause = context.Cause(alive)
	shown := nested.finish()
	if err != nil {
		return o, fmt.Errorf("run the agent: %w", err)
	}
	if err := errors.Join(stderr.to.Flush(), o.out.finish(), shown); err != nil {
		return o, err
	}
	o.stderr = string(words.Bytes())
	if o.question != nil && o.cause == nil { // it ended before it could be stopped
		o.cause = errAsked
	}
	return o, nil
}

// judge stops the agent when what it said passes a limit.
func (l *launch) judge(s said, o *outcome, silence *silence) {
	switch s.kind {
	case kindStart:
		if l.offered && o.lonely == "" {
			o.lonely = missing(o.out.tally.servers)
			if asked := l.in.MCP.Spritekit; o.lonely != "" && asked != nil && *asked {
				silence.cancel(errNoTools)
			}
		}
	case kindEnd:
		silence.soon(seconds(cmp.Or(l.adapter.LingerS, lingerS)))
		return // it is over; a limit passed by the last answer changes nothing
	}
	if s.kind == kindRetry && s.number("status") != tooManyRequests && o.out.tally.vain >= maxVain {
		silence.cancel(errDead)
	}
	if name := l.in.Limits.passed(o.out.tally, l.base(), l.in.Prices); name != "" {
		silence.cancel(limitError(name))
	}
}

// missing says what the agent says of our server when it does not have it, "" when it has it or does not say.
func missing(servers []server) string {
	for _, s := range servers {
		if s.Name == ownServer && s.Status != "connected" && s.Status != "pending" {
			return s.Status
		}
	}
	return ""
}

// base is from where the agent counts, as far as it counts from the beginning of the session.
func (l *launch) base() baseline {
	var b baseline
	for _, what := range l.adapter.Cumulative {
		switch what {
		case "usage":
			b.Usage = l.session.Base.Usage
		case "cost":
			b.CostUSD = l.session.Base.CostUSD
		}
	}
	return b
}

// left is the session as the agent left it.
func (l *launch) left(o outcome) session {
	s := l.session
	t := o.out.tally
	if t.session != "" {
		s.ID = t.session
	}
	if t.total != nil {
		s.Base.Usage = *t.total
	}
	if t.paid != nil {
		s.Base.CostUSD = *t.paid
	}
	return s
}

// keep records the session for calls to come.
func (l *launch) keep(o outcome) error {
	if l.adapter.Home == "inherit" {
		return nil
	}
	return l.left(o).save(l.call)
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// listener is stderr: a sign of life, and words for the transcript.
type listener struct {
	silence *silence
	to      *redact.Writer
}

func (w *listener) Write(p []byte) (int, error) {
	w.silence.heard()
	return w.to.Write(p)
}

type tee struct {
	log  *shared
	tail *proc.Tail
}

func (t tee) Write(p []byte) (int, error) {
	_, _ = t.tail.Write(p) // it cannot fail
	return t.log.Write(p)
}
