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
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/spritekit/lattice/orchestrator/store/kv"
)

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

// opened counts the databases that this process has opened.
var opened atomic.Int64

// Open opens the database at a URL, and makes its tables unless it is opened for reading only. Values that the URL leaves out come from
// the environment and the files that psql reads. It fails with kv.ErrLocked if another
// process has it open for writing, and with kv.ErrUnreachable, kv.ErrRefused, kv.ErrMissing or kv.ErrNewer.
func Open(address string, o Options) (*DB, error) {
	config, err := parseAddress(address)
	if err != nil {
		return nil, err
	}
	d := &DB{config: config, name: nameDatabase(config), readOnly: o.ReadOnly, buckets: map[string]bool{}, tenure: tenure{term: o.Term}}
	d.tenure.life, d.tenure.lose = context.WithCancel(context.Background())
	if err := d.openTables(o); err != nil {
		return nil, errors.Join(fmt.Errorf("open store %s: %w", d.name, err), d.Close())
	}
	return d, nil
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

func (d *DB) openTables(o Options) error {
	c, err := pgconn.ConnectConfig(context.Background(), d.config)
	if err != nil {
		return classifyError(err)
	}
	if o.ReadOnly {
		defer d.releaseReader(c)
	} else {
		d.writer = c
		if err := d.awaitLock(c); err != nil {
			return err
		}
	}
	if err := migrateTables(c, o.ReadOnly); err != nil {
		return classifyError(err)
	}
	if !o.ReadOnly {
		if err := d.takeLead(o.Address); err != nil {
			return err
		}
	}
	if err := d.View(d.learnBuckets); err != nil {
		return err
	}
	return o.Prepare(d)
}

// errOurs means that the server holds the lock for a connection of this process that has broken.
var errOurs = fmt.Errorf("%w: a connection of this process that has ended holds the lock", kv.ErrUnreachable)

// awaitLock is lockWriter for a lock that may be about to be released. It ends the connection of a writer whose lease has ended.
func (d *DB) awaitLock(c *pgconn.PgConn) error {
	err := d.lockWriter(c)
	if errors.Is(err, kv.ErrLocked) {
		_, _ = sendQueries(d.tenure.life, c, []query{{sql: endHolder}}) // before the first layout there are no leases
	}
	for deadline := time.Now().Add(lockPatience); errors.Is(err, kv.ErrLocked) && time.Now().Before(deadline); err = d.lockWriter(c) {
		time.Sleep(20 * time.Millisecond)
	}
	return err
}

// lockWriter makes a connection the one that may write. It fails with kv.ErrLocked, and names the process that has the lock.
func (d *DB) lockWriter(c *pgconn.PgConn) error {
	got, err := sendQueries(d.tenure.life, c, []query{{sql: "SELECT pg_try_advisory_lock(" + writerLock + ")::text"}})
	if err != nil {
		return classifyError(err)
	}
	switch answer := got[0][0][0]; {
	case answer == nil:
		return fmt.Errorf("%w: the search path names none that this user may use", kv.ErrMissing)
	case string(answer) == "true":
		return nil
	}
	holder := "another process"
	if got, err = sendQueries(d.tenure.life, c, []query{{sql: findWriter}}); err == nil && len(got[0]) == 1 {
		holder = string(got[0][0][0])
	}
	if holder == d.config.RuntimeParams["application_name"] {
		return errOurs
	}
	return fmt.Errorf("%w by %s: end it there, or use that lattice", kv.ErrLocked, holder)
}

// nameDatabase returns the URL of a database without its password and without parameters other than the schema.
func nameDatabase(c *pgconn.Config) string {
	u := url.URL{Scheme: "postgres", Host: c.Host, Path: "/" + c.Database}
	if c.Port != 0 && c.Port != 5432 {
		u.Host += ":" + strconv.Itoa(int(c.Port))
	}
	if c.User != "" {
		u.User = url.User(c.User)
	}
	q := url.Values{}
	if strings.HasPrefix(c.Host, "/") {
		u.Host = ""
		q.Set("host", c.Host)
	}
	if path := c.RuntimeParams["search_path"]; path != "" {
		q.Set("search_path", path)
	}
	if u.RawQuery = strings.ReplaceAll(q.Encode(), "%2F", "/"); u.Host == "" && u.User == nil {
		return "postgres://" + u.Path + "?" + u.RawQuery
	}
	return u.String()
}

// Name returns the URL of the database without its password.
func (d *DB) Name() string { return d.name }

// ReadOnly reports whether the database is open for reading only.
func (d *DB) ReadOnly() bool { return d.readOnly }

// Size returns how many bytes the table and its index take.
func (d *DB) Size() (n int64, err error) {
	err = d.View(func(tx kv.Tx) error {
		if rows := tx.(*transaction).ask(query{sql: "SELECT pg_total_relation_size('lattice_records')::text"})[0]; len(rows) == 1 {
			n, err = strconv.ParseInt(string(rows[0][0]), 10, 64)
		}
		return err
	})
	return n, err
}

// Compact rewrites the table without the space of former values. Readers wait.
func (d *DB) Compact(ctx context.Context) error {
	c, _, err := d.acquireReader()
	if err != nil {
		return err
	}
	defer d.releaseReader(c)
	_, err = c.Exec(ctx, "VACUUM (FULL, ANALYZE) lattice_records").ReadAll()
	return classifyError(err)
}

// Reopen gives up the connection of the writer; the next Update makes another.
func (d *DB) Reopen() error {
	if d.writer != nil {
		d.closeConn(d.writer)
		d.writer = nil
	}
	return nil
}

// Close closes all connections. Later transactions fail with kv.ErrClosed.
func (d *DB) Close() error {
	d.mu.Lock()
	idle, watch := d.idle, d.watch
	d.closed, d.idle, d.watch = true, nil, nil
	d.mu.Unlock()
	if watch != nil {
		watch()
	}
	for _, c := range idle {
		d.closeConn(c)
	}
	d.endLead()
	return d.Reopen()
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

// acquireReader returns a connection for reading. used tells one that may have broken since.
func (d *DB) acquireReader() (c *pgconn.PgConn, used bool, err error) {
	d.mu.Lock()
	if d.closed {
		d.mu.Unlock()
		return nil, false, kv.ErrClosed
	}
	if n := len(d.idle); n > 0 {
		c = d.idle[n-1]
		d.idle = d.idle[:n-1]
	}
	d.mu.Unlock()
	if c != nil {
		return c, true, nil
	}
	c, err = d.connect(d.tenure.life)
	return c, false, err
}

// releaseReader keeps a connection that is outside of any transaction.
func (d *DB) releaseReader(c *pgconn.PgConn) {
	d.mu.Lock()
	keep := !d.closed && len(d.idle) < maxIdle && !c.IsClosed() && c.TxStatus() == 'I'
	if keep {
		d.idle = append(d.idle, c)
	}
	d.mu.Unlock()
	if !keep {
		d.closeConn(c)
	}
}

func (d *DB) closeConn(c *pgconn.PgConn) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	_ = c.Close(ctx) // the server notices the end of the connection as well
}

// View runs a transaction that reads.
func (d *DB) View(read func(kv.Tx) error) error {
	c, used, err := d.acquireReader()
	if err != nil {
		return err
	}
	t := &transaction{db: d, conn: c, first: []query{{sql: "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"}}}
	if used {
		t.replace = func() (*pgconn.PgConn, error) { return d.connect(d.tenure.life) }
	}
	err = read(t)
	if t.failed == nil && t.begun {
		t.ask(query{sql: "COMMIT"})
	}
	if t.failed != nil {
		d.closeConn(t.conn)
		return d.explain(t.failed)
	}
	d.releaseReader(t.conn)
	return err
}

// Update runs a transaction that writes. Only one goroutine may call it and Reopen.
func (d *DB) Update(write func(kv.Tx) error) error {
	if d.readOnly {
		return kv.ErrReadOnly
	}
	t, err := d.beginUpdate()
	if err != nil {
		return err
	}
	if err := write(t); err != nil || t.failed != nil {
		if t.failed == nil {
			t.ask(query{sql: "ROLLBACK"})
		}
		if t.failed != nil {
			return errors.Join(d.explain(t.failed), d.Reopen())
		}
		return err
	}
	if err := t.commit(); err != nil {
		err = errors.Join(err, d.Reopen())
		if stored, known := d.wasCommitted(t.number); !known {
			return classifyError(err)
		} else if !stored {
			return fmt.Errorf("nothing was stored: %w", d.explain(err))
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for name := range t.sequences {
		d.buckets[name] = true
	}
	return nil
}

// beginUpdate begins a transaction. It waits for a server that restarts, and for the server to notice that a former connection of this
// process broke: nothing was written.
func (d *DB) beginUpdate() (*transaction, error) {
	for deadline := time.Now().Add(2 * patience); ; time.Sleep(50 * time.Millisecond) {
		t, err := d.tryUpdate()
		if err == nil {
			return t, nil
		}
		err = errors.Join(err, d.Reopen())
		if !errors.Is(err, kv.ErrUnreachable) || time.Now().After(deadline) {
			return nil, err
		}
	}
}

func (d *DB) tryUpdate() (t *transaction, err error) {
	if d.tenure.life.Err() != nil {
		return nil, errDeposed
	}
	if d.writer == nil {
		if d.writer, err = d.connect(d.tenure.life); err != nil {
			return nil, err
		}
		if err := d.awaitLock(d.writer); err != nil {
			return nil, err
		}
		if err := d.keepLead(d.writer); err != nil {
			return nil, err
		}
	}
	t = &transaction{db: d, conn: d.writer, writes: true, sequences: map[string]uint64{}}
	got := t.ask(query{sql: "BEGIN"}, query{sql: "SELECT pg_current_xact_id()::text"}, query{sql: selectBucket, args: [][]byte{[]byte(sequences)}}, query{sql: readEpoch})
	if t.failed != nil {
		return nil, d.explain(t.failed)
	}
	if epoch := d.tenure.epoch; len(got[3]) != 1 || epoch != "" && epoch != string(got[3][0][0]) {
		d.tenure.lose()
		return nil, errDeposed
	}
	t.number = string(got[1][0][0])
	for _, row := range got[2] {
		t.sequences[string(row[0])] = decodeNumber(row[1])
	}
	return t, nil
}

// wasCommitted returns the outcome of a transaction whose connection broke during the commit.
func (d *DB) wasCommitted(number string) (stored, known bool) {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		var status string
		err := d.View(func(tx kv.Tx) error {
			if rows := tx.(*transaction).ask(query{sql: "SELECT pg_xact_status($1::text::xid8)", args: [][]byte{[]byte(number)}})[0]; len(rows) == 1 {
				status = string(rows[0][0])
			}
			return nil
		})
		if err != nil {
			return false, false
		}
		if status != "in progress" { // the server has not yet noticed the end of the connection
			return status == "committed", status == "committed" || status == "aborted"
		}
	}
	return false, false
}

// learnBuckets reads which buckets there are.
func (d *DB) learnBuckets(tx kv.Tx) error {
	rows := tx.(*transaction).ask(query{sql: selectBucket, args: [][]byte{[]byte(sequences)}})
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, row := range rows[0] {
		d.buckets[string(row[0])] = true
	}
	return nil
}

func (d *DB) hasBucket(name string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.buckets[name]
}

// Watch calls changed after each commit, of this process or another, until Close. It may call it more often.
func (d *DB) Watch(changed func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	d.mu.Lock()
	d.watch = func() {
		cancel()
		<-ended
	}
	d.mu.Unlock()
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			d.awaitChanges(ctx, changed)
		}
	}()
}

// awaitChanges waits for notifications until the connection breaks or ctx ends.
func (d *DB) awaitChanges(ctx context.Context, changed func()) {
	c, err := d.connect(ctx)
	if err != nil {
		select { // the server stays away, or refuses
		case <-time.After(time.Second):
		case <-ctx.Done():
		}
		return
	}
	defer d.closeConn(c)
	name, err := c.Exec(ctx, "SELECT "+channel).ReadAll()
	if err != nil || len(name[0].Rows) != 1 {
		return
	}
	if _, err := c.Exec(ctx, "LISTEN "+string(name[0].Rows[0][0])).ReadAll(); err != nil {
		return
	}
	for changed(); c.WaitForNotification(ctx) == nil; { // the first time for those that were missed
		changed()
	}
}
