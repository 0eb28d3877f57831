package worktree

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/worktree/mirror"
	"golang.org/x/sync/errgroup"
)

// server serves the world's repositories over HTTP and counts the bytes that it sends. While stall is set it sends no
// more than that many bytes of an answer, says so, and waits until the client is gone.
type server struct {
	url     string
	sent    atomic.Int64
	stall   atomic.Int64
	stalled chan struct{}
}

func (w *world) serve() *server {
	w.t.Helper()
	backend := filepath.Join(w.in(".", "--exec-path"), "git-http-backend")
	if _, err := os.Stat(backend); err != nil {
		w.t.Skip("git-http-backend is not installed")
	}
	handler := &cgi.Handler{Path: backend, Env: []string{"GIT_PROJECT_ROOT=" + w.dir, "GIT_HTTP_EXPORT_ALL=1", "HOME=" + w.path("home")}, InheritEnv: []string{"PATH"}, Logger: log.New(io.Discard, "", 0)}
	s := &server{stalled: make(chan struct{}, 1)}
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		handler.ServeHTTP(&counter{rw, r, s}, r)
	}))
	w.t.Cleanup(srv.Close)
	s.url = srv.URL
	return s
}

type counter struct {
	http.ResponseWriter
	r *http.Request
	s *server
}

func (c *counter) Write(p []byte) (int, error) {
	if limit := c.s.stall.Load(); limit > 0 && c.r.Method == http.MethodPost && int64(len(p)) > limit {
		_, _ = c.ResponseWriter.Write(p[:limit])
		c.ResponseWriter.(http.Flusher).Flush()
		c.s.stalled <- struct{}{}
		<-c.r.Context().Done()
		return 0, c.r.Context().Err()
	}
	c.s.sent.Add(int64(len(p)))
	return c.ResponseWriter.Write(p)
}

// noise is text that does not compress.
func noise(n int) string {
	var b strings.Builder
	for b.Len() < n {
		fmt.Fprintf(&b, "%016x\n", rand.Uint64())
	}
	return b.String()
}

// seeds seeds a sprite and asserts what a clone of the bundle checks out.
func (w *world) seeds(url, ref, head string) {
	w.t.Helper()
	s, err := w.git.Seed(w.t.Context(), url, SeedOptions{Ref: ref}, w.path("out.bundle"))
	if err != nil {
		w.t.Errorf("Seed(%s) = %v", ref, err)
		return
	}
	if err := os.RemoveAll(w.path("out")); err != nil {
		w.t.Fatal(err)
	}
	w.in(".", "clone", "-q", s.Bundle, "out")
	if got := w.in("out", "rev-parse", "HEAD"); got != head || s.Head != head {
		w.t.Errorf("Seed(%s) is at %s, its clone at %s, want %s", ref, s.Head, got, head)
	}
}

func TestLaterSeedsFetchWhatIsNew(t *testing.T) {
	w := newWorld(t)
	w.repository("work")
	head := w.commitTree("work", "big.txt", noise(1<<20))
	w.in(".", "clone", "-q", "--bare", "work", "origin.git")
	s := w.serve()
	url := s.url + "/origin.git"
	taken := func(do func()) int64 {
		before := s.sent.Load()
		do()
		return s.sent.Load() - before
	}
	whole := taken(func() { w.seeds(url, "", head) })
	again := taken(func() { w.seeds(url, "", head) })
	next := w.commitTree("work", "small.txt", "small\n")
	w.in("work", "push", "-q", w.path("origin.git"), "main")
	little := taken(func() { w.seeds(url, "", next) })
	if whole < 500_000 || again > 5_000 || little > 10_000 {
		t.Errorf("seeds took %d, then %d, and after a small commit %d bytes", whole, again, little)
	}
	// Another leader that shares the mirrors, and another spelling, need not fetch it either.
	g, err := New(Options{Env: w.env, Scratch: w.path("scratch2"), Mirrors: w.path("scratch/mirrors")})
	if err != nil {
		t.Fatal(err)
	}
	w.git = g
	if other := taken(func() { w.seeds(url+"/", "", next) }); other > 5_000 {
		t.Errorf("a second leader's seed took %d bytes", other)
	}
}

