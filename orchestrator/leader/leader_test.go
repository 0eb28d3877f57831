package leader_test

import (
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/spritekit/lattice/orchestrator/api"
	_ "github.com/spritekit/lattice/orchestrator/host/sandbox/early" // the test binary is the init of its sandboxes
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/leader"
	"github.com/spritekit/lattice/orchestrator/leader/home"
	"github.com/spritekit/lattice/spritekit/fault"
)

// spritekit is the in-sprite binary of this tree.
var spritekit string

// TestMain builds what sprites are given.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "leader-test-")
	if err != nil {
		panic(err)
	}
	spritekit = filepath.Join(dir, "spritekit")
	for to, pkg := range map[string]string{spritekit: "../../spritekit", spritekit + "-extra": "../../spritekit/extra"} {
		build := exec.Command("go", "build", "-trimpath", "-o", to, pkg)
		build.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := build.CombinedOutput(); err != nil {
			panic(string(out))
		}
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// lead opens a home and serves it on its socket until the test ends or end is called.
func lead(t *testing.T, home home.Home, change ...func(*leader.Config)) (l *leader.Leader, end func()) {
	t.Helper()
	lock, err := home.Acquire()
	if err != nil {
		t.Fatal(err)
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cfg := leader.Config{
		Home: home, Version: "test", Self: self, Spritekit: spritekit, Environ: os.Environ(), Log: zerolog.Nop(), Warn: func(string) {},
	}
	for _, c := range change {
		c(&cfg)
	}
	l, err = leader.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	_ = os.Remove(home.Socket())
	listener, err := net.Listen("unix", home.Socket())
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: l.Handler(), ReadHeaderTimeout: time.Second}
	var group sync.WaitGroup
	group.Go(func() { _ = server.Serve(listener) })
	end = sync.OnceFunc(func() {
		if err := errors.Join(l.Close(), server.Close(), lock.Unlock()); err != nil {
			t.Error(err)
		}
		group.Wait()
	})
	t.Cleanup(end)
	return l, end
}

const ask = `{"execir_version":"1.0","id":"ask","tools":[],"entry_node":"ask","nodes":[{"id":"ask","op":"HUMAN","prompt":"Go on?",
	"expected_inputs":{"approved":"boolean","comments":"string"}}],"edges":[]}`

const sleep = `{"execir_version":"1.0","id":"sleep","tools":["test.run"],"entry_node":"t","nodes":[{"id":"t","op":"TOOL_CALL",
	"tool":"test.run","args":{"command":"sleep 60"}}],"edges":[]}`

// watch follows a run until nobody drives it, or until an event of type until comes.
func watch(t *testing.T, l *leader.Leader, id, until string) api.RunView {
	t.Helper()
	var last api.RunView
	found := errors.New("found")
	err := l.Watch(t.Context(), id, 0, func(line api.WatchLine) error {
		if line.View != nil {
			last = *line.View
		}
		if line.Entry != nil && until != "" && line.Entry.Type == until {
			return found
		}
		return nil
	})
	if err != nil && !errors.Is(err, found) || until != "" && err == nil {
		t.Fatalf("Watch(%s) until %q = %v, last %+v", id, until, err, last)
	}
	return last
}

func start(t *testing.T, l *leader.Leader, flow, sprite string) string {
	t.Helper()
	v, err := l.Start(t.Context(), api.RunRequest{Flow: []byte(flow), Options: api.Options{Sprite: sprite, OwnSprite: sprite != ""}})
	if err != nil {
		t.Fatal(err)
	}
	return v.RunID
}

func refusal(err error) string {
	var p *fault.Error
	if !errors.As(err, &p) {
		return ""
	}
	return p.Fault.Code
}

func TestDecideAtOnce(t *testing.T) {
	l, _ := lead(t, home.Home(t.TempDir()))
	one, two := start(t, l, ask, ""), start(t, l, ask, "")
	for _, id := range []string{one, two} {
		if v := watch(t, l, id, ""); v.Status != lattice.Waiting {
			t.Fatalf("%s is %s, want waiting", id, v.Status)
		}
	}
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if _, err := l.Decide(t.Context(), one, api.DecideRequest{Decision: lattice.Approve, By: "p"}); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if v := watch(t, l, one, ""); v.Status != lattice.Succeeded {
		t.Errorf("the approved run is %s: %+v", v.Status, v.Error)
	}
	if v := watch(t, l, two, ""); v.Status != lattice.Waiting {
		t.Errorf("the other run is %s", v.Status)
	}
	answers := 0
	if err := l.Entries(t.Context(), one, 0, func(e lattice.Entry) error {
		if e.Type == (lattice.Answered{}).FactType() {
			answers++
		}
		return nil
	}); err != nil || answers != 1 {
		t.Errorf("%d answers are on disk, %v", answers, err)
	}
	if _, err := l.Decide(t.Context(), one, api.DecideRequest{Decision: lattice.Reject, By: "p"}); refusal(err) != "already_decided" {
		t.Errorf("the opposite decision = %v", err)
	}
	if _, err := l.Run(t.Context(), "run_"); refusal(err) != "run_ambiguous" {
		t.Errorf("an ambiguous id = %v", err)
	}
	if _, err := l.Run(t.Context(), "nobody"); refusal(err) != "run_not_found" {
		t.Errorf("an unknown id = %v", err)
	}
	if v, err := l.Run(t.Context(), ""); err != nil || v.RunID != two {
		t.Errorf("no id = %s, %v, want the last run %s", v.RunID, err, two)
	}
}

// TestStopAndDrive ends with a leader that is closed while it drives; goleak and the host see to what it leaves behind.
func TestStopAndDrive(t *testing.T) {
	home := home.Home(t.TempDir())
	l, end := lead(t, home)
	one, two := start(t, l, sleep, ""), start(t, l, sleep, "")
	for range 2 {
		for _, id := range []string{one, two} {
			watch(t, l, id, "PHASE_STARTED")
			v, err := l.Stop(t.Context(), id)
			if err != nil || v.Driving || v.Status != lattice.Running {
				t.Fatalf("Stop(%s) = %+v, %v", id, v, err)
			}
			if v, err = l.Drive(t.Context(), id, api.DriveRequest{}); err != nil || !v.Driving {
				t.Fatalf("Drive(%s) = %+v, %v", id, v, err)
			}
		}
	}
	v, err := l.Run(t.Context(), one)
	if err != nil {
		t.Fatal(err)
	}
	_, err = l.Start(t.Context(), api.RunRequest{Flow: []byte(sleep), Options: api.Options{Sprite: v.Sprite}})
	if refusal(err) != "sprite_busy" {
		t.Errorf("a second run in sprite %s = %v, want sprite_busy", v.Sprite, err)
	}
	end()
	if _, err := l.Drive(t.Context(), one, api.DriveRequest{}); err == nil {
		t.Error("a closed leader drives")
	}
	l, _ = lead(t, home)
	if v, err := l.Cancel(t.Context(), one, "p"); err != nil || v.Status != lattice.Canceled {
		t.Errorf("Cancel by the next leader = %+v, %v", v, err)
	}
}
