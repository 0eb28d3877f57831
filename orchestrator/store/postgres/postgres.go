package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/spritekit/lattice/orchestrator/store/kv"
)

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
