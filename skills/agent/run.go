// Package agent holds agent.run: it runs an agent on a prompt. Start with Run; output.go is what becomes of the
// agent's output, relay.go shows what the skills say that it calls.
//
// An agent is a stranger in the house. It gets the prompt on stdin, never as an argument; of the environment it sees a
// fixed handful of names and those that the caller allowed; what it prints goes to a capped transcript; and when the
// call ends, however it ends, every process that the agent started is dead.
package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/skill"
)

const (
	agentCommand   = "command"
	defaultTimeout = time.Hour
	maxTimeout     = 7 * 24 * time.Hour
	maxTranscript  = 64 << 20
	maxFinalText   = 8 << 10
	maxPrompt      = 4 << 20
	stopGrace      = 5 * time.Second
)

// Watch notes the state of the repository in dir and returns a function that lists the files that changed since.
// A folder that is no repository has no changes and is no error.
type Watch func(ctx context.Context, c *skill.Call, dir string) (changed func(context.Context) ([]string, error), err error)

// Skills lists the family. Its processes are started by r.
func Skills(r *proc.Reaper, watch Watch) []skill.Skill {
	return []skill.Skill{{Name: "agent.run", Run: func(ctx context.Context, c *skill.Call) (skill.Result, error) {
		return run(ctx, c, r, watch)
	}}}
}

type input struct {
	Agent       string          `json:"agent"`
	Command     json.RawMessage `json:"command"`
	Prompt      string          `json:"prompt"`
	PromptFile  string          `json:"prompt_file"`
	Cwd         string          `json:"cwd"`
	TimeoutS    float64         `json:"timeout_s"`
	IdleS       float64         `json:"idle_s"`
	EnvAllow    []string        `json:"env_allow"`
	PassThrough bool            `json:"pass_through_events"`
}

type report struct {
	Status         string   `json:"status"`      // done, failed, limit, cancelled
	StopReason     string   `json:"stop_reason"` // exit, signal, timeout, idle, cancelled
	Agent          string   `json:"agent"`
	Exit           exit     `json:"exit"`
	DurationMS     int64    `json:"duration_ms"`
	FilesChanged   []string `json:"files_changed"`
	FinalText      string   `json:"final_text"`
	TranscriptPath string   `json:"transcript_path"`
	OutputBytes    int64    `json:"output_bytes"`
	Truncated      bool     `json:"truncated"`
}

type exit struct {
	Code   int    `json:"code"`
	Signal string `json:"signal"`
}

var (
	errWall = errors.New("the agent used up its time")
	errIdle = errors.New("the agent was silent for too long")
)

func run(ctx context.Context, c *skill.Call, reaper *proc.Reaper, watch Watch) (skill.Result, error) {
	var in input
	if err := c.Bind(&in); err != nil {
		return skill.Result{}, err
	}
	spec, wall, idle, err := prepare(c, in)
	if err != nil {
		return skill.Result{}, err
	}
	changed, err := watch(ctx, c, spec.Dir)
	if err != nil {
		c.Warn("files_changed_unknown", err.Error())
		changed = func(context.Context) ([]string, error) { return nil, nil }
	}
	transcript, err := proc.OpenTranscript(c, ".agent.log", maxTranscript)
	if err != nil {
		return skill.Result{}, err
	}
	defer transcript.Close()

	limited, cancel := context.WithTimeoutCause(ctx, wall, errWall)
	defer cancel()
	alive, silence := watchSilence(limited, idle)
	defer silence.end()
	out := newOutput(c, transcript, silence, in.PassThrough)
	spec.Stdout, spec.Stderr = out, out
	nested, err := follow(c)
	if err != nil {
		return skill.Result{}, err
	}
	ended, err := reaper.Run(alive, spec)
	shown := nested.finish()
	if err != nil {
		return skill.Result{}, fmt.Errorf("run the agent: %w", err)
	}
	if err := errors.Join(out.finish(), shown); err != nil {
		return skill.Result{}, err
	}
	r := report{
		Agent: agentCommand, Exit: exit{Code: ended.Code}, DurationMS: ended.Duration.Milliseconds(), TranscriptPath: transcript.Path,
		FinalText: out.finalText(), OutputBytes: transcript.Total(), Truncated: transcript.Omitted() > 0,
	}
	if ended.Signal != 0 {
		r.Exit.Signal = ended.Signal.String()
	}
	if ended.Leftover > 0 {
		c.Warn("processes_killed", fmt.Sprintf("%d processes that the agent left behind were killed", ended.Leftover))
	}
	// The call may be cancelled; what the agent did to the files is still worth knowing.
	after, stop := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer stop()
	if r.FilesChanged, err = changed(after); err != nil {
		c.Warn("files_changed_unknown", err.Error())
	}
	if r.FilesChanged == nil {
		r.FilesChanged = []string{}
	}
	return r.verdict(context.Cause(alive))
}

