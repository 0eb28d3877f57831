package store_test

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/orchestrator/store/kv"
	"github.com/spritekit/lattice/orchestrator/store/postgres/postgrestest"
)

// One process has a database open for writing. Others read it, and see what it appends.
func TestOneWriter(t *testing.T) {
	address := postgrestest.NewURL(t)
	s := open(t, address)
	create(t, s, "run_a")
	_, err := store.Open(address)
	if !errors.Is(err, store.ErrLocked) || !strings.Contains(err.Error(), "by lattice ") || strings.Contains(err.Error(), postgrestest.Password) {
		t.Fatalf("a second Open = %v, want ErrLocked and the process", err)
	}
	reader, err := store.OpenReadOnly(address)
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if err := reader.Create(t.Context(), store.RunRecord{ID: "run_b", Secret: secret}); !errors.Is(err, store.ErrReadOnly) {
		t.Errorf("Create by a reader = %v, want ErrReadOnly", err)
	}
	seen := make(chan lattice.Seq)
	go func() {
		defer close(seen)
		for e, err := range reader.Tail(t.Context(), "run_a", 0) {
			if err != nil {
				return
			}
			seen <- e.Seq
		}
	}()
	for n := range lattice.Seq(3) {
		if _, err := s.Append(t.Context(), "run_a", n, []lattice.Entry{fact("run_a", `{}`)}); err != nil {
			t.Fatal(err)
		}
		if got := <-seen; got != n+1 {
			t.Fatalf("the reader saw entry %d, want %d", got, n+1)
		}
	}
}

// A writer whose connection the server has ended writes again, unless another process has taken over meanwhile.
func TestWriterIsCutOff(t *testing.T) {
	server, address := postgrestest.Shared(t), postgrestest.NewURL(t)
	s, err := store.Open(address)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	create(t, s, "run_a")
	cut := func() {
		t.Helper()
		if err := server.Exec(t.Context(), "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE application_name LIKE 'lattice %'"); err != nil {
			t.Fatal(err)
		}
	}
	cut()
	if _, err := s.Append(t.Context(), "run_a", 0, []lattice.Entry{fact("run_a", `{}`)}); err != nil {
		t.Fatalf("Append after a broken connection = %v", err)
	}
	cut()
	other := open(t, address)
	if _, err := other.Append(t.Context(), "run_a", 1, []lattice.Entry{fact("run_a", `{}`)}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(t.Context(), "run_a", 2, []lattice.Entry{fact("run_a", `{}`)}); !errors.Is(err, store.ErrLocked) {
		t.Errorf("Append after another process took over = %v, want ErrLocked", err)
	}
	if all, err := s.Entries("run_a", 0, 0); err != nil || len(all) != 2 {
		t.Errorf("Entries = %d entries, %v, want 2", len(all), err)
	}
}

// An append waits for a server that restarts, and so does a read.
func TestServerRestarts(t *testing.T) {
	server, s := postgrestest.Shared(t), open(t, postgrestest.NewURL(t))
	create(t, s, "run_a")
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	group.Go(func() {
		if _, err := s.Append(t.Context(), "run_a", 0, []lattice.Entry{fact("run_a", `{}`)}); err != nil {
			t.Error(err)
		}
	})
	group.Go(func() {
		if _, err := s.Run("run_a"); err != nil {
			t.Error(err)
		}
	})
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	group.Wait()
}

// If the connection breaks during a commit, the caller is told whether its entries are stored.
func TestOutcomeOfABrokenCommit(t *testing.T) {
	server := postgrestest.Shared(t)
	for name, answered := range map[string]bool{"the answer was lost": true, "the request was lost": false} {
		t.Run(name, func(t *testing.T) {
			address, err := url.Parse(postgrestest.NewURL(t))
			if err != nil {
				t.Fatal(err)
			}
			p := &cutter{to: filepath.Join(server.Dir, ".s.PGSQL.5432"), forward: answered}
			q := address.Query()
			q.Set("host", p.listen(t))
			address.RawQuery = q.Encode()
			s := open(t, address.String())
			create(t, s, "run_a")
			p.arm()
			last, err := s.Append(t.Context(), "run_a", 0, []lattice.Entry{fact("run_a", `{}`)})
			if stored := err == nil; stored != answered || stored != (last == 1) {
				t.Errorf("Append = %d, %v; stored: %v", last, err, answered)
			}
			if p.armed() {
				t.Error("no commit was cut")
			}
			all, err := s.Entries("run_a", 0, 0)
			if err != nil || (len(all) == 1) != answered {
				t.Errorf("Entries = %d entries, %v; stored: %v", len(all), err, answered)
			}
		})
	}
}

// cutter forwards connections to a socket. Once armed, it cuts the next connection that commits, before or after it forwards the
// request.
type cutter struct {
	to      string
	forward bool

	mu  sync.Mutex
	cut bool // guarded by mu: the next commit is to be cut
}

func (c *cutter) arm() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = true
}

func (c *cutter) armed() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cut
}

