// Package postgres is the driver of the store for a PostgreSQL database. Start with Open.
//
// All records are rows of one table: bucket, key, value. Thereby the logic of the store exists once, and a store can be copied from
// and to a file. Four decisions follow from the network between the process and the records:
//
//   - One process at a time writes, as with a file: its connection holds an advisory lock. All writes go through that connection, so a
//     process that was cut off cannot write after another has taken over. Any number of processes read.
//   - A commit takes two requests, for any number of callers that share it: the first one begins and reads the rows that the callers
//     announce (Fetch); writes are collected, and the second one sends them with the commit.
//   - If the connection breaks during a commit, its outcome is read from the server by the number of the transaction. A caller is
//     thus told that entries are stored or that they are not.
//   - A transaction that reads sees one moment (REPEATABLE READ). Each commit sends a notification, which wakes those who follow the
//     log in other processes.
//
// The layout of the table has a version of its own, see migrate.go; the buckets are the store's.
package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/spritekit/lattice/orchestrator/store/kv"
)

// Options of Open.
type Options struct {
	ReadOnly bool
	// Address is the URL at which this process serves, "" for none; the lease names it.
	Address string
	// Term is for how long the lead lasts after the last sign of life. 0: as long as the connection.
	Term time.Duration
	// Prepare is called before anything else uses the database. An error closes it.
	Prepare func(kv.Session) error
}

// DB is an open database (kv.DB).
type DB struct {
	config   *pgconn.Config
	name     string
	readOnly bool
	tenure   tenure
	writer   *pgconn.PgConn // holds the lock; of the goroutine that calls Update, nil after a failure

	mu      sync.Mutex
	closed  bool             // guarded by mu, as below
	idle    []*pgconn.PgConn // for reading
	buckets map[string]bool  // those that were made; none is ever removed
	watch   func()           // ends the watcher
}

// parseAddress returns how a server is reached.
func parseAddress(address string) (*pgconn.Config, error) {
	if !strings.HasPrefix(address, "postgres://") && !strings.HasPrefix(address, "postgresql://") {
		return nil, fmt.Errorf("%w: it does not begin with postgres://", kv.ErrAddress)
	}
	config, err := pgconn.ParseConfig(address)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", kv.ErrAddress, err) // without the password
	}
	host, _ := os.Hostname() // is only shown
	config.RuntimeParams["application_name"] = fmt.Sprintf("lattice %d.%d on %s", os.Getpid(), opened.Add(1), host)
	if !strings.HasPrefix(config.Host, "/") { // the server notices within half a minute that a machine is gone
		config.RuntimeParams["tcp_keepalives_idle"], config.RuntimeParams["tcp_keepalives_interval"], config.RuntimeParams["tcp_keepalives_count"] = "10", "5", "3"
	}
	config.RuntimeParams["idle_in_transaction_session_timeout"] = strconv.FormatInt(silence.Milliseconds(), 10)
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = 5 * time.Second
	}
	return config, nil
}

// connect makes a connection. It waits for a server that does not answer, such as one that restarts.
func (d *DB) connect(ctx context.Context) (*pgconn.PgConn, error) {
	deadline := time.Now().Add(patience)
	for pause := 50 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		c, err := pgconn.ConnectConfig(ctx, d.config)
		if err == nil {
			return c, nil
		}
		err = d.explain(err)
		if !errors.Is(err, kv.ErrUnreachable) || time.Now().After(deadline) {
			return nil, err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-d.tenure.life.Done():
			return nil, errDeposed
		}
	}
}

func (d *DB) closeConn(c *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.Close(ctx) // the server notices the end of the connection as well
}

func (d *DB) hasBucket(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.buckets[name]
}

// tenure is the time for which a process may write. A term of 0 lasts as long as its connection.
type tenure struct {
	term  time.Duration
	epoch string // "" before it is taken

	life    context.Context // ends when it is lost
	lose    context.CancelFunc
	renewer sync.WaitGroup
	end     context.CancelFunc // of the renewer
}

const (
	// patience is how long a server may stay away, such as one that restarts, before a transaction fails.
	patience = 15 * time.Second
	// lockPatience is how long the lock of a process that has just been killed may last.
	lockPatience = 500 * time.Millisecond
	// silence is after which time the server ends a transaction whose process does not speak.
	silence = 30 * time.Second
	// turn bounds one request.
	turn = 2 * time.Minute
	// maxIdle bounds the connections that are kept for reading.
	maxIdle = 4
)

// opened counts the databases that this process has opened.
var opened atomic.Int64

// errDeposed means that another process may lead now.
var errDeposed = fmt.Errorf("%w: this process led, but did not renew its lease in time", kv.ErrLocked)

// explain is classifyError, for errors that may come from the loss of the lead.
func (d *DB) explain(err error) error {
	if err != nil && d.tenure.life.Err() != nil {
		return errDeposed
	}
	return classifyError(err)
}
