package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"
	"github.com/spritekit/lattice/orchestrator/host/core"
	"github.com/spritekit/lattice/orchestrator/host/layer"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"golang.org/x/sys/unix"
)

// swapped is a folder in a sprite that an attacker exchanges, all the time, with a link to a folder of the host's. Both hold
// a file of the same name.
type swapped struct {
	dir  string // of the sprite, as the host names it
	host string
}

func swap(t *testing.T, w *world, seen string) swapped {
	t.Helper()
	s := swapped{dir: filepath.Join(w.liveDir("s"), seen), host: filepath.Join(t.TempDir(), "host")}
	for dir, text := range map[string]string{s.dir + "/dir": "sprite", s.host: "host"} {
		if err := errors.Join(os.MkdirAll(dir, 0o777), os.Chmod(dir, 0o777), os.WriteFile(dir+"/file", []byte(text), 0o666), os.Chmod(dir+"/file", 0o666)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(s.host, s.dir+"/link"); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var attacker sync.WaitGroup
	attacker.Go(func() {
		for ctx.Err() == nil { // a failure only costs the attacker a turn
			_ = unix.Renameat2(unix.AT_FDCWD, s.dir+"/dir", unix.AT_FDCWD, s.dir+"/link", unix.RENAME_EXCHANGE)
		}
	})
	t.Cleanup(func() { stop(); attacker.Wait() })
	return s
}

// touched says what of the host's folder is not as it was.
func (s swapped) touched(t *testing.T) string {
	t.Helper()
	entries, err := os.ReadDir(s.host)
	if err != nil {
		return err.Error()
	}
	if len(entries) != 1 {
		return fmt.Sprint(entries)
	}
	info, err := os.Stat(s.host + "/file")
	if err != nil {
		return err.Error()
	}
	text, err := os.ReadFile(s.host + "/file")
	if err != nil || string(text) != "host" || info.Mode() != 0o666 {
		return fmt.Sprintf("%q, %s, %v", text, info.Mode(), err)
	}
	return ""
}

// liveDir is where the host keeps what a sprite writes.
func (w *world) liveDir(name string) string {
	w.Helper()
	rec, err := w.host.core.Store.Sprite(name)
	if err != nil {
		w.Fatal(err)
	}
	l, err := w.host.core.Store.Layer(rec.Tree)
	if err != nil {
		w.Fatal(err)
	}
	return w.host.layers.DataDir(l)
}

// Attacker: while file calls are served, the sprite exchanges the folder that they are about with a link to one of the host's.
// None of the calls reads or changes anything there. The control is how one would serve them without a thought, by the path
// on the host, which soon does.
func TestFileCallsWhileFoldersAreSwapped(t *testing.T) {
	for name, open := range map[string]func(*testing.T) *world{
		// Not in overlays, whose layers nobody may change beside the kernel: the attacker is on the host here.
		"namespaces": func(t *testing.T) *world {
			return newWorldWith(t, core.Config{Dir: t.TempDir(), Log: zerolog.Nop(), Reserve: -1, Storage: layer.CAS}, func(string) {})
		},
		"plain": plainWorld,
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			if _, err := w.client.Create(t.Context(), sprites.Create{Name: "s"}); err != nil {
				t.Fatal(err)
			}
			if err := w.client.WriteFile(t.Context(), "s", "/workspace/a", strings.NewReader("x"), 0o644); err != nil { // it is up, and has the folder
				t.Fatal(err)
			}
			s := swap(t, w, "workspace")
			for i := range 20 {
				w.callFiles(fmt.Sprint(i))
				if why := s.touched(t); why != "" {
					t.Fatalf("after %d rounds the host's folder was touched: %s", i, why)
				}
			}
			naive(t, s)
		})
	}
}

// callFiles makes one call of each kind below the folder that is swapped. They may fail.
func (w *world) callFiles(round string) {
	w.Helper()
	ctx := w.Context()
	text, err := w.client.ReadFile(ctx, "s", "/workspace/dir/file", 100)
	if err == nil && string(text) == "host" {
		w.Errorf("a read gives the host's file")
	}
	_ = w.client.WriteFile(ctx, "s", "/workspace/dir/new"+round, strings.NewReader("evil"), 0o644)
	for _, c := range []struct{ method, call, body string }{
		{http.MethodPost, "fs/copy", `{"source":"/workspace/a","dest":"/workspace/dir/copy` + round + `"}`},
		{http.MethodPost, "fs/copy", `{"source":"/workspace/dir","dest":"/workspace/taken` + round + `","recursive":true}`},
		{http.MethodPost, "fs/rename", `{"source":"/workspace/dir/file","dest":"/workspace/dir/moved"}`},
		{http.MethodPost, "fs/rename", `{"source":"/workspace/dir/moved","dest":"/workspace/dir/file"}`},
		{http.MethodPost, "fs/chmod", `{"path":"/workspace/dir/file","mode":"0640"}`},
		{http.MethodPost, "fs/chmod", `{"path":"/workspace/dir","mode":"0777","recursive":true}`},
		{http.MethodDelete, "fs/delete?path=/workspace/dir/copy" + round, ""},
	} {
		req, err := http.NewRequestWithContext(ctx, c.method, w.server+"/v1/sprites/s/"+c.call, strings.NewReader(c.body))
		if err != nil {
			w.Fatal(err)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			w.Fatal(err)
		}
		res.Body.Close() // whatever it says: the folder may have been swapped in the middle
	}
	taken, err := w.client.ReadFile(ctx, "s", "/workspace/taken"+round+"/file", 100)
	if err == nil && string(taken) == "host" {
		w.Errorf("a copy holds the host's file")
	}
}

