//go:build linux

package sandbox_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/sandbox"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/guest"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
	"github.com/spritekit/lattice/orchestrator/host/tree"
	"go.uber.org/goleak"
)

// hostArg makes the test binary a host process that is to be killed.
const hostArg = "__test-host"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == spec.InitArg {
		os.Exit(guest.Main(os.Args[2:], os.Environ()))
	}
	if len(os.Args) > 1 && os.Args[1] == tree.HelperArg {
		os.Exit(tree.Help(os.Stdin, os.Stdout))
	}
	if code, ok := playsAttacker(os.Args); ok {
		os.Exit(code)
	}
	if len(os.Args) > 3 && os.Args[1] == hostArg {
		os.Exit(doomedHost(os.Args[2], os.Args[3] == "plain"))
	}
	if len(os.Args) > 2 && os.Args[1] == spareArg {
		os.Exit(hostWithSpare(os.Args[2]))
	}
	goleak.VerifyTestMain(m)
}

// config describes a box below dir, which Owner must be able to reach only through the box.
func config(dir string, plain bool) (spec.Config, error) {
	self, err := os.Executable()
	cfg := spec.Config{
		Self:   self,
		Root:   spec.Root{Dir: filepath.Join(dir, "root"), Host: true},
		Skills: filepath.Join(dir, "skills"),
		Run:    filepath.Join(dir, "run"),
		Cache:  filepath.Join(dir, "cache"),
		OwnIDs: ownIDs(self, dir),
	}
	if plain {
		cfg.Level = spec.LevelProcess
	}
	for _, d := range []string{cfg.Root.Dir, cfg.Skills, cfg.Run} {
		err = errors.Join(err, os.Mkdir(d, 0o755))
	}
	return cfg, err
}

// ownIDs reports, the first time by trying in dir, whether boxes here can have ids of their own, as those of a host then have.
func ownIDs(self, dir string) bool {
	tryOwnIDs.Do(func() { hasOwnIDs = sandbox.TryOwnIDs(self, dir) == nil })
	return hasOwnIDs
}

var (
	tryOwnIDs sync.Once
	hasOwnIDs bool
)

