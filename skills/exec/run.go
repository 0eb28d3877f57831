// Package exec holds exec.run: it runs one program to its end and checks its exit code and output. Unlike test.run it
// does not parse the output; unlike agent.run the program is trusted with the environment that the caller names. Skills that the
// program calls take part in the run (package relay).
package exec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spritekit/lattice/skills/proc"
	"github.com/spritekit/lattice/skills/relay"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/redact"
	"github.com/spritekit/lattice/spritekit/skill"
)

const (
	defaultTimeout = 10 * time.Minute
	maxTimeout     = 7 * 24 * time.Hour
	defaultShown   = 32 << 10 // bytes of each stream in the result
	maxShown       = 256 << 10
	maxSearched    = 8 << 20 // bytes of stdout that the pattern is looked for in
	maxLog         = 256 << 20
	maxStdin       = 4 << 20
	stopGrace      = 5 * time.Second
	// A program that runs for long is told of, at first often.
	beatEvery = 2 * time.Second
	beatLater = 30 * time.Second
)

// Skills lists the family. Its processes are started by r.
func Skills(r *proc.Reaper) []skill.Skill {
	return []skill.Skill{{Name: "exec.run", Run: skill.Typed(func(ctx context.Context, c *skill.Call, in input) (*report, error) {
		return runProgram(ctx, c, in, r)
	})}}
}

type input struct {
	Argv         []string          `json:"argv"`
	Command      string            `json:"command"`
	Cwd          string            `json:"cwd"`
	Env          map[string]string `json:"env"`
	EnvAllow     []string          `json:"env_allow"`
	Stdin        string            `json:"stdin"`
	TimeoutS     float64           `json:"timeout_s"`
	MaxOutput    int               `json:"max_output_bytes"`
	ExpectExit   json.RawMessage   `json:"expect_exit"`
	ExpectStdout string            `json:"expect_stdout"`
}

type report struct {
	ExitCode   int    `json:"exit_code"` // -1 when a signal ended it
	Signal     string `json:"signal"`
	Stdout     string `json:"stdout"`
	Stderr     string `json:"stderr"`
	Truncated  bool   `json:"truncated"`
	DurationMS int64  `json:"duration_ms"`
	Matched    bool   `json:"matched"` // expect_stdout was found, or not asked for
	LogPath    string `json:"log_path"`
}

var errTimeLimit = errors.New("the program used up its time")

// job is a validated input.
type job struct {
	spec     proc.Spec
	limit    time.Duration
	shown    int
	expected []int
	pattern  *regexp.Regexp // nil for none
}

