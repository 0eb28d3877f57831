package postgres

import (
	"context"
	"encoding/binary"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/spritekit/lattice/orchestrator/store/kv"
)

// sequences is the bucket that holds the sequence number of each bucket; a bucket exists if it has one.
const sequences = ".sequences"

// channel names the channel of notifications of the table that the search path finds.
const channel = "'lattice_' || 'lattice_records'::regclass::oid"

const (
	writerLock   = "1279349844, hashtext(current_schema())" // two numbers; the first one is LATT
	findWriter   = "SELECT application_name FROM pg_locks JOIN pg_stat_activity USING (pid) WHERE locktype = 'advisory' AND (classid, objid) = (1279349844, hashtext(current_schema())::oid) AND granted AND NOT pid = pg_backend_pid()"
	selectBucket = "SELECT key, value FROM lattice_records WHERE bucket = $1::text"
	selectValue  = "SELECT value FROM lattice_records WHERE bucket = $1::text AND key = $2::bytea"
	selectAll    = "SELECT r.bucket, r.key, r.value FROM unnest($1::text[], $2::bytea[]) AS k (bucket, key) JOIN lattice_records r ON r.bucket = k.bucket AND r.key = k.key"
	upsertAll    = "INSERT INTO lattice_records (bucket, key, value) SELECT * FROM unnest($1::text[], $2::bytea[], $3::bytea[]) ON CONFLICT (bucket, key) DO UPDATE SET value = EXCLUDED.value"
	deleteAll    = "DELETE FROM lattice_records r USING unnest($1::text[], $2::bytea[]) AS k (bucket, key) WHERE r.bucket = k.bucket AND r.key = k.key"
)

// Writes that are collected are sent when there are this many, or their values have this many bytes.
const (
	maxCollected = 4096
	maxBytes     = 8 << 20
)

// query is a statement. All its parameters are texts or bytes.
type query struct {
	sql  string
	args [][]byte
}

type row = [][]byte

// place is the place of a value.
type place struct{ bucket, key string }

// transaction is a kv.Tx. failed is the reason why it cannot go on; everything after it finds nothing.
type transaction struct {
	db      *DB
	conn    *pgconn.PgConn
	first   []query                        // are sent with the first request
	replace func() (*pgconn.PgConn, error) // makes another connection if the first request finds a broken one
	begun   bool
	failed  error

	ahead map[place][]byte // values that were read ahead, nil for a key that is not there

	writes    bool
	number    string            // of the transaction, of those that write
	sequences map[string]uint64 // of those that write: of all buckets
	changed   map[string]bool   // buckets with a new sequence number
	known     map[place][]byte  // values as written, nil for a deleted key
	unsent    []place           // keys of known that the server has not got
	size      int               // of the values of known
}

// ask sends statements in one request and returns the rows of each; none if the transaction has failed.
func (t *transaction) ask(queries ...query) [][]row {
	none := make([][]row, len(queries))
	if t.failed != nil {
		return none
	}
	all := append(t.first[:len(t.first):len(t.first)], queries...)
	got, err := sendQueries(t.db.tenure.life, t.conn, all)
	if err != nil && !t.begun && t.replace != nil && t.conn.IsClosed() { // it broke while it was not used
		if c, failed := t.replace(); failed == nil {
			t.conn = c
			got, err = sendQueries(t.db.tenure.life, t.conn, all)
		}
	}
	if err != nil {
		t.failed = err
		return none
	}
	got = got[len(t.first):]
	t.begun, t.first = true, nil
	return got
}

func sendQueries(ctx context.Context, c *pgconn.PgConn, queries []query) ([][]row, error) {
	ctx, cancel := context.WithTimeout(ctx, turn)
	defer cancel()
	var b pgconn.Batch
	for _, q := range queries {
		b.ExecParams(q.sql, q.args, nil, []int16{1}[:min(1, len(q.args))], []int16{1})
	}
	results, err := c.ExecBatch(ctx, &b).ReadAll()
	if err != nil {
		return nil, err
	}
	out := make([][]row, len(queries))
	for i, r := range results {
		out[i] = r.Rows
	}
	if tag := results[len(results)-1].CommandTag.String(); queries[len(queries)-1].sql == "COMMIT" && tag != "COMMIT" {
		return nil, fmt.Errorf("the server answered %s to COMMIT", tag)
	}
	return out, nil
}