func prepare(c *skill.Call, in input) (spec proc.Spec, wall, idle time.Duration, err error) {
	if in.Agent != "" && in.Agent != agentCommand {
		return spec, 0, 0, skill.Unsupported("unsupported", "there is no agent %q", in.Agent).
			WithHint(`this version knows: %s, with "command" naming the program`, agentCommand)
	}
	if wall = defaultTimeout; in.TimeoutS != 0 {
		wall = time.Duration(in.TimeoutS * float64(time.Second))
	}
	if wall <= 0 || wall > maxTimeout {
		return spec, 0, 0, skill.BadInput("/timeout_s", "is not between 0 and %v seconds", maxTimeout.Seconds())
	}
	if idle = time.Duration(in.IdleS * float64(time.Second)); idle < 0 {
		return spec, 0, 0, skill.BadInput("/idle_s", "is negative")
	}
	spec = proc.Spec{Tree: true, Grace: stopGrace}
	if spec.Stdin, err = prompt(c, in); err != nil {
		return spec, 0, 0, err
	}
	if spec.Dir, err = proc.WorkDir(c, in.Cwd); err != nil {
		return spec, 0, 0, err
	}
	if spec.Env, err = environment(c, in.EnvAllow); err != nil {
		return spec, 0, 0, err
	}
	if len(in.Command) == 0 || string(in.Command) == "null" {
		return spec, 0, 0, skill.BadInput("/command", "is required with agent command")
	}
	_, spec.Argv, err = proc.Argv(in.Command, spec.Env)
	return spec, wall, idle, err
}

func prompt(c *skill.Call, in input) (string, error) {
	switch {
	case in.Prompt != "" && in.PromptFile != "":
		return "", skill.BadInput("/prompt_file", "cannot be used together with prompt")
	case in.PromptFile != "":
		data, err := c.Root.ReadFile(in.PromptFile, maxPrompt)
		return string(data), err
	case len(in.Prompt) > maxPrompt:
		return "", skill.BadInput("/prompt", "is larger than %d bytes", maxPrompt)
	}
	return in.Prompt, nil
}

// environment is all that the agent sees: where programs are, who it works for, and what the caller allowed.
func environment(c *skill.Call, allow []string) ([]string, error) {
	env := []string{"PATH=" + proc.Getenv(c.Env, "PATH", proc.DefaultPath), "IS_SANDBOX=1"}
	names := []string{"HOME", "LANG", "TERM"}
	for i, name := range allow {
		if !isVariable(name) || strings.HasPrefix(name, "LATTICE_") {
			return nil, skill.BadInput(fmt.Sprintf("/env_allow/%d", i), "%q cannot be allowed", name)
		}
		names = append(names, name)
	}
	for _, name := range names {
		if value := proc.Getenv(c.Env, name, ""); value != "" {
			env = append(env, name+"="+value)
		}
	}
	for name, value := range map[string]string{
		"LATTICE_SPRITE_ID": c.SpriteID, "LATTICE_WORK_ITEM_ID": c.WorkItemID, "LATTICE_RUN_ID": c.RunID,
		"LATTICE_WORKSPACE": c.Root.Dir(), "LATTICE_SOCKET": c.Socket,
	} {
		if value != "" {
			env = append(env, name+"="+value)
		}
	}
	return env, nil
}

// isVariable accepts letters, digits and underscores, no digit first. It is a loop and no pattern, as everywhere in
// the skills: a global pattern is compiled at the start of every one of them.
func isVariable(name string) bool {
	bad := strings.IndexFunc(name, func(c rune) bool {
		return !('a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || c == '_')
	})
	return name != "" && bad < 0 && (name[0] < '0' || name[0] > '9')
}

// verdict turns the report into the outcome of the call.
func (r report) verdict(cause error) (skill.Result, error) {
	r.StopReason = "exit"
	if r.Exit.Signal != "" {
		r.StopReason = "signal"
	}
	switch {
	case errors.Is(cause, errWall), errors.Is(cause, errIdle):
		r.Status, r.StopReason = "limit", "timeout"
		if errors.Is(cause, errIdle) {
			r.StopReason = "idle"
		}
		e := skill.Timeout("%v", cause).WithDetails(r)
		e.Retryable = false
		return skill.Result{}, e
	case cause != nil:
		r.Status, r.StopReason = "cancelled", "cancelled"
		e := skill.Failed("cancelled", "the agent was cancelled").WithDetails(r)
		if e.Exit = protocol.ExitCancelled; errors.Is(cause, context.DeadlineExceeded) {
			e.Code, e.Exit = "timeout", protocol.ExitTimeout
		}
		return skill.Result{}, e
	case r.Exit.Code != 0:
		r.Status = "failed"
		how := fmt.Sprintf("with code %d", r.Exit.Code)
		if r.Exit.Signal != "" {
			how = "by signal: " + r.Exit.Signal
		}
		return skill.Result{}, skill.Failed("agent_failed", "the agent ended %s", how).
			WithHint("what it printed is in %s", r.TranscriptPath).WithDetails(r)
	}
	r.Status = "done"
	return skill.Result{Data: r}, nil
}

// silence ends a context when nothing is heard for too long.
type silence struct {
	cancel context.CancelCauseFunc
	limit  time.Duration
	mu     sync.Mutex // guards timer against end
	timer  *time.Timer
}

func watchSilence(ctx context.Context, limit time.Duration) (context.Context, *silence) {
	ctx, cancel := context.WithCancelCause(ctx)
	s := &silence{cancel: cancel, limit: limit}
	if limit > 0 {
		s.timer = time.AfterFunc(limit, func() { cancel(errIdle) })
	}
	return ctx, s
}

// heard starts the wait anew.
func (s *silence) heard() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil && s.timer.Stop() {
		s.timer.Reset(s.limit)
	}
}

func (s *silence) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer != nil {
		s.timer.Stop()
	}
	s.cancel(nil)
}