// Many runs seed at once, from two leaders, while somebody pushes.
func TestSeedsAtOnce(t *testing.T) {
	w := newWorld(t)
	url := w.origin()
	other, err := New(Options{Env: w.env, Scratch: w.path("scratch2"), Mirrors: w.path("scratch/mirrors")})
	if err != nil {
		t.Fatal(err)
	}
	w.in(".", "clone", "-q", url, "pusher")
	var group errgroup.Group
	for i := range 6 {
		group.Go(func() error {
			g := w.git
			if i%2 == 1 {
				g = other
			}
			bundle := w.path(fmt.Sprintf("at-once-%d.bundle", i))
			if _, err := g.Seed(t.Context(), url, SeedOptions{}, bundle); err != nil {
				return err
			}
			if out, err := w.try(".", "clone", "-q", bundle, fmt.Sprintf("at-once-%d", i)); err != nil {
				return fmt.Errorf("%w: %s", err, out)
			}
			return nil
		})
	}
	for i := range 3 {
		w.commitTree("pusher", fmt.Sprintf("push-%d", i), "x\n")
		w.in("pusher", "push", "-q", "origin", "main")
	}
	if err := group.Wait(); err != nil {
		t.Error(err)
	}
	mirrors, err := filepath.Glob(w.path("scratch/mirrors/*.git"))
	if err != nil || len(mirrors) != 1 {
		t.Fatalf("mirrors = %v, %v, want one", mirrors, err)
	}
	w.in(strings.TrimPrefix(mirrors[0], w.dir+"/"), "fsck", "--strict")
	w.seeds(url, "", w.in("pusher", "rev-parse", "HEAD"))
}

// What the remote's people do between two runs: the mirror follows.
func TestMirrorFollowsTheRemote(t *testing.T) {
	w := newWorld(t)
	first := w.repository("work")
	w.in("work", "branch", "topic", first)
	w.in("work", "tag", "v1")
	w.in(".", "clone", "-q", "--bare", "work", "origin.git")
	w.in("work", "remote", "add", "origin", w.path("origin.git"))
	url := "file://" + w.path("origin.git")
	w.seeds(url, "", first)
	w.seeds(url, "v1", first)
	w.seeds(url, "topic", first)

	w.in("work", "commit", "-q", "--amend", "-m", "rewritten")
	rewritten := w.in("work", "rev-parse", "HEAD")
	w.in("work", "push", "-q", "--force", "origin", "main")
	w.in("work", "tag", "-f", "v1")
	w.in("work", "push", "-q", "--force", "origin", "v1")
	w.seeds(url, "", rewritten)
	w.seeds(url, "v1", rewritten)
	w.seeds(url, first, first) // what was forced away can still be named, as long as it is here

	w.in("work", "push", "-q", "origin", ":topic", ":v1", "main:topic/one")
	w.seeds(url, "topic/one", rewritten)
	for _, gone := range []string{"topic", "v1"} {
		_, err := w.git.Seed(t.Context(), url, SeedOptions{Ref: gone}, w.path("out.bundle"))
		wantCode(t, err, "ref_not_found")
	}

	w.in("work", "push", "-q", "origin", "main:trunk")
	w.in("origin.git", "symbolic-ref", "HEAD", "refs/heads/trunk")
	w.in("work", "push", "-q", "origin", ":main")
	w.seeds(url, "", rewritten)
	s, err := w.git.Seed(t.Context(), url, SeedOptions{}, w.path("out.bundle"))
	if err != nil || s.Branch != "trunk" || s.DefaultBranch != "trunk" {
		t.Errorf("Seed after the default branch changed = %+v, %v", s, err)
	}

	// Another repository in the same place, of another format even.
	if err := os.Rename(w.path("origin.git"), w.path("old.git")); err != nil {
		t.Fatal(err)
	}
	w.in(".", "init", "-q", "--object-format=sha256", "new")
	other := w.commitTree("new", "b.txt", "other\n")
	w.in(".", "clone", "-q", "--bare", "new", "origin.git")
	w.seeds(url, "", other)
}

