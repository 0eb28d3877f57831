package session_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/orchestrator/host"
	"github.com/spritekit/lattice/orchestrator/host/core"
	_ "github.com/spritekit/lattice/orchestrator/host/sandbox/early" // the test binary is the init of its sandboxes
	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/session"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/orchestrator/sprites/spritestest"
)

// skillsDir holds the skills of the spritekit of this tree, and scripts that stand for third parties' skills. oldSkills
// holds the same, but their spritekit serves no sessions.
var skillsDir, oldSkills string

// TestMain installs the skills.
func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "session-test-")
	if err != nil {
		panic(err)
	}
	skillsDir, oldSkills = filepath.Join(dir, "skills"), filepath.Join(dir, "old")
	if err := install(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		os.RemoveAll(dir)
		os.Exit(code)
	}))
}

// script is a third party's skill: it runs the shell program that is its input.
const script = `#!/bin/sh
say() { echo "LATTICE_EVENT {\"protocol_version\":\"v1\",\"event_type\":\"$1\",\"event_id\":\"$2\",\"call_id\":\"$LATTICE_CALL_ID\",\"payload\":$3}"; }
note() { echo "{\"protocol_version\":\"v1\",\"event_type\":\"$1\",\"event_id\":\"$2\",\"call_id\":\"$LATTICE_CALL_ID\",\"payload\":$3}" >> /workspace/.lattice/outbox.jsonl; }
mkdir -p /workspace/.lattice
input=$(cat)
eval "$input"
`

func install(dir string) error {
	for _, args := range [][]string{
		{"go", "build", "-trimpath", "-o", dir + "/spritekit", "../../spritekit"},
		{"go", "build", "-trimpath", "-o", dir + "/spritekit-extra", "../../spritekit/extra"},
		{dir + "/spritekit", "install", skillsDir},
	} {
		cmd := exec.Command(args[0], args[1:]...)
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, out)
		}
	}
	for _, dir := range []string{skillsDir, oldSkills} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "shell"), []byte(script), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "third.party"), []byte(thirdParty), 0o755); err != nil {
			return err
		}
	}
	return aged()
}

// thirdParty is a skill that does what its input says.
const thirdParty = `#!/bin/sh
input=$(cat)
event() { echo "LATTICE_EVENT {\"protocol_version\":\"v1\",\"event_type\":\"$1\",\"event_id\":\"$2$LATTICE_CALL_ID\",\"call_id\":\"$LATTICE_CALL_ID\",\"payload\":$3}"; }
event INFO a '{"message":"begun"}'
echo 'LATTICE_EVENT {"event_type":"INFO","payload":{"message":"of nobody"}}'
echo output; echo people >&2
case $input in *slow*) until [ -e /workspace/open ]; do sleep 0.02; done ;; esac
echo ran >>/workspace/ran
case $input in
*good*) echo '{"ok":true,"skill":"third.party","data":{"grants":"'$LATTICE_PERMISSIONS'"},"events":1}' ;;
*bad*) echo '{"ok":false,"skill":"third.party","error":{"code":"c","message":"m"}}'; exit 4 ;;
*mute*) exit 5 ;;
*lies*) echo '{"ok":true,"skill":"third.party","data":{}}'; exit 1 ;;
*killed*) kill -9 $$ ;;
*waits*) event WAITING w '{"reason":"r","checkpoint_id":"none"}'; echo '{"ok":true,"skill":"third.party","waiting":{"reason":"r","checkpoint_id":"none"}}'; exit 75 ;;
esac
`

// aged makes oldSkills of skillsDir.
func aged() error {
	const old = "#!/bin/sh\nif [ \"$1\" = session ]; then exit 3; fi\nexec /skills/kit \"$@\"\n"
	if err := os.WriteFile(filepath.Join(oldSkills, "spritekit"), []byte(old), 0o755); err != nil {
		return err
	}
	if err := os.Link(filepath.Join(skillsDir, "spritekit"), filepath.Join(oldSkills, "kit")); err != nil {
		return err
	}
	for _, name := range []string{"fs.read", "fs.write"} {
		if err := os.Symlink("kit", filepath.Join(oldSkills, name)); err != nil {
			return err
		}
	}
	return nil
}

