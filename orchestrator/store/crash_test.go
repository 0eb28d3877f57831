package store_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/orchestrator/store/postgres/postgrestest"
)

// TestMain lets the tests run this binary again in another role, and ends the server of the tests.
func TestMain(m *testing.M) {
	if role, ok := roles[os.Getenv("STORE_TEST_CHILD")]; ok {
		if err := role(os.Getenv("STORE_TEST_PATH")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	code := m.Run()
	if err := postgrestest.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// roles is what this binary can be beside a test: a writer that is to be killed, that runs out of space, that may not.
var roles = map[string]func(path string) error{"append": appendForEver, "full": appendOnFullDisk, "denied": openDenied, "compact": compactForEver}

func child(t *testing.T, role, path string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.Command(self)
	c.Env = append(os.Environ(), "STORE_TEST_CHILD="+role, "STORE_TEST_PATH="+path)
	return c
}

const crashRuns = 4

// appendForEver appends to some runs at once and prints "run sequence" for each append that was acknowledged.
func appendForEver(path string) error {
	s, err := store.Open(path)
	if err != nil {
		return err
	}
	var group sync.WaitGroup
	var mu sync.Mutex // one line at a time
	errs := make(chan error, crashRuns)
	for n := range crashRuns {
		group.Go(func() {
			id := fmt.Sprint("run_", n)
			facts, _, last, err := load(s, id)
			for step := len(facts); err == nil; step++ {
				last, err = s.Append(context.Background(), id, last, []lattice.Entry{
					event(id, fmt.Sprint(step)), fact(id, fmt.Sprint(step)), state(id, fmt.Sprint(step)),
				})
				if err == nil {
					mu.Lock()
					fmt.Println(id, uint64(last))
					mu.Unlock()
				}
			}
			errs <- err
		})
	}
	return <-errs
}

// What was acknowledged is there after SIGKILL, whole, and the store is sound.
func TestKilledWhileAppending(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	s, err := store.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	for n := range crashRuns {
		create(t, s, fmt.Sprint("run_", n))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	acknowledged := map[string]lattice.Seq{}
	for range 12 {
		c := child(t, "append", path)
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		lines, killAt := bufio.NewScanner(out), 1+rand.IntN(60)
		for n := 0; lines.Scan(); n++ {
			id, text, _ := strings.Cut(lines.Text(), " ")
			seq, err := strconv.ParseUint(text, 10, 64)
			if err != nil {
				t.Fatalf("child says %q", lines.Text())
			}
			acknowledged[id] = lattice.Seq(seq)
			if n == killAt {
				if err := c.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := c.Wait(); err == nil {
			t.Fatal("the child ended by itself")
		}
		verifyCrashed(t, path, acknowledged)
	}
}

func verifyCrashed(t *testing.T, path string, acknowledged map[string]lattice.Seq) {
	t.Helper()
	s, err := store.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	sound(t, s)
	for id, seq := range acknowledged {
		facts, snapshot, last, err := load(s, id)
		if err != nil || last < seq {
			t.Fatalf("%s ends at %d, %v; %d was acknowledged", id, last, err, seq)
		}
		for step, e := range facts {
			if string(e.Body) != fmt.Sprint(step) {
				t.Fatalf("%s: fact %d is %s", id, step, e.Body)
			}
		}
		if string(snapshot) != fmt.Sprint(len(facts)-1) {
			t.Errorf("%s: %d facts, snapshot after %s", id, len(facts), snapshot)
		}
	}
}

// compactForEver compacts, and says each time that it is done.
func compactForEver(path string) error {
	s, err := store.Open(path)
	for err == nil {
		if _, _, err = s.Compact(context.Background(), nil); err == nil {
			fmt.Println("compacted")
		}
	}
	return err
}

// A store that is killed while it is made smaller is the old one or the new one, and holds the same.
func TestKilledWhileCompacting(t *testing.T) {
	path := filepath.Join(t.TempDir(), "store.db")
	if err := os.WriteFile(path, filled(t, 60), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 8 {
		c := child(t, "compact", path)
		out, err := c.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		lines.Scan() // it is at it
		time.Sleep(rand.N(5 * time.Millisecond))
		if err := c.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = c.Wait() // it was killed
		s, err := store.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		facts, _, last, err := load(s, "run_a")
		if err != nil || len(facts) != 60 || last != 120 {
			t.Fatalf("after a kill: %d facts, last %d, %v", len(facts), last, err)
		}
		sound(t, s)
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// appendOnFullDisk appends until the file may not grow any more, then frees space and goes on in the same process.
func appendOnFullDisk(path string) error {
	signal.Ignore(syscall.SIGXFSZ)
	s, err := store.Open(path)
	if err != nil {
		return err
	}
	defer s.Close()
	ctx := context.Background()
	if err := s.Create(ctx, store.RunRecord{ID: "run_a", Secret: secret}); err != nil {
		return err
	}
	var before unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &before); err != nil {
		return err
	}
	tight := before
	tight.Cur = 96 << 10
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &tight); err != nil {
		return err
	}
	big := `"` + strings.Repeat("x", 10_000) + `"`
	var last lattice.Seq
	for {
		seq, err := s.Append(ctx, "run_a", last, []lattice.Entry{fact("run_a", big)})
		if err != nil {
			break
		}
		last = seq
	}
	for range 3 { // still full: refused again, not stuck
		if _, err := s.Append(ctx, "run_a", last, []lattice.Entry{fact("run_a", big)}); err == nil {
			return errors.New("append succeeded on a full disk")
		} else if errors.Is(err, lattice.ErrConflict) {
			return fmt.Errorf("a failed append left something behind: %w", err)
		}
	}
	if facts, _, _, err := load(s, "run_a"); err != nil || len(facts) != int(last) {
		return fmt.Errorf("while full: %d facts, %v, want %d", len(facts), err, last)
	}
	if err := unix.Setrlimit(unix.RLIMIT_FSIZE, &before); err != nil {
		return err
	}
	for range 20 {
		if last, err = s.Append(ctx, "run_a", last, []lattice.Entry{fact("run_a", big)}); err != nil {
			return fmt.Errorf("after space was freed: %w", err)
		}
	}
	problems, err := s.Check(context.Background(), nil)
	if err != nil || len(problems) > 0 {
		return fmt.Errorf("check: %q, %w", problems, err)
	}
	return nil
}

// A full disk refuses appends and loses nothing; after space is freed the same process goes on.
func TestFullDisk(t *testing.T) {
	c := child(t, "full", filepath.Join(t.TempDir(), "store.db"))
	if out, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
