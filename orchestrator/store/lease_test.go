package store_test

import (
	"errors"
	"net"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/orchestrator/store/kv"
	"github.com/spritekit/lattice/orchestrator/store/postgres/postgrestest"
)

// A process that renews its lease keeps the lead although its connections break: no other takes it in the meantime.
func TestLeaseOutlivesConnections(t *testing.T) {
	server, address := postgrestest.Shared(t), postgrestest.NewURL(t)
	if _, err := store.ReadLease(t.Context(), address); !errors.Is(err, kv.ErrMissing) {
		t.Errorf("ReadLease of an empty schema = %v, want ErrMissing", err)
	}
	s, err := store.OpenAs(address, store.Leader{URL: "http://a", Term: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	create(t, s, "run_a")
	for n := range lattice.Seq(3) {
		if err := server.Exec(t.Context(), "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name LIKE 'lattice %'"); err != nil {
			t.Fatal(err)
		}
		if _, err := store.Open(address); !errors.Is(err, store.ErrLocked) || !strings.Contains(err.Error(), "whose lease has not ended") {
			t.Errorf("Open while the lease lasts = %v, want ErrLocked", err)
		}
		if _, err := s.Append(t.Context(), "run_a", n, []lattice.Entry{fact("run_a", `{}`)}); err != nil {
			t.Fatal(err)
		}
	}
	if l, err := store.ReadLease(t.Context(), address); err != nil || l.Free || l.Address != "http://a" || l.Epoch != 1 {
		t.Errorf("ReadLease = %+v, %v", l, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if l, err := store.ReadLease(t.Context(), address); err != nil || !l.Free {
		t.Errorf("ReadLease after Close = %+v, %v; it is free", l, err)
	}
	open(t, address)
}

// A process that cannot reach the server loses the lead before another process can take it, although the server holds its
// connections for alive, and it cannot write when it comes back.
func TestLeaseOfAnUnreachableProcess(t *testing.T) {
	const term = 3 * time.Second
	server, address := postgrestest.Shared(t), postgrestest.NewURL(t)
	v := &valve{to: filepath.Join(server.Dir, ".s.PGSQL.5432"), opened: make(chan struct{})}
	close(v.opened)
	behind, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	q := behind.Query()
	q.Set("host", v.listen(t))
	behind.RawQuery = q.Encode()
	s, err := store.OpenAs(behind.String(), store.Leader{Term: term})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	create(t, s, "run_a")
	reopen := v.shut()
	if _, err := store.Open(address); !errors.Is(err, store.ErrLocked) {
		t.Fatalf("Open while the lease lasts = %v, want ErrLocked", err)
	}
	appended := make(chan error, 1)
	go func() {
		_, err := s.Append(t.Context(), "run_a", 0, []lattice.Entry{fact("run_a", `{}`)})
		appended <- err
	}()
	var other *store.Store
	for other == nil {
		next, err := store.Open(address)
		if err == nil {
			other = next
			defer other.Close()
		} else if !errors.Is(err, store.ErrLocked) {
			t.Fatal(err)
		}
	}
	select {
	case <-s.Lost():
	default:
		t.Error("another process leads before this one knows that it lost the lead")
	}
	if err := <-appended; !errors.Is(err, store.ErrLocked) {
		t.Errorf("Append without the server = %v, want ErrLocked", err)
	}
	if _, err := other.Append(t.Context(), "run_a", 0, []lattice.Entry{fact("run_a", `{}`)}); err != nil {
		t.Fatal(err)
	}
	reopen()
	if _, err := s.Append(t.Context(), "run_a", 1, []lattice.Entry{fact("run_a", `{}`)}); !errors.Is(err, store.ErrLocked) {
		t.Errorf("Append after another process led = %v, want ErrLocked", err)
	}
	if all, err := other.Entries("run_a", 0, 0); err != nil || len(all) != 1 {
		t.Errorf("Entries = %d entries, %v, want 1", len(all), err)
	}
}

// A process whose connection breaks cannot write after another has led, not even if that one has ended.
func TestFormerLeaderIsFenced(t *testing.T) {
	server, address := postgrestest.Shared(t), postgrestest.NewURL(t)
	s, err := store.Open(address)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	create(t, s, "run_a")
	if err := server.Exec(t.Context(), "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name LIKE 'lattice %'"); err != nil {
		t.Fatal(err)
	}
	other, err := store.Open(address)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(t.Context(), "run_a", 0, []lattice.Entry{fact("run_a", `{}`)}); !errors.Is(err, store.ErrLocked) {
		t.Errorf("Append after another process has led = %v, want ErrLocked", err)
	}
}

// valve forwards connections to a socket. While it is shut, bytes stay where they are and no connection ends.
type valve struct {
	to string

	mu     sync.Mutex
	opened chan struct{} // guarded by mu; closed while the valve is open
}

// shut shuts the valve, and returns the function that opens it.
func (v *valve) shut() (open func()) {
	v.mu.Lock()
	defer v.mu.Unlock()
	opened := make(chan struct{})
	v.opened = opened
	return func() { close(opened) }
}

// listen returns the folder of its socket.
func (v *valve) listen(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	l, err := net.Listen("unix", filepath.Join(dir, ".s.PGSQL.5432"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() { // ends with the listener
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("unix", v.to)
			if err != nil {
				from.Close()
				continue
			}
			go v.pump(from, to)
			go v.pump(to, from)
		}
	}()
	return dir
}

func (v *valve) pump(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	buf := make([]byte, 1<<16)
	for {
		n, err := from.Read(buf)
		v.mu.Lock()
		opened := v.opened
		v.mu.Unlock()
		<-opened
		if n > 0 {
			if _, err := to.Write(buf[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}
