package postgres

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/spritekit/lattice/orchestrator/store/kv"
)

const (
	findIndex = "SELECT i.indexrelid::regclass::text, (i.indisvalid AND i.indisready AND i.indislive)::text FROM pg_index i WHERE i.indrelid = 'lattice_records'::regclass AND i.indisprimary"
	// sumKeys counts the rows, sums up hashes of their keys, and counts the keys that do not stand behind the one before.
	sumKeys = `SELECT count(*)::text, coalesce(sum(hashtextextended(bucket || ' ' || encode(key, 'hex'), 0)::numeric), 0)::text,
		(count(*) FILTER (WHERE (bucket, key) <= (before, earlier)))::text
		FROM (SELECT bucket, key, lag(bucket) OVER w AS before, lag(key) OVER w AS earlier FROM lattice_records WINDOW w AS (ORDER BY bucket, key)) AS r`
	findChecker = `SELECT quote_ident(n.nspname) FROM pg_extension e JOIN pg_depend d ON d.refobjid = e.oid AND d.deptype = 'e' JOIN pg_proc p ON p.oid = d.objid
		JOIN pg_namespace n ON n.oid = p.pronamespace
		WHERE e.extname = 'amcheck' AND p.proname = 'bt_index_check' AND p.pronargs = 2 AND has_function_privilege(p.oid, 'EXECUTE')`
)

// Check reports damage of the table and its index: other columns, an index that is not valid, rows that the table has and the index
// does not or the other way round, and keys out of order. It reads the keys of both. Where the extension amcheck is
// installed and the user may call it, it also looks at each page of the index.
func (d *DB) Check(_ func(done, of uint64), report func(format string, args ...any)) error {
	err := d.View(func(tx kv.Tx) error {
		tx.(*transaction).checkTable(report)
		return nil
	})
	var answer *pgconn.PgError
	if errors.As(err, &answer) && strings.HasPrefix(answer.Code, "XX") { // the server's class for damaged pages
		report("the server cannot read the table: %s", answer.Message)
		return nil
	}
	return err
}

func (t *transaction) checkTable(report func(format string, args ...any)) {
	got := t.ask(query{sql: readColumns}, query{sql: findIndex}, query{sql: findChecker})
	if t.failed != nil {
		return
	}
	if have := string(got[0][0][0]); have != columns {
		report("lattice_records has the columns %s, not %s", have, columns)
		return
	}
	index := string(got[1][0][0]) // the columns have named a primary key
	if string(got[1][0][1]) != "true" {
		report("the index %s is not valid: REINDEX INDEX %s makes it again", index, index)
		return
	}
	table := t.ask(query{sql: "SET LOCAL enable_indexscan = off"}, query{sql: "SET LOCAL enable_indexonlyscan = off"}, query{sql: "SET LOCAL enable_bitmapscan = off"}, query{sql: sumKeys})[3]
	keys := t.ask(query{sql: "SET LOCAL enable_indexscan = on"}, query{sql: "SET LOCAL enable_indexonlyscan = on"}, query{sql: "SET LOCAL enable_seqscan = off"},
		query{sql: "SET LOCAL enable_sort = off"}, query{sql: sumKeys})[4]
	switch {
	case t.failed != nil:
		return
	case string(table[0][2]) != "0":
		report("%s keys of lattice_records are there twice", table[0][2])
	case string(table[0][0]) != string(keys[0][0]) || string(table[0][1]) != string(keys[0][1]):
		report("lattice_records has %s rows, of which its index %s finds %s: REINDEX INDEX %s makes the index again", table[0][0], index, keys[0][0], index)
	case string(keys[0][2]) != "0":
		report("%s keys of the index %s are out of order: REINDEX INDEX %s makes the index again", keys[0][2], index, index)
	}
	if len(got[2]) == 1 {
		t.ask(query{"SELECT " + string(got[2][0][0]) + ".bt_index_check($1::text::regclass, true)::text", [][]byte{[]byte(index)}})
	}
}