// listen returns the folder of its socket.
func (c *cutter) listen(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "cut")
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(dir, ".s.PGSQL.5432"))
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	t.Cleanup(func() {
		l.Close()
		group.Wait()
		os.RemoveAll(dir)
	})
	group.Go(func() {
		for {
			from, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("unix", c.to)
			if err != nil {
				from.Close()
				continue
			}
			group.Go(func() { c.pump(from, to) })
		}
	})
	return dir
}

func (c *cutter) pump(from, to net.Conn) {
	defer from.Close()
	defer to.Close()
	ended := make(chan bool)
	answers := func(out net.Conn) {
		defer close(ended)
		buf := make([]byte, 1<<16)
		for {
			n, err := to.Read(buf)
			if err != nil {
				return
			}
			if c.forward && strings.Contains(string(buf[:n]), "COMMIT\x00") && c.disarm() {
				return // the server has committed
			}
			if _, err := out.Write(buf[:n]); err != nil {
				return
			}
		}
	}
	go func() {
		answers(from)
		from.Close()
	}()
	buf := make([]byte, 1<<16)
	for {
		n, err := from.Read(buf)
		if err != nil || !c.forward && strings.Contains(string(buf[:n]), "COMMIT\x00") && c.disarm() {
			break
		}
		if _, err := to.Write(buf[:n]); err != nil {
			break
		}
	}
	to.Close()
	<-ended
}

// disarm reports whether it was armed.
func (c *cutter) disarm() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	was := c.cut
	c.cut = false
	return was
}