func start(t *testing.T, plain bool) (*sandbox.Box, spec.Config) {
	t.Helper()
	dir := t.TempDir()
	must(t, os.Chmod(dir, 0o700))
	cfg, err := config(dir, plain)
	must(t, err)
	must(t, os.WriteFile(filepath.Join(dir, "secret"), []byte("host"), 0o644))
	must(t, os.WriteFile(filepath.Join(cfg.Skills, "hello"), []byte("#!/bin/sh\necho skill $1\n"), 0o755))
	box, err := sandbox.Start(cfg)
	var refusal *spec.Refusal
	if errors.As(err, &refusal) {
		t.Skipf("no namespaces here: %v", err)
	}
	must(t, err)
	t.Cleanup(func() {
		if err := box.Stop(); err != nil {
			t.Errorf("Stop = %v", err)
		}
	})
	return box, cfg
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// run runs a shell script in the box and returns its output, both kinds, and exit code.
func run(t *testing.T, box *sandbox.Box, script string) (string, int) {
	t.Helper()
	r, w, err := os.Pipe()
	must(t, err)
	defer r.Close()
	proc, err := box.Exec(spec.Process{Argv: []string{"/bin/sh", "-c", script}, Env: box.Config().BaseEnv(), Stdout: w, Stderr: w})
	w.Close()
	must(t, err)
	out, err := io.ReadAll(r)
	must(t, err)
	code, err := proc.Wait()
	must(t, err)
	return strings.TrimSpace(string(out)), code
}

// modes runs a test in each kind of box.
func modes(t *testing.T, test func(t *testing.T, box *sandbox.Box, cfg spec.Config)) {
	for name, plain := range map[string]bool{"namespaces": false, "plain": true} {
		t.Run(name, func(t *testing.T) {
			box, cfg := start(t, plain)
			test(t, box, cfg)
		})
	}
}

func TestExitCodesAndOutput(t *testing.T) {
	modes(t, func(t *testing.T, box *sandbox.Box, cfg spec.Config) {
		for _, c := range []struct {
			name, script, out string
			code              int
		}{
			{"success", "echo hi", "hi", 0},
			{"failure", "echo bad >&2; exit 3", "bad", 3},
			{"signal", "kill -TERM $$", "", 143},
			{"kill", "kill -9 $$", "", 137},
			{"skill on PATH", "hello x", "skill x", 0},
			{"empty stdin", "cat; echo end", "end", 0},
		} {
			if out, code := run(t, box, c.script); out != c.out || code != c.code {
				t.Errorf("%s: got %q, %d, want %q, %d", c.name, out, code, c.out, c.code)
			}
		}
		if out, _ := run(t, box, "pwd; echo $HOME"); box.Config().Plain() {
			if want := box.Config().HostPath("/workspace") + "\n" + box.Config().HostPath("/home/sprite"); out != want {
				t.Errorf("folders = %q, want %q", out, want)
			}
		} else if out != "/workspace\n/home/sprite" {
			t.Errorf("folders = %q", out)
		}
	})
}

func TestWritesLandInRootAndBelongToOwner(t *testing.T) {
	modes(t, func(t *testing.T, box *sandbox.Box, cfg spec.Config) {
		if out, code := run(t, box, `echo w >f && echo h >"$HOME/f" && echo t >"$TMPDIR/f" && mkdir -p "$GOCACHE"`); code != 0 {
			t.Fatalf("writing: %s", out)
		}
		uid, _ := box.Config().Owner()
		for _, name := range []string{"root/workspace/f", "root/home/sprite/f", "root/tmp/f", "cache/go-build"} {
			info, err := os.Stat(filepath.Join(filepath.Dir(cfg.Root.Dir), name))
			must(t, err)
			if got := ownerOf(info); got != uid {
				t.Errorf("%s belongs to %d, want %d", name, got, uid)
			}
		}
	})
}

func TestCommandsThatCannotStart(t *testing.T) {
	modes(t, func(t *testing.T, box *sandbox.Box, cfg spec.Config) {
		must(t, os.WriteFile(filepath.Join(cfg.Root.Dir, "workspace", "text"), []byte("x"), 0o644))
		for _, c := range []struct {
			name string
			p    spec.Process
			code int
		}{
			{"nothing", spec.Process{}, 127},
			{"not on PATH", spec.Process{Argv: []string{"no-such-command"}}, 127},
			{"no such file", spec.Process{Argv: []string{"/no/such"}}, 127},
			{"not executable", spec.Process{Argv: []string{"/workspace/text"}}, 126},
			{"no such folder", spec.Process{Argv: []string{"/bin/true"}, Dir: "/workspace/none"}, 126},
		} {
			_, err := box.Exec(c.p)
			var start *spec.StartError
			if !errors.As(err, &start) || start.Code != c.code {
				t.Errorf("%s: Exec = %v, want a StartError of code %d", c.name, err, c.code)
			}
		}
	})
}

func TestStdinIsHandedOver(t *testing.T) {
	modes(t, func(t *testing.T, box *sandbox.Box, cfg spec.Config) {
		inR, inW, err := os.Pipe()
		must(t, err)
		outR, outW, err := os.Pipe()
		must(t, err)
		defer outR.Close()
		// An environment larger than any datagram passes as well.
		env := append(box.Config().BaseEnv(), "BIG="+strings.Repeat("x", 120_000), "ALSO="+strings.Repeat("x", 120_000))
		proc, err := box.Exec(spec.Process{Argv: []string{"cat"}, Env: env, Stdin: inR, Stdout: outW})
		inR.Close()
		outW.Close()
		must(t, err)
		io.WriteString(inW, "through the box")
		inW.Close()
		out, _ := io.ReadAll(outR)
		if code, err := proc.Wait(); string(out) != "through the box" || code != 0 || err != nil {
			t.Errorf("cat = %q, %d, %v", out, code, err)
		}
	})
}

func TestTerminal(t *testing.T) {
	modes(t, func(t *testing.T, box *sandbox.Box, cfg spec.Config) {
		proc, err := box.Exec(spec.Process{
			Argv: []string{"sh", "-c", "stty size; read x; stty size; tty >/dev/null && echo done"},
			Env:  box.Config().BaseEnv(), TTY: true, Rows: 33, Cols: 99,
		})
		must(t, err)
		defer proc.PTY.Close()
		lines := bufio.NewScanner(proc.PTY)
		expect := func(want string) {
			t.Helper()
			for lines.Scan() {
				if strings.TrimSpace(lines.Text()) == want {
					return
				}
			}
			t.Fatalf("the terminal ended before %q: %v", want, lines.Err())
		}
		expect("33 99")
		must(t, proc.Resize(40, 120))
		io.WriteString(proc.PTY, "\n")
		expect("40 120")
		expect("done")
		if code, err := proc.Wait(); code != 0 || err != nil {
			t.Errorf("Wait = %d, %v", code, err)
		}
	})
}

func TestSignals(t *testing.T) {
	modes(t, func(t *testing.T, box *sandbox.Box, cfg spec.Config) {
		r, w, err := os.Pipe()
		must(t, err)
		defer r.Close()
		proc, err := box.Exec(spec.Process{
			Argv: []string{"sh", "-c", "trap 'echo caught; exit 7' INT; echo ready; while :; do sleep 0.01; done"},
			Env:  box.Config().BaseEnv(), Stdout: w,
		})
		w.Close()
		must(t, err)
		lines := bufio.NewScanner(r)
		if !lines.Scan() || lines.Text() != "ready" {
			t.Fatalf("got %q", lines.Text())
		}
		must(t, proc.Signal("INT"))
		if code, err := proc.Wait(); code != 7 || err != nil {
			t.Errorf("Wait = %d, %v, want 7", code, err)
		}
		if err := proc.Signal("SIGTERM"); err != nil {
			t.Errorf("signal after the end = %v, want nil", err)
		}
		if err := proc.Signal("NONSENSE"); err == nil {
			t.Error("an unknown signal is accepted")
		}
	})
}

func TestStopEndsOrphansToo(t *testing.T) {
	modes(t, func(t *testing.T, box *sandbox.Box, cfg spec.Config) {
		r, w, err := os.Pipe()
		must(t, err)
		defer r.Close()
		// The daemon leaves session and parent; it holds the pipe as long as it lives.
		proc, err := box.Exec(spec.Process{
			Argv: []string{"sh", "-c", "setsid sleep 1000 & echo up"}, Env: box.Config().BaseEnv(), Stdout: w,
		})
		w.Close()
		must(t, err)
		if code, err := proc.Wait(); code != 0 || err != nil {
			t.Fatalf("Wait = %d, %v", code, err)
		}
		must(t, box.Stop())
		// The end of the pipe proves the end of the daemon.
		if out, err := io.ReadAll(r); string(out) != "up\n" || err != nil {
			t.Errorf("pipe = %q, %v", out, err)
		}
		select {
		case <-box.Done():
		default:
			t.Error("Done is open after Stop")
		}
		if _, err := box.Exec(spec.Process{Argv: []string{"/bin/true"}}); !errors.Is(err, spec.ErrDied) {
			t.Errorf("Exec after Stop = %v, want ErrDied", err)
		}
	})
}

func TestManyCommandsLeakNothing(t *testing.T) {
	modes(t, func(t *testing.T, box *sandbox.Box, cfg spec.Config) {
		// Init lets go of what belongs to a command soon after that has begun, and the command that counts may be sooner.
		count := func() (least int) {
			for i := range 10 {
				n := 0
				out, _ := run(t, box, "ls /proc/$PPID/fd 2>/dev/null | wc -l")
				fmt.Sscan(out, &n)
				if i == 0 || n < least {
					least = n
				}
			}
			return least
		}
		initBefore, hostBefore := count(), openFiles(t)
		began := time.Now()
		const n = 200
		for range n {
			proc, err := box.Exec(spec.Process{Argv: []string{"/bin/true"}})
			must(t, err)
			if code, err := proc.Wait(); code != 0 || err != nil {
				t.Fatalf("Wait = %d, %v", code, err)
			}
		}
		t.Logf("%v per command", time.Since(began)/n)
		if got := openFiles(t); got != hostBefore {
			t.Errorf("the host has %d open files, want %d", got, hostBefore)
		}
		if got := count(); got != initBefore {
			t.Errorf("init has %d open files, want %d", got, initBefore)
		}
	})
}

// doomedHost starts a box with a process in it, says so, and waits to be killed.
func doomedHost(dir string, plain bool) int {
	cfg, err := config(dir, plain)
	if err == nil {
		var box *sandbox.Box
		if box, err = sandbox.Start(cfg); err == nil {
			// The sleeper inherits our stdout: its end is seen there.
			_, err = box.Exec(spec.Process{Argv: []string{"sh", "-c", "echo up; setsid sleep 1000 & sleep 1000"}, Env: box.Config().BaseEnv(), Stdout: os.Stdout})
		}
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	select {}
}

func TestBoxEndsWithKilledHost(t *testing.T) {
	for _, mode := range []string{"namespaces", "plain"} {
		t.Run(mode, func(t *testing.T) {
			if mode == "namespaces" {
				start(t, false) // skips where there are none
			}
			r, w, err := os.Pipe()
			must(t, err)
			defer r.Close()
			self, _ := os.Executable()
			host := exec.Command(self, hostArg, t.TempDir(), mode)
			host.Stdout = w
			must(t, host.Start())
			w.Close()
			lines := bufio.NewReader(r)
			if line, err := lines.ReadString('\n'); line != "up\n" {
				t.Fatalf("host says %q, %v", line, err)
			}
			must(t, host.Process.Kill())
			host.Wait()
			must(t, r.SetReadDeadline(time.Now().Add(20*time.Second)))
			if _, err := io.Copy(io.Discard, lines); err != nil {
				t.Errorf("processes of the box outlive their host: %v", err)
			}
		})
	}
}

func TestBaseEnvNamesEachVariableOnce(t *testing.T) {
	seen := map[string]bool{}
	for _, kv := range (spec.Config{Tools: []string{"/opt/none"}}).BaseEnv() {
		name, _, _ := strings.Cut(kv, "=")
		if seen[name] {
			t.Errorf("%s is set twice", name)
		}
		seen[name] = true
	}
}

func TestConfigIsChecked(t *testing.T) {
	good, err := config(t.TempDir(), true)
	must(t, err)
	for name, spoil := range map[string]func(*spec.Config){
		"relative root":         func(c *spec.Config) { c.Root.Dir = "root" },
		"root is /":             func(c *spec.Config) { c.Root.Dir = "/" },
		"no cache":              func(c *spec.Config) { c.Cache = "" },
		"tool is /":             func(c *spec.Config) { c.Tools = []string{"/"} },
		"tool over a folder":    func(c *spec.Config) { c.Tools = []string{"/workspace/go"} },
		"tool around a folder":  func(c *spec.Config) { c.Tools = []string{"/home"} },
		"tool around the state": func(c *spec.Config) { c.Tools = []string{filepath.Dir(c.Root.Dir)} },
	} {
		cfg := good
		spoil(&cfg)
		if box, err := sandbox.Start(cfg); err == nil {
			box.Stop()
			t.Errorf("%s: Start accepts it", name)
		}
	}
}

func TestTools(t *testing.T) {
	box, _ := start(t, false)
	for _, tool := range []string{"go version", "git --version"} {
		name, _, _ := strings.Cut(tool, " ")
		if path, err := exec.LookPath(name); err != nil || !strings.HasPrefix(path, "/usr/") {
			continue // not among the system folders here; Config.Tools would show it
		}
		if out, code := run(t, box, tool); code != 0 || !bytes.HasPrefix([]byte(out), []byte(name)) {
			t.Errorf("%s = %q, %d", tool, out, code)
		}
	}
}
