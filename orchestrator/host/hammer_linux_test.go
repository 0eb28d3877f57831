package host

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/fleet"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"golang.org/x/time/rate"
)

// A sprite that asks its own socket without end, over as many connections as it gets, in pieces and by halves, is told to
// wait. It costs neither the host its descriptors nor its neighbour an answer, and ends with its sandbox.
func TestSpriteHammersItsSocket(t *testing.T) {
	w := newWorld(t, t.TempDir(), func(string) {})
	for _, name := range []string{"s", "neighbour"} {
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
	socket := filepath.Join(w.host.core.RunDir(rec.ID), "api.sock")
	dial := func() net.Conn {
		t.Helper()
		conn, err := net.Dial("unix", socket)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	// All but one connection are opened by halves.
	for i := range fleet.InsideConns - 1 {
		conn := dial()
		half := []string{"", "GET /v1/checkpoints HTTP/1.1\r\nHost: x\r\nA: ", "POST /v1/checkpoint HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"}[i%3]
		if _, err := io.WriteString(conn, half); err != nil {
			t.Fatal(err)
		}
	}
	conn := dial()
	answers := bufio.NewReader(conn)
	refused := false
	for n := 0; !refused && n < 100*fleet.CallBurst; n++ {
		if _, err := fmt.Fprint(conn, "GET /v1/checkpoints HTTP/1.1\r\nHost: x\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		res, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatal(err)
		}
		_, err = io.Copy(io.Discard, res.Body)
		if err != nil {
			t.Fatal(err)
		}
		if refused = res.StatusCode == http.StatusTooManyRequests; refused && (res.Header.Get("Retry-After") == "" || !res.Close) {
			t.Errorf("it is refused with %v", res.Header)
		}
	}
	if !refused {
		t.Error("a sprite may ask without end")
	}
	for range 500 { // more wait in the kernel, and are nobody's descriptors
		conn, err := (&net.Dialer{Timeout: 50 * time.Millisecond}).Dial("unix", socket)
		if err != nil {
			break // as many as wait there
		}
		defer conn.Close()
	}
	if code, err := w.client.Exec(t.Context(), "neighbour", sprites.Exec{Cmd: []string{"true"}}); code != 0 || err != nil {
		t.Errorf("the neighbour: %d, %v", code, err)
	}
	if err := w.client.Delete(t.Context(), "s"); err != nil {
		t.Errorf("delete it: %v", err)
	}
}

// A sprite does not fill the host with checkpoints of its own, however small.
func TestOwnCheckpointsAreBounded(t *testing.T) {
	w := newWorld(t, t.TempDir(), func(string) {})
	if _, err := w.client.Create(t.Context(), sprites.Create{Name: "s"}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.client.Checkpoint(t.Context(), "s", ""); err != nil {
		t.Fatal(err)
	}
	rec, err := w.host.core.Store.Sprite("s")
	if err != nil {
		t.Fatal(err)
	}
	ask := func(max int) int {
		t.Helper()
		inside := &fleet.Inside{Requests: rate.NewLimiter(rate.Every(time.Hour), 9), Checkpoints: rate.NewLimiter(rate.Every(time.Hour), 9), MostCheckpoints: max}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/checkpoint", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		answer := &recorded{header: http.Header{}}
		w.host.insideRoutes(inside, rec.ID, "s").ServeHTTP(answer, r)
		return answer.status
	}
	if got := ask(1); got != http.StatusConflict {
		t.Errorf("the one that is too many is answered with %d", got)
	}
	if got := ask(2); got != http.StatusOK {
		t.Errorf("the last one is answered with %d", got)
	}
}

// recorded is an answer of which only the status matters.
type recorded struct {
	header http.Header
	status int
}

func (r *recorded) Header() http.Header         { return r.header }
func (r *recorded) Write(p []byte) (int, error) { return len(p), nil }
func (r *recorded) WriteHeader(status int)      { r.status = status }
func (r *recorded) Flush()                      {}

// Thousands of listeners are counted, and told as far as anybody can use it; the sprite stays usable.
func TestThousandsOfListeners(t *testing.T) {
	w := newWorld(t, t.TempDir(), func(string) {})
	if w.host.confiner.Confined().Plain {
		t.Skip("no namespaces here")
	}
	if _, err := w.client.Create(t.Context(), sprites.Create{Name: "s"}); err != nil {
		t.Fatal(err)
	}
	// A process may not have that many descriptors: three processes share them.
	const listen = `import os,socket,sys
ready=[]
for c in range(3):
    r,w=os.pipe()
    if os.fork()==0:
        kept=[]
        for n in range(1500):
            s=socket.socket(); s.bind(("127.0.0.1", 0)); s.listen(); kept.append(s)
        os.write(w,b"x"); sys.stdin.read(); os._exit(0)
    os.close(w); ready.append(r)
if all(os.read(r,1) for r in ready): print("ready", flush=True)
sys.stdin.read()`
	say, hear := io.Pipe()
	hold, let := io.Pipe()
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	go func() {
		code, err := w.client.Exec(ctx, "s", sprites.Exec{Cmd: []string{"sh", "-c", "exec python3 -c '" + listen + "'"}, Stdin: hold, Stdout: hear, Stderr: hear})
		hear.CloseWithError(fmt.Errorf("ended with %d, %w", code, errors.Join(err, io.EOF)))
		ended <- err
	}()
	said := bufio.NewReader(say)
	if line, err := said.ReadString('\n'); line != "ready\n" {
		let.Close()
		rest, _ := io.ReadAll(said) // ends with the command
		t.Skipf("python3 does not listen on thousands of ports here: %s%s, %v", line, rest, err)
	}
	go io.Copy(io.Discard, say) // until the command ends
	rec, err := w.host.core.Store.Sprite("s")
	if err != nil {
		t.Fatal(err)
	}
	s, err := w.host.fleet.Runtime(rec)
	if err != nil {
		t.Fatal(err)
	}
	ports, err := s.Ports(t.Context())
	if err != nil || len(ports) != 4096 {
		t.Errorf("%d ports are told of, %v; want 4096", len(ports), err)
	}
	if code, err := w.client.Exec(t.Context(), "s", sprites.Exec{Cmd: []string{"true"}}); code != 0 || err != nil {
		t.Errorf("a command meanwhile: %d, %v", code, err)
	}
	let.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
