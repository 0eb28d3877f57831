// Package execs answers the calls about commands: it starts them in sprites, streams their input and output over WebSockets,
// POST requests and control channels, and keeps them as sessions that clients join and leave.
package execs

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"

	"golang.org/x/sys/unix"

	"github.com/spritekit/lattice/orchestrator/host/core"
	"github.com/spritekit/lattice/orchestrator/host/fleet"
	"github.com/spritekit/lattice/orchestrator/host/program"
	"github.com/spritekit/lattice/orchestrator/host/records"
	"github.com/spritekit/lattice/orchestrator/host/sandbox"
	"github.com/spritekit/lattice/orchestrator/host/wire"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// Defaults of an exec, as the API documents them.
const (
	defaultShell = "bash"
	defaultRows  = 24
	defaultCols  = 80
	pipeGrace    = 10 * time.Second // without TTY
	pipeTTYGrace = 0                // with TTY: for ever
)

// execRequest is one command as the query names it.
type execRequest struct {
	program    string // a path, or a name to look up
	argv       []string
	env        []string
	dir        string
	tty, stdin bool
	rows, cols int
	grace      time.Duration // 0 = for ever
}

// parseExec reads the query of an exec.
func parseExec(q url.Values) (execRequest, error) {
	in := execRequest{
		argv: slices.Concat(q["cmd"], q["cmd[]"]), env: q["env"], dir: q.Get("dir"), tty: q.Get("tty") == "true",
		rows: defaultRows, cols: defaultCols,
	}
	in.program = q.Get("path")
	if len(in.argv) == 0 && in.program != "" {
		in.argv = []string{in.program}
	}
	if len(in.argv) == 0 {
		return in, wire.BadRequest("No command specified: send cmd, once per argument")
	}
	if in.argv[0] == "" && in.program == "" {
		in.argv[0] = defaultShell
	}
	if in.program == "" {
		in.program = in.argv[0]
	}
	if !path.IsAbs(in.dir) {
		in.dir = path.Join(program.DefaultDir, in.dir)
	}
	for _, text := range slices.Concat(in.argv, in.env, []string{in.program, in.dir}) {
		if strings.ContainsRune(text, 0) {
			return in, wire.BadRequest("cmd, path, env and dir must not hold the byte 0")
		}
	}
	for _, kv := range in.env {
		if name, _, ok := strings.Cut(kv, "="); !ok || name == "" {
			return in, wire.BadRequest(fmt.Sprintf("env must be NAME=VALUE, not %q", kv))
		}
	}
	in.stdin, in.grace = q.Get("stdin") == "true", pipeGrace
	if in.tty {
		in.stdin, in.grace = q.Get("stdin") != "false", pipeTTYGrace
	}
	for name, to := range map[string]*int{"rows": &in.rows, "cols": &in.cols} {
		if text := q.Get(name); text != "" {
			n, err := strconv.ParseUint(text, 10, 16)
			if err != nil {
				return in, wire.BadRequest(fmt.Sprintf("%s must be a number up to 65535, not %q", name, text))
			}
			if n > 0 {
				*to = int(n)
			}
		}
	}
	if text := q.Get("max_run_after_disconnect"); text != "" {
		d, err := wire.ParseDuration(text)
		if err != nil {
			return in, wire.BadRequest("max_run_after_disconnect: " + err.Error())
		}
		in.grace = d
	}
	return in, nil
}

// API answers the calls about commands and their sessions.
type API struct {
	*core.Core
	sprites      world
	firstSession int64 // sessions have higher numbers
	lastSession  atomic.Int64
}

