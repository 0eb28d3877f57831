package sandbox_test

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spritekit/lattice/orchestrator/host/sandbox"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
	"github.com/spritekit/lattice/orchestrator/host/tree"
	"golang.org/x/sys/unix"
)

// attack is an attempt of what runs in a box. The table (attacks) is run three ways at each level: against all defences,
// where it must fail; against each of its layers alone, where it must fail, too; and without any of them, where it must
// succeed, so that the test is known to be able to fail.
type attack struct {
	name   string
	actor  string   // an attacker of this binary (actors) …
	args   []string // … and what it is told; prepare may add to it
	self   bool     // it is run as /proc/self/exe, which init finds to be its own executable
	script string   // or a shell script, which ends with 0 when it succeeded

	prepare   func(*testing.T, *scene)      // makes on the host what the attack needs
	succeeded func(*testing.T, *scene) bool // sees from the host whether it did; nil takes the attacker's word
	layers    []spec.Defence                // each stops it; none is left for the control
	plain     bool                          // the control is a plain process tree: there is no box without this boundary
	only      spec.Level                    // "" is both levels
	tty       bool
	limits    spec.Limits
	kept      spec.Defence // a limit that not every user can have kept
	network   bool         // the box has a network of its own
}

// scene is one box with one attack.
type scene struct {
	dir  string // of the host; holds what the box shows, and what it must not
	cfg  spec.Config
	box  *sandbox.Box
	args []string // of the attacker
	code int      // how it ended
	out  string   // what it said

	open   []*os.File // closed after the box
	after  []func()   // called then
	victim *exec.Cmd
}

// playsAttacker makes the test binary what its first argument says.
func playsAttacker(args []string) (code int, ok bool) {
	if len(args) > 2 && args[1] == attackArg {
		return attacker(args[2:]), true
	}
	return 0, false
}

func TestAttacks(t *testing.T) {
	boxes, _ := starter(t) // skips where there are no namespaces; boxes with all defences come of spare inits, as a host's do
	level := spec.LevelUser
	if os.Getuid() == 0 {
		level = spec.LevelRoot
	}
	for _, a := range attacks() {
		if a.only != "" && a.only != level {
			continue
		}
		t.Run(a.name, func(t *testing.T) {
			if won, out := a.try(t, boxes, level, nil); won {
				t.Errorf("succeeds against all defences: %s", out)
			}
			for _, alone := range a.layers {
				if len(a.layers) == 1 {
					break
				}
				others := slices.DeleteFunc(slices.Clone(a.layers), func(d spec.Defence) bool { return d == alone })
				if won, out := a.try(t, boxes, level, others); won {
					t.Errorf("succeeds against %s alone: %s", alone, out)
				}
			}
			control := level
			if a.plain {
				control = spec.LevelProcess
			}
			if won, out := a.try(t, boxes, control, a.layers); !won {
				t.Errorf("fails without %s, too, so that this proves nothing: %s", a.layers, out)
			}
		})
	}
}

// try makes a box without some defences, plays the attack in it and says what it came to.
func (a attack) try(t *testing.T, boxes *sandbox.Starter, level spec.Level, without []spec.Defence) (won bool, out string) {
	t.Helper()
	s := newScene(t, level)
	s.cfg.Without, s.cfg.Limits, s.cfg.Network = without, a.limits, a.network
	s.args = slices.Clone(a.args)
	if a.prepare != nil {
		a.prepare(t, s)
	}
	boxes.Spare() // is there, and will be used if it is of that kind
	box, err := boxes.Start(s.cfg)
	if err != nil {
		t.Fatalf("start a box at %s without %s: %v", level, without, err)
	}
	s.box = box
	defer s.stop(t)
	if a.kept != "" && len(without) == 0 && !keeps(box, a.kept) {
		t.Skipf("nothing keeps the limit %s here, which lattice doctor tells", a.kept)
	}
	s.play(t, a)
	return a.won(t, s), s.out
}

// newScene lays out what a box shows. The folder belongs to the host alone.
func newScene(t *testing.T, level spec.Level) *scene {
	t.Helper()
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o700))
	t.Cleanup(func() { must(t, tree.Remove(filepath.Join(dir, "root"))) }) // files of sub-ids, too
	cfg, err := config(dir, level == spec.LevelProcess)
	must(t, err)
	cfg.Level = level
	must(t, os.WriteFile(filepath.Join(dir, "secret"), []byte("host"), 0o644))
	must(t, os.WriteFile(filepath.Join(cfg.Skills, "hello"), []byte("#!/bin/sh\necho skill $1\n"), 0o755))
	copyProgram(t, filepath.Join(cfg.Skills, "attacker"))
	return &scene{dir: dir, cfg: cfg}
}

// copyProgram makes the test binary another program: a link where one can be made.
func copyProgram(t *testing.T, to string) {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	if os.Link(self, to) == nil {
		return
	}
	program, err := os.ReadFile(self)
	must(t, err)
	must(t, os.WriteFile(to, program, 0o755))
}

func (s *scene) play(t *testing.T, a attack) {
	t.Helper()
	p := spec.Process{Env: s.box.Config().BaseEnv(), TTY: a.tty, Argv: []string{"/bin/sh", "-c", a.script}}
	if a.actor != "" {
		p.Argv = append([]string{"/skills/attacker", attackArg, a.actor}, s.args...)
		p.Program = s.box.Config().HostPath("/skills/attacker")
		if !s.box.Config().Plain() {
			p.Program = "/skills/attacker"
		}
		if a.self {
			p.Program = "/proc/self/exe"
		}
	} else {
		p.Argv = append(p.Argv, append([]string{"sh"}, s.args...)...)
	}
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	if !a.tty {
		p.Stdout, p.Stderr = w, w
	}
	proc, err := s.box.Exec(p)
	w.Close()
	if errors.Is(err, spec.ErrDied) { // the attacker was faster than the answer that it runs
		s.code, s.out = 128+int(unix.SIGKILL), err.Error()
		return
	}
	must(t, err)
	if a.tty {
		defer proc.PTY.Close()
		out, _ := io.ReadAll(proc.PTY) // ends with EIO
		s.out = string(out)
	} else {
		out, err := io.ReadAll(r)
		must(t, err)
		s.out = string(out)
	}
	s.out = strings.TrimSpace(s.out)
	s.code, err = proc.Wait()
	if err != nil && !errors.Is(err, spec.ErrDied) {
		t.Fatal(err)
	}
	if err != nil {
		s.out += " (" + err.Error() + ")"
	}
}

// won is what the attack came to.
func (a attack) won(t *testing.T, s *scene) bool {
	t.Helper()
	if a.actor != "" && s.code != attackSucceeded && s.code != attackStopped && s.code < 128 {
		t.Fatalf("the attacker %s: %s", exitName(s.code), s.out)
	}
	if a.succeeded != nil {
		return a.succeeded(t, s)
	}
	return s.code == attackSucceeded
}

func (s *scene) stop(t *testing.T) {
	if err := s.box.Stop(); err != nil {
		t.Errorf("Stop = %v", err)
	}
	for _, f := range s.open {
		f.Close()
	}
	for _, undo := range s.after {
		undo()
	}
}