func runProgram(ctx context.Context, c *skill.Call, in input, reaper *proc.Reaper) (*report, error) {
	j, err := newJob(c, in)
	if err != nil {
		return nil, err
	}
	file, err := proc.OpenTranscript(c, ".exec.log", maxLog)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	log := &shared{w: file}
	stdout, stderr := newCapture(j.shown, log), newCapture(j.shown, log)
	var searched proc.Head
	known := listLeased(c.Env)
	printed := []*redact.Writer{known.Writer(io.MultiWriter(stdout, &searched)), known.Writer(stderr)}
	j.spec.Stdout, j.spec.Stderr = printed[0], printed[1]
	if j.pattern != nil {
		searched.Limit = maxSearched
	}
	var ended proc.Exit
	late := false
	waits, err := relay.Attend(ctx, c, func(ctx context.Context) (err error) {
		limited, cancel := context.WithTimeoutCause(ctx, j.limit, errTimeLimit)
		defer cancel()
		defer reportProgress(c, path.Base(j.spec.Argv[0]), log)()
		ended, err = reaper.Run(limited, j.spec)
		late = errors.Is(context.Cause(limited), errTimeLimit)
		return err
	})
	err = errors.Join(err, printed[0].Flush(), printed[1].Flush())
	if err != nil {
		return nil, fmt.Errorf("run the program: %w", err)
	}
	if waits {
		return nil, nil
	}
	if ended.Leftover > 0 {
		c.Warn("processes_killed", fmt.Sprintf("processes that the program left behind were killed: %d", ended.Leftover))
	}
	if searched.Omitted() > 0 {
		c.Warn("pattern_not_everywhere", fmt.Sprintf("expect_stdout was looked for in the first %d bytes of stdout only", maxSearched))
	}
	r := report{
		ExitCode: ended.Code, Stdout: stdout.joinEnds(file.Path), Stderr: stderr.joinEnds(file.Path), Truncated: stdout.isCut() || stderr.isCut(),
		DurationMS: ended.Duration.Milliseconds(), Matched: j.pattern == nil || j.pattern.Match(searched.Bytes()), LogPath: file.Path,
	}
	if ended.Signal != 0 {
		r.Signal = ended.Signal.String()
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return j.judgeReport(r, late)
}

func newJob(c *skill.Call, in input) (j job, err error) {
	j.spec = proc.Spec{Stdin: in.Stdin, Tree: true, Grace: stopGrace}
	if len(in.Stdin) > maxStdin {
		return j, skill.BadInput("/stdin", "has %d bytes, at most %d are allowed", len(in.Stdin), maxStdin)
	}
	if j.limit = defaultTimeout; in.TimeoutS != 0 {
		j.limit = time.Duration(min(in.TimeoutS, maxTimeout.Seconds()+1) * float64(time.Second))
	}
	if j.limit <= 0 || j.limit > maxTimeout {
		return j, skill.BadInput("/timeout_s", "is not between 0 and %v seconds", maxTimeout.Seconds())
	}
	if j.shown = defaultShown; in.MaxOutput != 0 {
		j.shown = in.MaxOutput
	}
	if j.shown < 0 || j.shown > maxShown {
		return j, skill.BadInput("/max_output_bytes", "is not between 0 and %d", maxShown)
	}
	if j.expected, err = parseExits(in.ExpectExit); err != nil {
		return j, err
	}
	if in.ExpectStdout != "" {
		if j.pattern, err = regexp.Compile(in.ExpectStdout); err != nil {
			return j, skill.BadInput("/expect_stdout", "is not a pattern: %v", err)
		}
	}
	if j.spec.Dir, err = proc.WorkDir(c, in.Cwd); err != nil {
		return j, err
	}
	if j.spec.Env, err = buildEnv(c, in.EnvAllow, in.Env); err != nil {
		return j, err
	}
	j.spec.Argv, err = buildArgv(in, j.spec.Env)
	return j, err
}

// buildArgv takes a program with its arguments, or a line for the shell; one of both.
func buildArgv(in input, env []string) ([]string, error) {
	switch {
	case (len(in.Argv) > 0) == (in.Command != ""):
		return nil, skill.BadInput("/argv", "or command is required, and not both")
	case in.Command != "":
		if strings.TrimSpace(in.Command) == "" || strings.ContainsRune(in.Command, 0) {
			return nil, skill.BadInput("/command", "is empty or contains a NUL byte")
		}
		return []string{"/bin/sh", "-c", in.Command}, nil
	case in.Argv[0] == "":
		return nil, skill.BadInput("/argv/0", "is empty")
	}
	for i, word := range in.Argv {
		if strings.ContainsRune(word, 0) {
			return nil, skill.BadInput(fmt.Sprintf("/argv/%d", i), "contains a NUL byte")
		}
	}
	return proc.Resolve(in.Argv, env)
}

// parseExits reads the exit codes that count as success: one, or several; 0 when none is given.
func parseExits(raw json.RawMessage) ([]int, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return []int{0}, nil
	}
	var one int
	var several []int
	if json.Unmarshal(raw, &one) == nil {
		several = []int{one}
	} else if json.Unmarshal(raw, &several) != nil || len(several) == 0 {
		return nil, skill.BadInput("/expect_exit", "is neither an exit code nor an array of some")
	}
	for _, code := range several {
		if code < 0 || code > 255 {
			return nil, skill.BadInput("/expect_exit", "%d is not an exit code", code)
		}
	}
	return several, nil
}