// startCommand runs a command in the sprite with c as its owner, who keeps the sprite awake until detachClient. The process may have ended when it
// returns; its output is kept for c.
func (ea *API) startCommand(ctx context.Context, name string, in execRequest, c *client) (*session, error) {
	s, rec, leave, err := ea.sprites.Enter(ctx, name, 1)
	if err != nil {
		return nil, err
	}
	defer leave()
	box, err := s.StartBox(rec)
	if err != nil {
		return nil, err
	}
	env := program.MergeEnv(box.Config().BaseEnv(), ea.Config.Env, program.PlainEnv(box), s.NetworkEnv(), program.EnvOf(rec.Environment), in.env)
	one := newSession()
	// Without the lock: a sandbox that does not answer must not keep anybody from stopping it.
	if err := one.launchProcess(box, in, env); err != nil {
		return nil, err
	}
	one.id, one.created, one.last = ea.nextSession(), ea.Now(), ea.Clock()
	one.name, one.command = path.Base(in.argv[0]), strings.Join(append([]string{one.proc.Program}, in.argv[1:]...), " ")
	one.ports, one.dir, one.tty, one.rows, one.cols, one.grace = s.PortWatch(), in.dir, in.tty, in.rows, in.cols, in.grace
	one.clients[c] = true
	c.release = s.Adopt(one.id, one, one.run, one.finished)
	return one, nil
}

// launchProcess starts the process and keeps our ends of its pipes.
func (s *session) launchProcess(box *sandbox.Box, in execRequest, env []string) error {
	p := spec.Process{
		Program: in.program, Argv: in.argv, Env: env, Dir: in.dir, TTY: in.tty, Rows: uint16(in.rows), Cols: uint16(in.cols),
	}
	var theirs, ours []*os.File
	pipe := func() (r, w *os.File, err error) {
		if r, w, err = os.Pipe(); err == nil {
			return r, w, nil
		}
		return nil, nil, fmt.Errorf("make a pipe: %w", err)
	}
	closeAll := func(files []*os.File) {
		for _, f := range files {
			f.Close()
		}
	}
	if !in.tty {
		for stream, to := range map[byte]**os.File{sprites.StreamStdout: &p.Stdout, sprites.StreamStderr: &p.Stderr} {
			r, w, err := pipe()
			if err != nil {
				closeAll(append(ours, theirs...))
				return err
			}
			s.outputs[stream], *to = r, w
			ours, theirs = append(ours, r), append(theirs, w)
		}
		if in.stdin {
			r, w, err := pipe()
			if err != nil {
				closeAll(append(ours, theirs...))
				return err
			}
			p.Stdin, s.input = r, w
			ours, theirs = append(ours, w), append(theirs, r)
		}
	}
	proc, err := box.Exec(p)
	closeAll(theirs)
	if err != nil {
		closeAll(ours)
		return err
	}
	s.proc = proc
	if in.tty {
		terminal, err := makePollable(proc.PTY)
		if err != nil {
			return errors.Join(fmt.Errorf("take over the terminal: %w", err), proc.Signal("KILL"), proc.PTY.Close())
		}
		s.outputs[sprites.StreamStdout] = terminal
		if in.stdin {
			s.input = terminal
		}
	}
	return nil
}

// makePollable returns a copy of f that honours deadlines.
func makePollable(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// startFailure tells a command that does not exist from a host that does not work: the former is an outcome like
// another, which clients of all kinds understand as exit 127 or 126 with a word on stderr.
func startFailure(err error) (*spec.StartError, bool) {
	var failed *spec.StartError
	return failed, errors.As(err, &failed)
}

// ExecOrList is a new command when the client asks for a socket, else the list of sessions.
func (ea *API) ExecOrList(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	upgrade := strings.EqualFold(r.Header.Get("Upgrade"), "websocket")
	switch {
	case q.Get("id") != "":
		return ea.attachTo(w, r, q.Get("id"))
	case upgrade:
		return ea.execSocket(w, r)
	case len(q["cmd"]) > 0:
		return wire.Refuse(http.StatusUpgradeRequired, "upgrade_required", "exec over GET needs a WebSocket; use POST without one")
	}
	return wire.AsText(ea.listSessions)(w, r)
}

func NewAPI(c *core.Core, sprites world) *API { return &API{Core: c, sprites: sprites} }

// world is how commands get at sprites.
type world interface {
	// Enter finds a sprite, wakes it, and passes its gate, alone or (weight 1) with others.
	Enter(ctx context.Context, name string, weight int64) (s *fleet.Sprite, rec records.Sprite, leave func(), err error)
	// Runtime returns the running state of a sprite, without waking it.
	Runtime(rec records.Sprite) (*fleet.Sprite, error)
}
