package postgres

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/spritekit/lattice/orchestrator/store/kv"
)

// migrations[n] turns layout n of the tables into layout n+1. A migration that was released is never changed.
var migrations = []string{`
	CREATE TABLE lattice_records (
		bucket text COLLATE "C" NOT NULL,
		key    bytea NOT NULL,
		value  bytea NOT NULL,
		PRIMARY KEY (bucket, key)
	);
	ALTER TABLE lattice_records SET (autovacuum_vacuum_scale_factor = 0.02)`, `
	CREATE TABLE lattice_lease (
		one     boolean PRIMARY KEY DEFAULT true CHECK (one),
		epoch   bigint NOT NULL,
		holder  text NOT NULL,
		address text NOT NULL,
		backend int NOT NULL,
		term    bigint NOT NULL,
		renewed timestamptz NOT NULL
	);
	INSERT INTO lattice_lease (epoch, holder, address, backend, term, renewed) VALUES (0, '', '', 0, 0, now())`,
}

// columns is the last layout as the server describes it.
const columns = "bucket text C, key bytea , value bytea ; PRIMARY KEY (bucket, key)"

const (
	readLayout  = "SELECT to_regclass('lattice_layout') IS NOT NULL, current_schema() IS NOT NULL"
	readColumns = `SELECT string_agg(a.attname || ' ' || format_type(a.atttypid, a.atttypmod) || ' ' || CASE c.collname WHEN 'C' THEN 'C' ELSE '' END, ', ' ORDER BY a.attnum) ||
		'; ' || (SELECT pg_get_constraintdef(k.oid) FROM pg_constraint k WHERE k.conrelid = 'lattice_records'::regclass AND k.contype = 'p')
		FROM pg_attribute a LEFT JOIN pg_collation c ON c.oid = a.attcollation WHERE a.attrelid = 'lattice_records'::regclass AND a.attnum > 0 AND NOT a.attisdropped`
)

// migrateTables brings the tables to the last layout, in one transaction, and compares the result with it. It changes nothing if it
// fails, and nothing of a database that is open for reading only. A layout of a newer version is refused.
func migrateTables(c *pgconn.PgConn, readOnly bool) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), turn)
	defer cancel()
	run := func(sql string) []*pgconn.Result {
		if err != nil {
			return nil
		}
		var out []*pgconn.Result
		out, err = c.Exec(ctx, sql).ReadAll()
		return out
	}
	run("BEGIN")
	defer func() {
		if err != nil && !c.IsClosed() {
			_, failed := c.Exec(ctx, "ROLLBACK").ReadAll()
			err = errors.Join(err, failed)
		}
	}()
	have := 0
	if got := run(readLayout); err != nil {
		return err
	} else if string(got[0].Rows[0][1]) != "t" {
		return fmt.Errorf("%w: the search path names none that this user may use", kv.ErrMissing)
	} else if string(got[0].Rows[0][0]) == "t" {
		if got := run("SELECT max(version) FROM lattice_layout"); err == nil {
			have, err = strconv.Atoi(string(got[0].Rows[0][0]))
		}
	}
	switch {
	case err != nil:
		return err
	case have > len(migrations):
		return fmt.Errorf("%w: its tables have layout %d, this version knows up to %d", kv.ErrNewer, have, len(migrations))
	case have < len(migrations) && readOnly:
		return fmt.Errorf("%w: it has no tables of lattice, or older ones", kv.ErrMissing)
	case have == 0:
		run("CREATE TABLE lattice_layout (version int PRIMARY KEY, applied timestamptz NOT NULL DEFAULT now())")
	}
	for n := have; n < len(migrations); n++ {
		run(migrations[n])
		run(fmt.Sprintf("INSERT INTO lattice_layout (version) VALUES (%d)", n+1))
	}
	if got := run(readColumns); err == nil && string(got[0].Rows[0][0]) != columns {
		return fmt.Errorf("%w: lattice_records has the columns %s, not %s", kv.ErrDamaged, got[0].Rows[0][0], columns)
	}
	run("COMMIT")
	return err
}

// classifyError adds the error that callers decide by to one of the server or of the connection.
func classifyError(err error) error {
	var answer *pgconn.PgError
	var known *kv.Failure
	switch {
	case err == nil, errors.As(err, &known), errors.Is(err, kv.ErrClosed), errors.Is(err, context.Canceled):
		return err
	case !errors.As(err, &answer):
		return fmt.Errorf("%w: %w", kv.ErrUnreachable, err)
	}
	var failure *kv.Failure
	switch class := answer.Code[:2]; {
	case class == "28" || answer.Code == "42501": // authorization, privileges
		failure = kv.ErrRefused
	case class == "3D" || class == "3F": // no such database, no such schema
		failure = kv.ErrMissing
	case answer.Code == "53100": // disk full
		failure = kv.ErrFull
	case class == "08" || class == "53" || class == "57" || answer.Code == "25P03": // connection, resources, shutdown, silence
		failure = kv.ErrUnreachable
	default:
		return err
	}
	return fmt.Errorf("%w: %w", failure, err)
}

// Keep copies the records to the table lattice_records_suffix. It replaces an earlier copy. suffix has letters and digits alone.
func (d *DB) Keep(suffix string) error {
	return d.Update(func(tx kv.Tx) error {
		t, table := tx.(*transaction), "lattice_records_"+suffix
		t.ask(query{sql: "DROP TABLE IF EXISTS " + table}, query{sql: "CREATE TABLE " + table + " AS TABLE lattice_records"})
		return nil // Update returns what failed
	})
}
