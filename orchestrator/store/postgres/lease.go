package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/spritekit/lattice/orchestrator/store/kv"
)

// Lease says which process leads a database.
type Lease struct {
	Holder  string // the process
	Address string // the URL at which it serves, "" for none
	Epoch   uint64 // of its leadership; each has a greater one than those before
	Free    bool   // whether another process may lead
}

const (
	readLease  = "SELECT holder, address, epoch::text, (CASE WHEN term = 0 THEN NOT EXISTS (" + findWriter + ") ELSE " + expired + " END)::text FROM lattice_lease"
	takeLease  = "UPDATE lattice_lease SET epoch = epoch + 1, holder = $1::text, address = $2::text, backend = pg_backend_pid(), term = $3::text::bigint, renewed = clock_timestamp() WHERE term = 0 OR " + expired + " RETURNING epoch::text"
	moveLease  = "UPDATE lattice_lease SET backend = pg_backend_pid() WHERE epoch = $1::text::bigint RETURNING epoch::text"
	renewLease = "UPDATE lattice_lease SET renewed = clock_timestamp() WHERE epoch = $1::text::bigint RETURNING epoch::text"
	endLease   = "UPDATE lattice_lease SET term = 0 WHERE epoch = $1::text::bigint"
	readEpoch  = "SELECT epoch::text FROM lattice_lease"
	// endHolder ends the connection of a writer that has not renewed its lease, such as one of a machine that was cut off.
	endHolder = "SELECT pg_terminate_backend(backend)::text FROM lattice_lease WHERE term > 0 AND " + expired + " AND backend IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND (classid, objid) = (1279349844, hashtext(current_schema())::oid))"

	expired = "renewed + term * interval '1 millisecond' < clock_timestamp()"
)

// ReadLease returns the lease of a database. It fails as Open does, with kv.ErrMissing if no process has led it yet.
func ReadLease(ctx context.Context, address string) (l Lease, err error) {
	config, err := parseAddress(address)
	if err != nil {
		return l, err
	}
	return askLease(ctx, config)
}

func askLease(ctx context.Context, config *pgconn.Config) (l Lease, err error) {
	c, err := pgconn.ConnectConfig(ctx, config)
	if err != nil {
		return l, classifyError(err)
	}
	defer c.Close(ctx)
	got, err := sendQueries(ctx, c, []query{{sql: readLease}})
	var answer *pgconn.PgError
	switch {
	case errors.As(err, &answer) && answer.Code == "42P01": // there is no such table
		return l, fmt.Errorf("%w: it has no tables of lattice", kv.ErrMissing)
	case err != nil:
		return l, classifyError(err)
	case len(got[0]) != 1:
		return l, fmt.Errorf("%w: lattice_lease has %d rows, not one", kv.ErrDamaged, len(got[0]))
	}
	row := got[0][0]
	l = Lease{Holder: string(row[0]), Address: string(row[1]), Free: string(row[3]) == "true"}
	l.Epoch, err = strconv.ParseUint(string(row[2]), 10, 64)
	return l, err
}

// takeLead makes the writer's connection the one that may write, for a new epoch.
func (d *DB) takeLead(address string) error {
	begun := time.Now()
	got, err := sendQueries(d.tenure.life, d.writer, []query{{takeLease, [][]byte{[]byte(d.config.RuntimeParams["application_name"]), []byte(address), strconv.AppendInt(nil, d.tenure.term.Milliseconds(), 10)}}})
	if err != nil {
		return classifyError(err)
	}
	if len(got[0]) != 1 {
		l, err := askLease(d.tenure.life, d.config)
		return errors.Join(fmt.Errorf("%w by %s, whose lease has not ended", kv.ErrLocked, l.Holder), err)
	}
	d.tenure.epoch = string(got[0][0][0])
	ctx, end := context.WithCancel(d.tenure.life)
	d.tenure.end = end
	if d.tenure.term > 0 {
		d.tenure.renewer.Go(func() { d.renew(ctx, begun) })
	}
	return nil
}

// keepLead makes another connection the one that may write. It fails if another process has led since.
func (d *DB) keepLead(c *pgconn.PgConn) error {
	if d.tenure.epoch == "" {
		return nil // the lead is about to be taken
	}
	got, err := sendQueries(d.tenure.life, c, []query{{moveLease, [][]byte{[]byte(d.tenure.epoch)}}})
	if err == nil && len(got[0]) == 0 {
		d.tenure.lose()
		return errDeposed
	}
	return classifyError(err)
}

// renew renews the lease until ctx ends. It gives up the lead if it cannot renew the lease for half the term. In the
// other half, this process ends its work before another one may take the lease.
func (d *DB) renew(ctx context.Context, last time.Time) {
	var c *pgconn.PgConn
	defer func() {
		if c != nil {
			d.closeConn(c)
		}
	}()
	pause := d.tenure.term / 5
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
		begun, deadline := time.Now(), last.Add(d.tenure.term/2)
		try, cancel := context.WithDeadline(ctx, deadline)
		held, err := d.renewOnce(try, &c)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && held:
			last, pause = begun, d.tenure.term/5
		case err == nil, !time.Now().Before(deadline):
			d.tenure.lose()
			return
		default:
			pause = d.tenure.term / 50
		}
	}
}

// renewOnce renews the lease over a connection, which it makes if there is none. held tells whether the lease is still that of this process.
func (d *DB) renewOnce(ctx context.Context, c **pgconn.PgConn) (held bool, err error) {
	if *c == nil {
		if *c, err = pgconn.ConnectConfig(ctx, d.config); err != nil {
			return false, err
		}
	}
	got, err := sendQueries(ctx, *c, []query{{renewLease, [][]byte{[]byte(d.tenure.epoch)}}})
	if err != nil {
		d.closeConn(*c)
		*c = nil
		return false, err
	}
	return len(got[0]) == 1, nil
}

// endLead lets another process lead at once.
func (d *DB) endLead() {
	if d.tenure.end != nil {
		d.tenure.end()
		d.tenure.renewer.Wait()
	}
	if d.writer == nil || d.writer.IsClosed() || d.tenure.life.Err() != nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	if d.tenure.epoch != "" {
		_, _ = sendQueries(ctx, d.writer, []query{{endLease, [][]byte{[]byte(d.tenure.epoch)}}}) // else it ends with its term
	}
	// The server notices the end of a connection later than the next process asks.
	_, _ = sendQueries(ctx, d.writer, []query{{sql: "SELECT pg_advisory_unlock_all()"}})
}

// Lost is closed when this process has lost the lead. It must end all that it does within a fifth of the term.
func (d *DB) Lost() <-chan struct{} { return d.tenure.life.Done() }
