package host_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/host"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// hosted is a sprite on a host of the test's.
type hosted struct {
	*testing.T
	client *sprites.Client
	base   string
	name   string
}

func serve(t *testing.T, h *host.Host) (*sprites.Client, string) {
	t.Helper()
	server := httptest.NewServer(h.Handler())
	t.Cleanup(server.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return sprites.New(server.URL, "secret", &http.Client{Transport: transport}), server.URL
}

func newHosted(t *testing.T, h *host.Host) hosted {
	t.Helper()
	client, base := serve(t, h)
	if _, err := client.Create(t.Context(), sprites.Create{Name: "box"}); err != nil {
		t.Fatal(err)
	}
	return hosted{t, client, base, "box"}
}

func (h hosted) sh(script string) string {
	h.Helper()
	var out bytes.Buffer
	code, err := h.client.Exec(h.Context(), h.name, sprites.Exec{Cmd: []string{"sh", "-c", script}, Stdout: &out, Stderr: &out})
	if err != nil || code != 0 {
		h.Fatalf("sh -c %q = %d, %v: %s", script, code, err, out.String())
	}
	return out.String()
}

// put defines a service and returns what was said until a word was.
func (h hosted) put(s sprites.Service, until string) []string {
	h.Helper()
	return h.watch(until, func(f sprites.ServiceCall) error { return h.client.Services().Put(h.Context(), h.name, s, f) })
}

var errSeen = errors.New("seen")

// watch follows a call until an event whose words contain until comes.
func (h hosted) watch(until string, call func(sprites.ServiceCall) error) (said []string) {
	h.Helper()
	err := call(sprites.ServiceCall{Duration: time.Minute, OnEvent: func(e sprites.ServiceEvent) error {
		word := strings.TrimSpace(e.Type + " " + strings.TrimSuffix(e.Data, "\n"))
		if e.ExitCode != nil {
			word += fmt.Sprint(*e.ExitCode)
		}
		said = append(said, word)
		if until != "" && strings.Contains(word, until) {
			return errSeen
		}
		return nil
	}})
	if err != nil && !errors.Is(err, errSeen) {
		h.Fatalf("%v, after %q", err, said)
	}
	if until != "" && !errors.Is(err, errSeen) {
		h.Fatalf("%q never came, only %q", until, said)
	}
	return said
}

func (h hosted) service(name string) sprites.Service {
	h.Helper()
	s, err := h.client.Services().Get(h.Context(), h.name, name)
	if err != nil {
		h.Fatal(err)
	}
	return s
}

func (h hosted) refused(err error, status int, text string) {
	h.Helper()
	var api *sprites.APIError
	if !errors.As(err, &api) || api.Status != status || !strings.Contains(err.Error(), text) {
		h.Errorf("got %v, want status %d and %q", err, status, text)
	}
}

func shell(name, script string, needs ...string) sprites.Service {
	return sprites.Service{Name: name, Cmd: "sh", Args: []string{"-c", script}, Needs: needs}
}

func TestServiceLife(t *testing.T) {
	h := newHosted(t, newHost(t, "secret"))
	said := h.put(shell("web", "trap 'echo bye; exit 3' TERM; echo hello; echo oops >&2; sleep 0.1; echo on; sleep 1000 & wait"), "stdout on")
	if said[0] != "started" || !slices.Contains(said, "stdout hello") || !slices.Contains(said, "stderr oops") {
		t.Errorf("said %q", said)
	}
	s := h.service("web")
	if s.State.Status != "running" || s.State.PID < 1 || s.State.StartedAt == nil || s.State.RestartCount != 0 {
		t.Errorf("state %+v", s.State)
	}
	file := h.sh("cat /.sprite/logs/services/web.log")
	if !strings.Contains(file, "Z [stdout] hello\n") || !strings.Contains(file, "Z [stderr] oops\n") {
		t.Errorf("the file holds %q", file)
	}
	said = h.watch("complete", func(f sprites.ServiceCall) error {
		return h.client.Services().Stop(t.Context(), "box", "web", time.Minute, f)
	})
	if want := []string{"stopping", "stdout bye", "exit3", "stopped", "complete"}; !slices.Equal(said, want) {
		t.Errorf("stop said %q, want %q", said, want)
	}
	h.refused(h.client.Services().Stop(t.Context(), "box", "web", 0, sprites.ServiceCall{}), http.StatusConflict, "not running")
	h.refused(h.client.Services().Signal(t.Context(), "box", "web", "HUP"), http.StatusConflict, "not running")
	h.watch("started", func(f sprites.ServiceCall) error { return h.client.Services().Start(t.Context(), "box", "web", f) })
	before := h.service("web").State.PID
	said = h.watch("started", func(f sprites.ServiceCall) error { return h.client.Services().Restart(t.Context(), "box", "web", f) })
	if !slices.Contains(said, "stopping") || h.service("web").State.PID == before {
		t.Errorf("restart said %q", said)
	}
	h.logs("web", "started", func() {
		if err := h.client.Services().Signal(t.Context(), "box", "web", "SIGKILL"); err != nil {
			t.Fatal(err)
		}
	})
	if s := h.service("web").State; s.RestartCount != 1 || s.Status != "running" {
		t.Errorf("after KILL: %+v", s)
	}
	if err := h.client.Services().Delete(t.Context(), "box", "web"); err != nil {
		t.Fatal(err)
	}
	_, err := h.client.Services().Get(t.Context(), "box", "web")
	h.refused(err, http.StatusNotFound, "service not found")
	h.refused(h.client.Services().Delete(t.Context(), "box", "web"), http.StatusNotFound, "service not found")
	var last []string
	err = h.client.Services().Logs(t.Context(), "box", "web", 2, sprites.ServiceCall{OnEvent: func(e sprites.ServiceEvent) error {
		last = append(last, e.Type)
		return nil
	}})
	if err != nil || len(last) != 3 || last[2] != "complete" {
		t.Errorf("the log of a deleted service = %q, %v", last, err)
	}
}

// logs follows a log, does something once that is under way, and returns when a word has come after it.
func (h hosted) logs(name, until string, act func()) {
	h.Helper()
	begun := false
	h.watch(until, func(f sprites.ServiceCall) error {
		seen := f.OnEvent
		f.OnEvent = func(e sprites.ServiceEvent) error {
			if !begun {
				begun = true
				act()
				return nil
			}
			return seen(e)
		}
		return h.client.Services().Logs(h.Context(), h.name, name, 1, f)
	})
}

func TestServiceRefusals(t *testing.T) {
	h := newHosted(t, newHost(t, "secret"))
	quick := sprites.ServiceCall{}
	put := func(s sprites.Service) error { return h.client.Services().Put(t.Context(), "box", s, quick) }
	sleep := func(name string, port int, needs ...string) sprites.Service {
		s := shell(name, "exec sleep 1000", needs...)
		s.HTTPPort = port
		return s
	}
	for _, s := range []sprites.Service{sleep("db", 0), sleep("web", 3000, "db")} {
		if err := put(s); err != nil {
			t.Fatal(err)
		}
	}
	h.refused(put(sprites.Service{Name: "x"}), http.StatusBadRequest, "cmd is missing")
	h.refused(put(sleep("other", 3001)), http.StatusConflict, "another service already has an HTTP port configured")
	h.refused(put(sleep("other", 0, "nobody")), http.StatusBadRequest, "nobody")
	h.refused(put(sleep("db", 0, "web")), http.StatusBadRequest, "circular")
	h.refused(put(sleep("db", 0, "db")), http.StatusBadRequest, "circular")
	h.refused(put(sleep("a b", 0)), http.StatusBadRequest, "service name")
	h.refused(put(sleep("other", 70000)), http.StatusBadRequest, "http_port")
	h.refused(h.client.Services().Delete(t.Context(), "box", "db"), http.StatusConflict, "needed by web")
	h.refused(h.client.Services().Signal(t.Context(), "box", "db", "NONE"), http.StatusBadRequest, "unknown signal")
	h.refused(h.client.Services().Signal(t.Context(), "box", "none", "HUP"), http.StatusNotFound, "service not found")
	h.refused(h.client.Services().Start(t.Context(), "box", "none", quick), http.StatusNotFound, "service not found")
	h.refused(h.client.Services().Logs(t.Context(), "box", "none", 1, quick), http.StatusNotFound, "service not found")
	_, err := h.client.Services().List(t.Context(), "nobox")
	h.refused(err, http.StatusNotFound, "sprite not found")
	all, err := h.client.Services().List(t.Context(), "box")
	if err != nil || len(all) != 2 || all[1].HTTPPort != 3000 || !slices.Equal(all[1].Needs, []string{"db"}) {
		t.Errorf("Services = %+v, %v", all, err)
	}
}

// Services come back after a restore and on another host of the same directory; what was started by hand does not. What was
// stopped by request stays so.
func TestServicesComeBack(t *testing.T) {
	dir := t.TempDir()
	first := openHost(t, dir, "secret")
	h := newHosted(t, first)
	h.put(shell("db", "echo $$ >/workspace/db; exec sleep 1000"), "started")
	h.put(shell("web", "test -e /workspace/db && echo found; exec sleep 1000", "db"), "started")
	h.put(shell("off", "exec sleep 1000"), "started")
	h.watch("stopped", func(f sprites.ServiceCall) error {
		return h.client.Services().Stop(t.Context(), "box", "off", time.Minute, f)
	})
	cp, err := h.client.Checkpoint(t.Context(), "box", "")
	if err != nil {
		t.Fatal(err)
	}
	h.sh("setsid sleep 4321 >/dev/null 2>&1 &")
	pid := h.service("web").State.PID
	if err := h.client.Restore(t.Context(), "box", cp.ID); err != nil {
		t.Fatal(err)
	}
	statuses := func(h hosted) (out []string) {
		all, err := h.client.Services().List(t.Context(), "box")
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range all {
			out = append(out, s.Name+" "+s.State.Status)
		}
		return out
	}
	want := []string{"db running", "off stopped", "web running"}
	if got := statuses(h); !slices.Equal(got, want) {
		t.Errorf("after the restore: %q, want %q (web was %d)", got, want, pid)
	}
	if out := h.sh(`for p in /proc/[0-9]*; do tr '\0' ' ' <$p/cmdline 2>/dev/null; echo; done`); strings.Contains(out, "sleep 4321") {
		t.Error("a process that was started by hand came back")
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	client, base := serve(t, openHost(t, dir, "secret"))
	h = hosted{t, client, base, "box"}
	if got, want := statuses(h), []string{"db stopped", "off stopped", "web stopped"}; !slices.Equal(got, want) {
		t.Errorf("on the next host, asleep: %q, want %q", got, want)
	}
	h.sh("true")
	if got := statuses(h); !slices.Equal(got, want) {
		t.Errorf("on the next host, awake: %q, want %q", got, want)
	}
}

// A service ends with its whole process group, however it ends: nothing is left to hold its port.
func TestServicesEndWhole(t *testing.T) {
	h := newHosted(t, newHost(t, "secret"))
	h.put(shell("group", `sleep 5555 & while [ "$(cat /proc/$!/comm)" != sleep ]; do :; done; echo ready; wait`), "stdout ready")
	sleepers := func() int {
		return strings.Count("\n"+h.sh(`for p in /proc/[0-9]*; do tr '\0' ' ' <$p/cmdline 2>/dev/null; echo; done`), "\nsleep 5555")
	}
	if n := sleepers(); n != 1 {
		t.Fatalf("%d sleepers at first", n)
	}
	pid := h.service("group").State.PID
	h.logs("group", "ready", func() { h.sh(fmt.Sprintf("kill -9 %d", pid)) }) // the leader alone
	if n := sleepers(); n != 1 {
		t.Errorf("%d sleepers after a crash, want only the new one", n)
	}
	h.watch("complete", func(f sprites.ServiceCall) error { return h.client.Services().Stop(t.Context(), "box", "group", 0, f) })
	if n := sleepers(); n != 0 {
		t.Errorf("%d sleepers after a stop", n)
	}
}

// A service that writes without end costs its host a bounded file, and nobody is held up who does not read.
func TestServiceThatFloods(t *testing.T) {
	h := newHosted(t, newHost(t, "secret"))
	const size = 64 << 20
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err := h.client.Services().Put(ctx, "box", shell("flood", fmt.Sprintf("head -c %d /dev/zero | tr '\\0' x | fold -w 200; echo; echo done; exec sleep 1000", size)), sprites.ServiceCall{Duration: time.Minute, OnEvent: func(e sprites.ServiceEvent) error {
		if e.Data == "done\n" {
			return errSeen
		}
		return nil
	}})
	if !errors.Is(err, errSeen) {
		t.Fatal(err)
	}
	got := strings.Fields(h.sh("exec 2>&1; cd /.sprite/logs/services && stat -c %s flood.log flood.log.1 && tail -n 1 flood.log && (echo x >>flood.log; rm -f flood.log; ls)"))
	t.Log(got)
	total := 0
	for _, n := range got[:2] {
		var size int
		fmt.Sscan(n, &size)
		total += size
	}
	if total == 0 || total > 9<<20 {
		t.Errorf("the log takes %d bytes", total)
	}
	if len(got) < 5 || got[4] != "done" {
		t.Errorf("the log ends with %q", got)
	}
}