// Bucket returns a bucket, nil if there is none.
func (t *transaction) Bucket(name []byte) kv.Bucket {
	_, made := t.sequences[string(name)]
	if !made && (t.writes || !t.db.hasBucket(string(name))) {
		return nil
	}
	return bucket{t, string(name)}
}

// Create returns a bucket, and makes it if there is none.
func (t *transaction) Create(name []byte) (kv.Bucket, error) {
	if _, made := t.sequences[string(name)]; !made {
		t.setSequence(string(name), 0)
	}
	return bucket{t, string(name)}, nil
}

func (t *transaction) setSequence(name string, n uint64) {
	t.sequences[name] = n
	if t.changed == nil {
		t.changed = map[string]bool{}
	}
	t.changed[name] = true
}

// Fetch reads values ahead. A transaction that only reads forgets those of an earlier Fetch.
func (t *transaction) Fetch(keys ...kv.Key) {
	if len(keys) < 2 && !t.writes {
		return
	}
	if t.ahead == nil || !t.writes {
		t.ahead = make(map[place][]byte, len(keys))
	}
	var names, wanted [][]byte
	for _, k := range keys {
		at := place{string(k.Bucket), string(k.Key)}
		if _, read := t.ahead[at]; !read {
			t.ahead[at] = nil
			names, wanted = append(names, k.Bucket), append(wanted, k.Key)
		}
	}
	if len(wanted) == 0 {
		return
	}
	for _, r := range t.ask(query{selectAll, [][]byte{encodeArray(text, names), encodeArray(bytea, wanted)}})[0] {
		t.ahead[place{string(r[0]), string(r[1])}] = r[2]
	}
}

// collect notes a write; value is nil for a deletion.
func (t *transaction) collect(at place, value []byte) error {
	if t.known == nil {
		t.known = map[place][]byte{}
	}
	t.known[at] = value
	t.unsent = append(t.unsent, at)
	if t.size += len(value); len(t.known) >= maxCollected || t.size >= maxBytes {
		t.sendWrites()
		t.known, t.ahead, t.size = nil, nil, 0
	}
	return t.failed
}

// sendWrites sends the collected writes.
func (t *transaction) sendWrites() {
	if queries := t.takeWrites(); len(queries) > 0 {
		t.ask(queries...)
	}
}

// takeWrites returns the statements that make the collected writes.
func (t *transaction) takeWrites() (queries []query) {
	var put, deleted [3][][]byte
	sent := make(map[place]bool, len(t.unsent))
	for _, at := range t.unsent {
		if sent[at] {
			continue
		}
		sent[at] = true
		if value := t.known[at]; value != nil {
			put = [3][][]byte{append(put[0], []byte(at.bucket)), append(put[1], []byte(at.key)), append(put[2], value)}
		} else {
			deleted = [3][][]byte{append(deleted[0], []byte(at.bucket)), append(deleted[1], []byte(at.key))}
		}
	}
	t.unsent = nil
	if len(deleted[0]) > 0 {
		queries = append(queries, query{deleteAll, [][]byte{encodeArray(text, deleted[0]), encodeArray(bytea, deleted[1])}})
	}
	if len(put[0]) > 0 {
		queries = append(queries, query{upsertAll, [][]byte{encodeArray(text, put[0]), encodeArray(bytea, put[1]), encodeArray(bytea, put[2])}})
	}
	return queries
}

// commit sends the collected writes, a notification and the commit in one request.
func (t *transaction) commit() error {
	for name := range t.changed {
		if err := t.collect(place{sequences, name}, binary.BigEndian.AppendUint64(nil, t.sequences[name])); err != nil {
			return err
		}
	}
	t.ask(append(t.takeWrites(), query{sql: "SELECT pg_notify(" + channel + ", '')"}, query{sql: "COMMIT"})...)
	return t.failed
}

// bucket is a kv.Bucket.
type bucket struct {
	t    *transaction
	name string
}

func (b bucket) Get(key []byte) []byte {
	at := place{b.name, string(key)}
	if value, written := b.t.known[at]; written {
		return value
	}
	if value, read := b.t.ahead[at]; read {
		return value
	}
	rows := b.t.ask(query{selectValue, [][]byte{[]byte(b.name), key}})[0]
	var value []byte
	if len(rows) == 1 {
		value = rows[0][0]
	}
	if b.t.writes && b.t.failed == nil {
		if b.t.ahead == nil {
			b.t.ahead = map[place][]byte{}
		}
		b.t.ahead[at] = value
	}
	return value
}