func TestBrokenMirrorIsMadeAnew(t *testing.T) {
	for name, damage := range map[string]func(dir string) error{
		"no HEAD":           func(dir string) error { return os.Remove(dir + "/HEAD") },
		"garbage in HEAD":   func(dir string) error { return os.WriteFile(dir+"/HEAD", []byte("x\x00"), 0o600) },
		"garbage in config": func(dir string) error { return os.WriteFile(dir+"/config", []byte("[core"), 0o600) },
		"no objects":        func(dir string) error { return os.RemoveAll(dir + "/objects") },
		"no packs": func(dir string) error {
			return errors.Join(os.RemoveAll(dir+"/objects"), os.MkdirAll(dir+"/objects/pack", 0o700), os.MkdirAll(dir+"/objects/info", 0o700))
		},
		"packs cut":       func(dir string) error { return eachObject(dir, func(f string) error { return os.Truncate(f, 60) }) },
		"packs scribbled": func(dir string) error { return eachObject(dir, scribble) },
		"refs broken":     func(dir string) error { return os.WriteFile(dir+"/refs/heads/main", []byte("nonsense\n"), 0o600) },
		"a file":          func(dir string) error { return errors.Join(os.RemoveAll(dir), os.WriteFile(dir, []byte("x"), 0o600)) },
		"no refs":         func(dir string) error { return os.RemoveAll(dir + "/refs") },
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.repository("work")
			head := w.commitTree("work", "big.txt", noise(200<<10))
			w.in(".", "clone", "-q", "--bare", "work", "origin.git")
			url := "file://" + w.path("origin.git")
			w.seeds(url, "", head)
			dir := w.path("scratch/mirrors/" + mirror.Name(url) + ".git")
			if err := damage(dir); err != nil {
				t.Fatal(err)
			}
			w.seeds(url, "", head)
		})
	}
}

func eachObject(dir string, do func(string) error) error {
	files, err := filepath.Glob(dir + "/objects/*/*")
	if err == nil && len(files) == 0 {
		err = errors.New("no objects")
	}
	for _, f := range files {
		if !strings.HasSuffix(f, ".idx") && !strings.HasSuffix(f, ".rev") {
			err = errors.Join(err, os.Chmod(f, 0o600), do(f))
		}
	}
	return err
}

func scribble(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	for i := len(data) / 3; i < len(data)/2; i++ {
		data[i] ^= 0x55
	}
	return os.WriteFile(file, data, 0o600)
}

// A seed is cut off in the middle of a pack; the next one goes on as if nothing had been.
func TestSeedCutOffInTheMiddle(t *testing.T) {
	w := newWorld(t)
	w.repository("work")
	head := w.commitTree("work", "big.txt", noise(1<<20))
	w.in(".", "clone", "-q", "--bare", "work", "origin.git")
	s := w.serve()
	url := s.url + "/origin.git"
	s.stall.Store(2000)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { _, err := w.git.Seed(ctx, url, SeedOptions{}, w.path("out.bundle")); done <- err }()
	<-s.stalled
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Seed that was cut off = %v, want canceled", err)
	}
	s.stall.Store(0)
	// What git would leave when it is killed outright.
	dir := "scratch/mirrors/" + mirror.Name(url) + ".git/"
	for _, file := range []string{"packed-refs.lock", "HEAD.lock", "config.lock", "shallow.lock", "refs/heads/main.lock", "objects/pack/tmp_pack_abc"} {
		w.write(dir+file, "")
	}
	w.seeds(url, "", head)
	if _, err := os.Stat(w.path(dir + "objects/pack/tmp_pack_abc")); err == nil {
		t.Error("the unfinished pack is still there")
	}
}