// buildEnv returns the environment of the program: PATH, variables that the caller allows, the identity of the call for skills
// that the program calls, and variables that the caller sets.
func buildEnv(c *skill.Call, allow []string, set map[string]string) ([]string, error) {
	given := c.Env
	env := []string{"PATH=" + proc.Getenv(given, "PATH", proc.DefaultPath)}
	for _, v := range relay.Identity(c, relay.Parent(c)) {
		env = append(env, v[0]+"="+v[1])
	}
	for i, name := range allow {
		if !proc.IsVariable(name) || strings.HasPrefix(name, "LATTICE_") {
			return nil, skill.BadInput(fmt.Sprintf("/env_allow/%d", i), "%q cannot be allowed", name)
		}
	}
	for _, name := range append([]string{"HOME", "LANG", "TERM", "TMPDIR", "USER"}, allow...) {
		if value := proc.Getenv(given, name, ""); value != "" {
			env = append(env, name+"="+value)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if !proc.IsVariable(name) || strings.ContainsRune(set[name], 0) {
			return nil, skill.BadInput("/env", "%q is not the name of a variable, or its value holds a NUL byte", name)
		}
		env = append(env, name+"="+set[name])
	}
	return env, nil
}

// listLeased returns the secrets that the orchestrator leased to the call. The program may see them; its output may not.
func listLeased(env []string) *redact.Secrets {
	var values []string
	for name := range strings.SplitSeq(proc.Getenv(env, protocol.LeasedVariable, ""), ",") {
		values = append(values, proc.Getenv(env, name, ""))
	}
	return redact.New(values...)
}

// judgeReport turns the report into the outcome of the call.
func (j job) judgeReport(r report, late bool) (*report, error) {
	hint := "what it printed is in " + r.LogPath
	switch {
	case late && (r.Signal != "" || !slices.Contains(j.expected, r.ExitCode)):
		e := fault.Timeout("timeout", "the program did not end within %v", j.limit).WithDetails(r)
		e.Retryable = false
		return nil, e.WithHint("%s", hint)
	case r.Signal != "":
		return nil, fault.Failed("killed", "the program was ended by a signal: %s", r.Signal).WithHint("%s", hint).WithDetails(r)
	case !slices.Contains(j.expected, r.ExitCode):
		return nil, fault.Failed("exit_code", "the program ended with exit code %d, expected is %v", r.ExitCode, j.expected).
			WithHint("%s", hint).WithDetails(r)
	case !r.Matched:
		return nil, fault.Failed("no_match", "stdout does not match %q", j.pattern).WithHint("%s", hint).WithDetails(r)
	}
	return &r, nil
}

// capture keeps the beginning and the end of a stream, and copies all of it to the log.
type capture struct {
	head proc.Head
	tail proc.Tail
	log  io.Writer
}

func newCapture(limit int, log io.Writer) *capture {
	return &capture{head: proc.Head{Limit: limit}, tail: proc.Tail{Limit: limit / 2}, log: log}
}

func (c *capture) Write(p []byte) (int, error) {
	// Neither head nor tail can fail.
	_, _ = c.head.Write(p)
	_, _ = c.tail.Write(p)
	return c.log.Write(p)
}

func (c *capture) isCut() bool { return c.head.Omitted() > 0 }

// joinEnds is the stream, or its two ends with a mark between them.
func (c *capture) joinEnds(log string) string {
	text := c.head.Bytes()
	if c.isCut() {
		half := len(text) - len(c.tail.Bytes())
		mark := fmt.Sprintf("\n… %d bytes are left out here; all of them are in %s …\n", c.head.Omitted(), log)
		text = slices.Concat(text[:half], []byte(mark), c.tail.Bytes())
	}
	return strings.ToValidUTF8(string(text), "\uFFFD")
}

// reportProgress reports every few seconds that the program runs, and the size of its output, until stop is called. The output is
// untrusted and not shown.
func reportProgress(c *skill.Call, name string, log *shared) (stop func()) {
	ticker, done, ended := time.NewTicker(beatEvery), make(chan struct{}), make(chan struct{})
	began := time.Now()
	go func() {
		defer close(ended)
		defer ticker.Stop()
		for {
			if time.Since(began) > beatLater {
				ticker.Reset(beatLater)
			}
			select {
			case <-done:
				return
			case <-ticker.C:
				seconds := int(time.Since(began).Seconds())
				c.Progress(fmt.Sprintf("%s runs for %d s, %d bytes of output", name, seconds, log.countWritten()), map[string]any{"seconds": seconds})
			}
		}
	}()
	return func() { close(done); <-ended }
}

// shared lets both streams write to one log.
type shared struct {
	mu    sync.Mutex // guards the fields below
	w     io.Writer
	total int64 // bytes written
}

func (s *shared) countWritten() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}

func (s *shared) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total += int64(len(p))
	return s.w.Write(p)
}