func (b bucket) Has(key []byte) bool { return b.Get(key) != nil }

func (b bucket) Put(key, value []byte) error {
	if value == nil {
		value = []byte{}
	}
	return b.t.collect(place{b.name, string(key)}, value)
}

func (b bucket) Delete(key []byte) error { return b.t.collect(place{b.name, string(key)}, nil) }

func (b bucket) Sequence() uint64 {
	if b.t.writes {
		return b.t.sequences[b.name]
	}
	return decodeNumber(bucket{b.t, sequences}.Get([]byte(b.name)))
}

func (b bucket) NextSequence() (uint64, error) {
	n := b.t.sequences[b.name] + 1
	b.t.setSequence(b.name, n)
	return n, b.t.failed
}

func (b bucket) SetSequence(n uint64) error {
	b.t.setSequence(b.name, n)
	return b.t.failed
}

func (b bucket) Cursor() kv.Cursor { return &cursor{b: b} }

// cursor reads rows a page at a time, which grows while it goes on in one direction.
type cursor struct {
	b       bucket
	at      []byte // the key at which it stands, nil for none
	page    []row  // rows behind it, in its direction
	forward bool
	ended   bool // there are no rows behind the page
	size    int  // of the next page
}

const (
	smallPage = 16
	largePage = 512
)

func (c *cursor) First() (key, value []byte) { return c.jumpTo(true, "", nil) }
func (c *cursor) Last() (key, value []byte)  { return c.jumpTo(false, "", nil) }

func (c *cursor) Seek(key []byte) (found, value []byte) {
	return c.jumpTo(true, " AND key >= $2::bytea", key)
}
func (c *cursor) Next() (key, value []byte) { return c.step(true, " AND key > $2::bytea") }
func (c *cursor) Prev() (key, value []byte) { return c.step(false, " AND key < $2::bytea") }

// jumpTo moves to the first row in a direction that a condition on its key lets through.
func (c *cursor) jumpTo(forward bool, condition string, key []byte) (found, value []byte) {
	c.forward, c.page, c.ended, c.size = forward, nil, false, smallPage
	c.readPage(condition, key)
	return c.takeRow()
}

// step moves to the next row in a direction.
func (c *cursor) step(forward bool, condition string) (key, value []byte) {
	if c.at == nil {
		return nil, nil
	}
	if c.forward != forward {
		c.forward, c.page, c.ended, c.size = forward, nil, false, smallPage
	}
	if len(c.page) == 0 && !c.ended {
		c.readPage(condition, c.at)
	}
	return c.takeRow()
}

func (c *cursor) readPage(condition string, key []byte) {
	if c.b.t.writes {
		c.b.t.sendWrites()
	}
	order := ""
	if !c.forward {
		order = " DESC"
	}
	q := query{selectBucket + condition + " ORDER BY key" + order + " LIMIT " + strconv.Itoa(c.size), [][]byte{[]byte(c.b.name)}}
	if condition != "" {
		q.args = append(q.args, key)
	}
	c.page = c.b.t.ask(q)[0]
	c.ended = len(c.page) < c.size
	c.size = min(4*c.size, largePage)
}

func (c *cursor) takeRow() (key, value []byte) {
	if len(c.page) == 0 {
		return nil, nil
	}
	c.at, value = c.page[0][0], c.page[0][1]
	c.page = c.page[1:]
	return c.at, value
}

// The numbers of types in arrays.
const (
	bytea = 17
	text  = 25
)

// encodeArray encodes an array of one dimension in the binary format.
func encodeArray(kind uint32, values [][]byte) []byte {
	out := make([]byte, 0, 20+32*len(values))
	for _, n := range []uint32{1, 0, kind, uint32(len(values)), 1} { // dimensions, no nulls, type, length, first index
		out = binary.BigEndian.AppendUint32(out, n)
	}
	for _, v := range values {
		out = append(binary.BigEndian.AppendUint32(out, uint32(len(v))), v...)
	}
	return out
}

// decodeNumber decodes a sequence number, 0 from none.
func decodeNumber(raw []byte) uint64 {
	if len(raw) != 8 {
		return 0
	}
	return binary.BigEndian.Uint64(raw)
}