func TestSeedWaitsForTheMirror(t *testing.T) {
	w := newWorld(t)
	url := w.origin()
	lock, err := os.OpenFile(w.path("scratch/mirrors/"+mirror.Name(url)+".lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var once sync.WaitGroup
	once.Go(func() {
		if _, err := w.git.Seed(ctx, url, SeedOptions{}, w.path("out.bundle")); !errors.Is(err, context.Canceled) {
			t.Errorf("Seed of a locked mirror = %v, want canceled", err)
		}
	})
	cancel()
	once.Wait()
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := w.git.Seed(t.Context(), url, SeedOptions{}, w.path("out.bundle")); err != nil {
		t.Errorf("Seed after the lock was given up = %v", err)
	}
}

func TestPruneMirrors(t *testing.T) {
	w := newWorld(t)
	w.repository("work")
	w.commitTree("work", "big.txt", noise(100<<10))
	now := time.Now()
	var urls []string
	for i, name := range []string{"a", "b", "c", "busy"} {
		w.in(".", "clone", "-q", "--bare", "work", name+".git")
		urls = append(urls, "file://"+w.path(name+".git"))
		if _, err := w.git.Seed(t.Context(), urls[i], SeedOptions{}, w.path("out.bundle")); err != nil {
			t.Fatal(err)
		}
		used := now.Add(-time.Duration(10-i) * time.Hour)
		if err := os.Chtimes(w.path("scratch/mirrors/"+mirror.Name(urls[i])+".lock"), used, used); err != nil {
			t.Fatal(err)
		}
	}
	busy, err := w.git.openTarget(t.Context(), urls[3], "")
	if err != nil {
		t.Fatal(err)
	}
	prune := func(o mirror.PruneOptions) string {
		t.Helper()
		o.Now = now
		pruned, err := w.git.Mirrors().Prune(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, m := range pruned {
			if m.Bytes < 40<<10 || m.Used.IsZero() {
				t.Errorf("pruned %+v, want its size and last use", m)
			}
			names = append(names, strings.TrimSuffix(filepath.Base(m.URL), ".git"))
		}
		return strings.Join(names, " ")
	}
	for _, c := range []struct {
		o    mirror.PruneOptions
		want string
	}{
		{mirror.PruneOptions{}, ""},
		{mirror.PruneOptions{OlderThan: 24 * time.Hour, MaxBytes: 1 << 30}, ""},
		{mirror.PruneOptions{OlderThan: 9 * time.Hour, DryRun: true}, "a b"},
		{mirror.PruneOptions{OlderThan: 10 * time.Hour}, "a"},
		{mirror.PruneOptions{MaxBytes: 350 << 10}, ""},
		{mirror.PruneOptions{MaxBytes: 150 << 10}, "b"},
		{mirror.PruneOptions{MaxBytes: 1}, "c"}, // the last one is in use
	} {
		if got := settled(func() string { return prune(c.o) }, c.want); got != c.want {
			t.Errorf("Prune(%+v) = %q, want %q", c.o, got, c.want)
		}
	}
	busy.release()
	if got := settled(func() string { return prune(mirror.PruneOptions{MaxBytes: 1}) }, "busy"); got != "busy" {
		t.Errorf("Prune after the use = %q, want busy", got)
	}
	w.seeds(urls[0], "", w.in("work", "rev-parse", "HEAD"))
}

// settled tries again while a lock that was given up is still held for a moment by a process that another test forked and
// that has not yet become its program.
func settled(try func() string, want string) (got string) {
	for range 500 {
		if got = try(); got == want {
			break
		}
	}
	return got
}