// naive is the control: it must be led to the host's folder, or the attack was none.
func naive(t *testing.T, s swapped) {
	t.Helper()
	read, wrote := false, false
	for i := 0; !read || !wrote; i++ {
		if text, err := os.ReadFile(s.dir + "/dir/file"); err == nil && string(text) == "host" {
			read = true
		}
		name := fmt.Sprintf("/naive%d", i%64)
		_ = os.WriteFile(s.dir+"/dir"+name, nil, 0o600)
		if _, err := os.Stat(s.host + name); err == nil {
			wrote = true
		}
		if t.Context().Err() != nil {
			return
		}
	}
}

// Attacker: a sprite asks its own socket for what is none of its business, in every spelling. The control asks the host's API,
// which answers.
func TestSpritesOwnSocketGivesNothingAway(t *testing.T) {
	w := newWorld(t, t.TempDir(), func(string) {})
	for _, name := range []string{"s", "other"} {
		if _, err := w.client.Create(t.Context(), sprites.Create{Name: name}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.client.Exec(t.Context(), name, sprites.Exec{Cmd: []string{"true"}}); err != nil {
			t.Fatal(err)
		}
	}
	rec, err := w.host.core.Store.Sprite("s")
	if err != nil {
		t.Fatal(err)
	}
	ask := func(network, address, request string) (status, body string) {
		t.Helper()
		conn, err := net.Dial(network, address)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, request); err != nil {
			t.Fatal(err)
		}
		answer, _ := io.ReadAll(conn) // how it ends does not matter
		head, rest, _ := strings.Cut(string(answer), "\r\n")
		_, body, _ = strings.Cut(rest, "\r\n\r\n")
		_, status, _ = strings.Cut(head, " ")
		return status, body
	}
	api := strings.TrimPrefix(w.server, "http://")
	inside := filepath.Join(w.host.core.RunDir(rec.ID), "api.sock")
	for _, c := range []struct {
		line, host, body string
		control          bool // the host's API answers it
	}{
		{"GET /v1/sprites", api, "", true},
		{"GET /v1/sprites/other", api, "", true},
		{"GET /v1/sprites/other/fs/read?path=/etc/passwd", api, "", true},
		{"POST /v1/sprites", api, `{"name":"evil"}`, true},
		{"POST /v1/sprites/s/policy/network", api, `{"rules":[{"domain":"*","action":"allow"}]}`, true},
		{"GET /v1/sprites/s/policy/network", api, "", true},
		{"GET /v1/images", api, "", true},
		{"DELETE /v1/sprites/evil", api, "", true},
		{"GET http://" + api + "/v1/sprites", api, "", true},
		{"GET //v1/sprites", api, "", false},
		{"GET /v1/checkpoints/../sprites", api, "", false},
		{"GET /v1/checkpoints/%2e%2e%2fsprites", api, "", false},
		{"GET /v1/checkpoints/..%2f..%2f..%2fhost.db", api, "", false},
		{"GET /v1/tasks/../../sprites/other", "other", "", false},
		{"POST /v1/checkpoints/v1/restore", "sprite", "", false},
		{"DELETE /v1/checkpoints/v1", "sprite", "", false},
		{"POST /v1/checkpoints/Current/fork", "sprite", `{"name":"evil"}`, false},
		{"GET /v1/runs", "sprite", "", false},
		{"POST /v1/runs/x/approve", "sprite", "{}", false},
		{"CONNECT " + api, api, "", false},
	} {
		request := fmt.Sprintf("%s HTTP/1.1\r\nHost: %s\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", c.line, c.host, len(c.body), c.body)
		if status, body := ask("unix", inside, request); strings.HasPrefix(status, "2") || strings.Contains(body, `"other"`) || strings.Contains(body, "root:") {
			t.Errorf("%s: the sprite's own socket answers %s: %s", c.line, status, body)
		}
		if !c.control {
			continue
		}
		if status, body := ask("tcp", api, request); !strings.HasPrefix(status, "2") {
			t.Errorf("%s: the host's API answers %s, %s: it proves nothing that the sprite's socket does not", c.line, status, body)
		}
	}
}