// A store keeps all that it has on the way from a file to a database and back.
func TestImport(t *testing.T) {
	file := open(t, filepath.Join(t.TempDir(), "store.db"))
	create(t, file, "run_a", "run_b")
	for n := range lattice.Seq(40) {
		if _, err := file.Append(t.Context(), "run_a", 2*n, []lattice.Entry{event("run_a", "e"+time.Duration(n).String()), fact("run_a", `{"n":1}`), state("run_a", `{"at":1}`)}); err != nil {
			t.Fatal(err)
		}
	}
	address := postgrestest.NewURL(t)
	database := open(t, address)
	if err := database.Import(t.Context(), file, nil); err != nil {
		t.Fatal(err)
	}
	if err := database.Import(t.Context(), file, nil); !errors.Is(err, store.ErrNotEmpty) {
		t.Errorf("a second Import = %v, want ErrNotEmpty", err)
	}
	back := filepath.Join(t.TempDir(), "back.db")
	if err := database.CopyTo(back); err != nil {
		t.Fatal(err)
	}
	again := open(t, back)
	want, err := file.Entries("", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for name, s := range map[string]*store.Store{"database": database, "file": again} {
		got, err := s.Entries("", 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: entries differ (-want +got):\n%s", name, d)
		}
		if last, err := s.Recent("", 1); err != nil || len(last) != 1 || last[0].ID != "run_b" {
			t.Errorf("%s: Recent = %v, %v", name, last, err)
		}
	}
	if last, err := database.Append(t.Context(), "run_a", 80, []lattice.Entry{event("run_a", "e1ns")}); err != nil || last != 80 {
		t.Errorf("Append of a duplicate = %d, %v, want 80", last, err)
	}
}

// A database of an older schema is brought up to date, and its records as they were are kept in a table, for the lattice that wrote them.
func TestDatabaseUpgrade(t *testing.T) {
	server := postgrestest.Shared(t)
	address := postgrestest.NewURL(t)
	reopen := func() {
		t.Helper()
		s, err := store.Open(address)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	reopen()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	run := func(sql string) {
		t.Helper()
		if err := server.Exec(t.Context(), "SET search_path = "+u.Query().Get("search_path")+"; "+sql); err != nil {
			t.Fatal(err)
		}
	}
	for range 2 { // the second copy replaces the first
		run(`UPDATE lattice_records SET value = '\x0000000000000002' WHERE bucket = 'meta'`)
		reopen()
		run(`SELECT 1 / count(*) FROM lattice_records WHERE bucket = 'meta' AND value = '\x0000000000000003'`)
		run(`SELECT 1 / count(*) FROM lattice_records_schema2 WHERE bucket = 'meta' AND value = '\x0000000000000002'`)
	}
}

// A database that cannot be used is refused, with the reason and without the password.
func TestDatabaseRefuses(t *testing.T) {
	server := postgrestest.Shared(t)
	run := func(sql string) {
		t.Helper()
		if err := server.Exec(t.Context(), sql); err != nil {
			t.Fatal(err)
		}
	}
	prepared := func(sql string) string {
		t.Helper()
		address := postgrestest.NewURL(t)
		s, err := store.Open(address)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		u, _ := url.Parse(address)
		run("SET search_path = " + u.Query().Get("search_path") + "; " + sql)
		return address
	}
	good := postgrestest.NewURL(t)
	u, err := url.Parse(good)
	if err != nil {
		t.Fatal(err)
	}
	reader := "reader_" + u.Query().Get("search_path")
	run("CREATE ROLE " + reader + " LOGIN PASSWORD '" + postgrestest.Password + "'; GRANT USAGE ON SCHEMA public TO " + reader + "; REVOKE CREATE ON SCHEMA public FROM public")
	for name, c := range map[string]struct {
		address string
		want    error
	}{
		"no address":       {"postgres://h:port:x/%zz", kv.ErrAddress},
		"another scheme":   {"mysql://h/d", kv.ErrAddress},
		"no server":        {strings.Replace(good, url.QueryEscape(server.Dir), url.QueryEscape(t.TempDir()), 1), kv.ErrUnreachable},
		"a wrong password": {strings.Replace(good, postgrestest.Password, "canary-wrong", 1), kv.ErrRefused},
		"another user":     {strings.Replace(server.URL("public"), postgrestest.User, reader, 1), kv.ErrRefused},
		"a hidden schema":  {strings.Replace(good, postgrestest.User, reader, 1), kv.ErrMissing},
		"no database":      {strings.Replace(good, "/postgres?", "/none?", 1), kv.ErrMissing},
		"no schema":        {server.URL("none"), kv.ErrMissing},
		"newer tables":     {prepared("INSERT INTO lattice_layout (version) VALUES (99)"), kv.ErrNewer},
		"newer records":    {prepared(`UPDATE lattice_records SET value = '\x0000000000000063' WHERE bucket = 'meta'`), kv.ErrNewer},
		"other columns":    {prepared("ALTER TABLE lattice_records ADD COLUMN mine int"), kv.ErrDamaged},
	} {
		_, err := store.Open(c.address)
		if !errors.Is(err, c.want) {
			t.Errorf("%s: Open = %v, want %v", name, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), "canary") {
			t.Errorf("%s: the error shows the password: %v", name, err)
		}
	}
	if _, err := store.OpenReadOnly(good); !errors.Is(err, kv.ErrMissing) {
		t.Errorf("OpenReadOnly of an empty schema = %v, want ErrMissing", err)
	}
}

// Check finds rows that the index does not have, an index that is not valid and other columns, with the extension amcheck and without. A
// sound database has no faults.
func TestCheckOfTable(t *testing.T) {
	server := postgrestest.Shared(t)
	for name, c := range map[string]struct{ damage, want string }{
		"sound": {"SELECT 1", ""},
		"row that is in no index": {`UPDATE pg_index SET indisready = false WHERE indexrelid = 'lattice_records_pkey'::regclass;
			INSERT INTO lattice_records VALUES ('entries', '\x00', '\x00');
			UPDATE pg_index SET indisready = true WHERE indexrelid = 'lattice_records_pkey'::regclass`, "rows, of which its index"},
		"other columns":           {`UPDATE pg_attribute SET attcollation = 'ucs_basic'::regcollation WHERE attrelid = 'lattice_records'::regclass AND attname = 'bucket'`, "has the columns"},
		"index that is not valid": {"UPDATE pg_index SET indisvalid = false WHERE indexrelid = 'lattice_records_pkey'::regclass", "is not valid"},
	} {
		t.Run(name, func(t *testing.T) {
			address := postgrestest.NewURL(t)
			s := openWithRun(t, address)
			u, err := url.Parse(address)
			if err != nil {
				t.Fatal(err)
			}
			if err := server.Exec(t.Context(), "SET search_path = "+u.Query().Get("search_path")+"; "+c.damage); err != nil {
				t.Fatal(err)
			}
			for _, extension := range []string{"DROP EXTENSION IF EXISTS amcheck", "CREATE EXTENSION amcheck SCHEMA public"} {
				if err := server.Exec(t.Context(), extension); err != nil {
					t.Fatal(err)
				}
				problems, err := s.Check(t.Context(), nil)
				if err != nil || (len(problems) > 0) != (c.want != "") || len(problems) > 0 && !strings.Contains(problems[0].Message, c.want) {
					t.Errorf("%s: %v, %v, want %q", extension, problems, err, c.want)
				}
			}
		})
	}
}

// Check reports a page that the server cannot read.
func TestCheckOfPages(t *testing.T) {
	server, address := postgrestest.Shared(t), postgrestest.NewURL(t)
	s := openWithRun(t, address)
	ctx := t.Context()
	c, err := pgconn.Connect(ctx, address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close(context.WithoutCancel(ctx))
	got, err := c.Exec(ctx, "CHECKPOINT; SELECT pg_relation_filepath('lattice_records')").ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if err := server.Stop(); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(filepath.Join(server.Dir, "data", string(got[1].Rows[0][0])), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt(bytes.Repeat([]byte{0xff}, 8192), 0)
	if err := errors.Join(err, f.Close(), server.Start()); err != nil {
		t.Fatal(err)
	}
	problems, err := s.Check(ctx, nil)
	if err != nil || len(problems) != 1 || !strings.Contains(problems[0].Message, "invalid page") {
		t.Errorf("Check = %v, %v", problems, err)
	}
}

// openWithRun opens a store, and puts a run into it.
func openWithRun(t *testing.T, address string) *store.Store {
	t.Helper()
	s, err := store.Open(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	create(t, s, "run_a")
	if _, err := s.Append(t.Context(), "run_a", 0, []lattice.Entry{fact("run_a", `{}`)}); err != nil {
		t.Fatal(err)
	}
	return s
}
