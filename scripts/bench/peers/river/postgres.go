package river

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/jackc/pgx/v5"

	"github.com/spritekit/lattice/scripts/bench/peers/peer"
)

type postgres struct {
	*peer.Server
	address, version string
}

// startPostgres makes a database below dir, as it is by default, that is reached by a socket there alone.
func startPostgres(ctx context.Context, dir string) (*postgres, error) {
	// Where distributions put what is not for everyday use, the newest last. The pattern is good.
	initdbs, _ := filepath.Glob("/usr/lib/postgresql/*/bin/initdb")
	if len(initdbs) == 0 {
		return nil, errors.New("no PostgreSQL server in /usr/lib/postgresql: apt-get install postgresql")
	}
	initdb := initdbs[len(initdbs)-1]
	as, err := ordinary()
	if err != nil {
		return nil, err
	}
	if as != nil {
		if err := os.Chown(dir, int(as.Uid), int(as.Gid)); err != nil {
			return nil, err
		}
	}
	data := filepath.Join(dir, "data")
	cmd := exec.CommandContext(ctx, initdb, "-D", data, "-U", "bench", "-A", "trust", "-E", "UTF8", "--no-locale")
	cmd.Dir, cmd.SysProcAttr = dir, &syscall.SysProcAttr{Credential: as}
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w: %s", err, out)
	}
	program := filepath.Join(filepath.Dir(initdb), "postgres")
	version, err := exec.CommandContext(ctx, program, "--version").Output()
	if err != nil {
		return nil, err
	}
	s, err := peer.Start(dir, as, nil, program, "-D", data, "-c", "listen_addresses=", "-c", "unix_socket_directories="+dir)
	if err != nil {
		return nil, err
	}
	p := &postgres{s, "host=" + dir + " user=bench dbname=postgres", strings.TrimSpace(string(version))}
	err = s.Await(ctx, func(ctx context.Context) error {
		conn, err := pgx.Connect(ctx, p.address)
		if err == nil {
			err = conn.Close(ctx)
		}
		return err
	})
	if err != nil {
		return nil, errors.Join(err, p.stop())
	}
	return p, nil
}

func (p *postgres) stop() error { return p.Stop(syscall.SIGINT) } // without waiting for its clients

// ordinary is a user for PostgreSQL, which refuses to run as root; nil is ourselves.
func ordinary() (*syscall.Credential, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	u, err := user.Lookup("nobody")
	if err != nil {
		return nil, err
	}
	uid, err := strconv.ParseUint(u.Uid, 10, 32)
	if err != nil {
		return nil, err
	}
	gid, err := strconv.ParseUint(u.Gid, 10, 32)
	return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, err
}