// text takes what many write.
type text struct {
	mu  sync.Mutex // guards all
	all strings.Builder
}

func (t *text) Write(b []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all.Write(b)
}

func (t *text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all.String()
}

// world is a host with one sprite, a session that reaches it through a middleman, and what was observed.
type world struct {
	t       *testing.T
	man     *spritestest.Middleman
	client  *sprites.Client // through the middleman
	session *session.Session
	output  text
	events  []lattice.Event
	issued  map[string]bool
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldOf(t, skillsDir)
}

func newWorldOf(t *testing.T, skills string) *world {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	host, err := host.Open(core.Config{Dir: t.TempDir(), Self: self, Skills: skills, Log: zerolog.Nop()})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, issued: map[string]bool{}}
	t.Cleanup(func() {
		if err := host.Close(); err != nil {
			t.Error(err)
		}
	})
	w.man = spritestest.NewMiddleman(t, host.Handler())
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	w.client = sprites.NewWith(w.man.URL, "", &http.Client{Transport: transport}, sprites.Options{
		Wait: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
	})
	w.renew(time.Minute)
	if _, err := w.client.Create(t.Context(), sprites.Create{Name: "s"}); err != nil {
		t.Fatal(err)
	}
	return w
}

// renew begins a session that knows nothing, as after a restart. Skills may go on for grace after WAITING.
func (w *world) renew(grace time.Duration) {
	if w.session == nil {
		w.t.Cleanup(func() { w.session.Close() })
	} else {
		w.session.Close()
	}
	w.session = session.New(w.client, session.Options{
		Log: zerolog.Nop(), Output: func(_, _ string) io.Writer { return &w.output },
		Issued: func(string) map[string]bool { return w.issued }, WaitingGrace: grace,
	})
}

// shell is a call of the script with a program.
func shell(class manifests.Class, program string) lattice.Call {
	return lattice.Call{
		ID: "call-1", RunID: "run", WorkItem: "work", Sprite: "s", Skill: "shell", Class: class, Input: []byte(program),
		Permissions: []string{"*"}, TimeoutS: 30,
	}
}

func skill(class manifests.Class, name, input string) lattice.Call {
	c := shell(class, input)
	c.Skill = name
	return c
}

// call makes a call and returns its outcome and the events of it alone.
func (w *world) call(c lattice.Call) (lattice.Outcome, []lattice.Event, error) {
	w.t.Helper()
	w.events = nil
	out, err := w.session.Call(w.t.Context(), c, func(e lattice.Event) { w.events = append(w.events, e) })
	return out, w.events, err
}

// must is call for calls whose outcome can be found out.
func (w *world) must(c lattice.Call) (lattice.Outcome, []lattice.Event) {
	w.t.Helper()
	out, events, err := w.call(c)
	if err != nil {
		w.t.Fatalf("Call(%s) = %v", c.Skill, err)
	}
	return out, events
}

// names lists types of events, with their kind, flags and the pointers of their problems.
func names(events []lattice.Event) string {
	var out []string
	for _, e := range events {
		name := string(e.Event.Type)
		for _, f := range e.Flags {
			name += "+" + f
		}
		for _, p := range e.Problems {
			name += "!" + p.Pointer
		}
		out = append(out, name)
	}
	return strings.Join(out, " ")
}

// processes counts what runs in the sprite, when what serves calls there has been put to rest.
func (w *world) processes() int {
	w.t.Helper()
	w.session.Rest(w.t.Context(), "s")
	all, err := w.client.Sessions(w.t.Context(), "s")
	if err != nil {
		w.t.Fatal(err)
	}
	return len(all)
}

// sh runs a command in the sprite beside the session.
func (w *world) sh(program string) string {
	w.t.Helper()
	var out strings.Builder
	code, err := w.client.Exec(w.t.Context(), "s", sprites.Exec{Cmd: []string{"sh", "-c", program}, Stdout: &out, Stderr: &out})
	if err != nil || code != 0 {
		w.t.Fatalf("sh -c %q = %d, %v: %s", program, code, err, &out)
	}
	return out.String()
}
