// Package postgrestest starts a PostgreSQL server for the tests of a package, as an ordinary user, on a unix socket alone. Start with
// NewURL; TestMain calls Stop at the end.
package postgrestest

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
)

// User is the superuser of the server, and Password its password.
const (
	User     = "keeper"
	Password = "canary-7d21c5"
)

// Server is a running server.
type Server struct {
	Dir     string // of its socket
	program string
	as      *syscall.Credential // nil for the user of this process

	mu   sync.Mutex
	stop func() error // guarded by mu; nil while it is stopped
}

var (
	shared  = sync.OnceValues(New)
	started atomic.Bool
	made    atomic.Int64 // schemas
)

// Installed reports whether this machine has a server.
func Installed() bool { return initdb() != "" }

// Get returns the server of this process, which it starts.
func Get() (*Server, error) {
	started.Store(true)
	return shared()
}

// Shared is Get for a test, which is skipped where there is no server.
func Shared(t testing.TB) *Server {
	t.Helper()
	if !Installed() {
		t.Skip("no PostgreSQL server in /usr/lib/postgresql")
	}
	s, err := Get()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// NewURL returns the URL of an empty schema at the server of this process, with its password.
func NewURL(t testing.TB) string {
	t.Helper()
	address, err := Shared(t).Create(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return address
}

// Create makes an empty schema, and returns its URL.
func (s *Server) Create(ctx context.Context) (string, error) {
	schema := "s" + strconv.FormatInt(made.Add(1), 10)
	return s.URL(schema), s.Exec(ctx, "CREATE SCHEMA "+schema)
}

// Stop ends the server of this process, if it was started, and removes its files.
func Stop() error {
	if !started.Load() {
		return nil
	}
	s, err := shared()
	if err != nil {
		return nil
	}
	return s.Remove()
}

// URL returns the URL of a schema.
func (s *Server) URL(schema string) string {
	u := url.URL{Scheme: "postgres", User: url.UserPassword(User, Password), Path: "/postgres"}
	u.RawQuery = url.Values{"host": {s.Dir}, "search_path": {schema}}.Encode()
	return u.String()
}

// Exec runs statements as the superuser.
func (s *Server) Exec(ctx context.Context, sql string) error {
	c, err := pgconn.Connect(ctx, s.URL("public"))
	if err != nil {
		return err
	}
	_, err = c.Exec(ctx, sql).ReadAll()
	return errors.Join(err, c.Close(ctx))
}

// initdb returns the path of the newest initdb, "" if there is none.
func initdb() string {
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb") // the pattern is good
	if len(found) == 0 {
		return ""
	}
	return found[len(found)-1]
}

// New makes a database that syncs nothing, and starts a server of its own for it. Remove ends it.
func New() (s *Server, err error) {
	dir, err := os.MkdirTemp("/tmp", "lattice-pg-") // short, and an ordinary user can reach it
	if err != nil {
		return nil, err
	}
	s = &Server{Dir: dir, program: filepath.Join(filepath.Dir(initdb()), "postgres")}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.RemoveAll(dir))
		}
	}()
	password := filepath.Join(dir, "password")
	if err := os.WriteFile(password, []byte(Password), 0o600); err != nil {
		return nil, err
	}
	if os.Geteuid() == 0 { // as whom PostgreSQL refuses to run
		u, err := user.Lookup("nobody")
		if err != nil {
			return nil, err
		}
		uid, _ := strconv.Atoi(u.Uid)
		gid, _ := strconv.Atoi(u.Gid)
		if err := errors.Join(os.Chown(dir, uid, gid), os.Chown(password, uid, gid)); err != nil {
			return nil, err
		}
		s.as = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	}
	cmd := exec.Command(initdb(), "-D", filepath.Join(dir, "data"), "-U", User, "-A", "scram-sha-256", "--pwfile="+password, "-E", "UTF8", "--no-locale", "--no-sync")
	cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Credential: s.as}
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	return s, s.Start()
}

// Start starts the server, and waits until it answers.
func (s *Server) Start() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	cmd := exec.Command(s.program, "-D", filepath.Join(s.Dir, "data"), "-c", "listen_addresses=", "-c", "unix_socket_directories="+s.Dir,
		"-c", "fsync=off", "-c", "shared_buffers=16MB", "-c", "max_connections=60")
	cmd.Dir, cmd.SysProcAttr = s.Dir, makeAttributes(s.as)
	begun, ended := make(chan error), make(chan error, 1)
	go func() {
		runtime.LockOSThread() // the server ends with the thread that started it
		err := cmd.Start()
		begun <- err
		if err == nil {
			ended <- cmd.Wait()
		}
	}()
	if err := <-begun; err != nil {
		return err
	}
	s.stop = func() error {
		_ = cmd.Process.Signal(syscall.SIGQUIT) // as a crash
		<-ended                                 // its exit code tells of the signal
		return nil
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		err := s.Exec(context.Background(), "SELECT 1")
		if err == nil || time.Now().After(deadline) {
			return err
		}
	}
}

// Stop ends the server at once, as a crash does. Start starts it again.
func (s *Server) Stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stop == nil {
		return nil
	}
	stop := s.stop
	s.stop = nil
	return stop()
}

// Remove ends the server and removes its files.
func (s *Server) Remove() error { return errors.Join(s.Stop(), os.RemoveAll(s.Dir)) }
