package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"sync"
	"time"

	"go.etcd.io/bbolt"

	"github.com/spritekit/lattice/orchestrator/boltfile"
)

// bucketLedger holds records of the control plane, which do not belong to a run.
//
//	key    name of the ledger, 0, sequence number u64
//	value  sealed JSON of a Record
var bucketLedger = []byte("ledger")

// Record is an entry of a ledger: an append-only log apart from the runs, such as the audit log. Each record is bound to those
// before it by Chain, so that none can be changed or removed unnoticed, except the last ones together.
type Record struct {
	Seq  uint64          `json:"seq"` // from 1, without gaps
	At   time.Time       `json:"at"`
	Body json.RawMessage `json:"body"`
	// Chain is the hex SHA-256 of the chain before and of this record's other fields.
	Chain string `json:"chain"`
}

var ledgerName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`) })

// chainHash returns the chain of r behind a record with the chain before.
func (r Record) chainHash(before string) string {
	h := sha256.New()
	fmt.Fprintf(h, "%s\n%d\n%s\n", before, r.Seq, r.At.UTC().Format(time.RFC3339Nano))
	h.Write(r.Body)
	return hex.EncodeToString(h.Sum(nil))
}

func ledgerKey(name string, seq uint64) []byte {
	return binary.BigEndian.AppendUint64(append([]byte(name), 0), seq)
}

// lastRecord returns the newest record of a ledger; its Seq is 0 when there is none.
func lastRecord(tx *bbolt.Tx, name string) (Record, error) {
	c := tx.Bucket(bucketLedger).Cursor()
	step := c.Prev
	if behind, _ := c.Seek(ledgerKey(name, 1<<63)); behind == nil {
		step = c.Last
	}
	k, v := step()
	if k == nil || !bytes.HasPrefix(k, ledgerKey(name, 0)[:len(name)+1]) {
		return Record{}, nil
	}
	return decodeRecord(k, v)
}

func decodeRecord(key, value []byte) (r Record, err error) {
	raw, err := openSealed(bucketLedger, key, value)
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(raw, &r); err != nil {
		return r, fmt.Errorf("%w: record %q: %w", ErrDamaged, key, err)
	}
	return r, nil
}

// AppendRecords appends bodies, each one JSON value, to the ledger of a name. The records are on disk, all of them, when it
// returns nil.
func (s *Store) AppendRecords(ctx context.Context, ledger string, at time.Time, bodies ...json.RawMessage) ([]Record, error) {
	if !ledgerName().MatchString(ledger) {
		return nil, fmt.Errorf("append to ledger %q: it is not a name", ledger)
	}
	records := make([]Record, len(bodies))
	for i, body := range bodies { // as it will be read, since the chain is over its bytes
		var compact bytes.Buffer
		if err := json.Compact(&compact, body); err != nil {
			return nil, fmt.Errorf("append to ledger %s: %w", ledger, err)
		}
		records[i].Body = compact.Bytes()
	}
	err := s.commitRequest(ctx, &request{
		check: func(*bbolt.Tx) error { return nil },
		write: func(tx *bbolt.Tx) error {
			last, err := lastRecord(tx, ledger)
			if err != nil {
				return err
			}
			for i := range records {
				r := Record{Seq: last.Seq + 1, At: at.UTC(), Body: records[i].Body}
				r.Chain = r.chainHash(last.Chain)
				raw, err := marshalJSON(r)
				if err != nil {
					return fmt.Errorf("encode record %d of %s: %w", r.Seq, ledger, err)
				}
				key := ledgerKey(ledger, r.Seq)
				if err := tx.Bucket(bucketLedger).Put(key, boltfile.Seal(bucketLedger, key, raw)); err != nil {
					return fmt.Errorf("put record %d of %s: %w", r.Seq, ledger, err)
				}
				records[i], last = r, r
			}
			return nil
		},
	})
	if err != nil {
		return nil, err
	}
	return records, nil
}

// Records returns the records of a ledger behind a sequence number, at most limit (0 = all), oldest first.
func (s *Store) Records(ledger string, after uint64, limit int) (records []Record, err error) {
	err = s.viewFile(func(tx *bbolt.Tx) error {
		b := tx.Bucket(bucketLedger)
		if b == nil {
			return nil // an older store, open for reading
		}
		prefix := ledgerKey(ledger, 0)[:len(ledger)+1]
		c := b.Cursor()
		for k, v := c.Seek(ledgerKey(ledger, after+1)); bytes.HasPrefix(k, prefix) && (limit == 0 || len(records) < limit); k, v = c.Next() {
			r, err := decodeRecord(k, v)
			if err != nil {
				return err
			}
			records = append(records, r)
		}
		return nil
	})
	return records, err
}

// checkLedgers checks the records of every ledger: no gaps, and each one follows from those before it.
func (c *checker) checkLedgers(tx *bbolt.Tx) {
	if tx.Bucket(bucketLedger) == nil {
		return
	}
	before := map[string]Record{}
	visitBucket(tx, bucketLedger, func(key string, value []byte) {
		i := len(key) - 9
		if i < 1 || key[i] != 0 {
			c.addFinding("ledger", "", "the key %x is not that of a record", key)
			return
		}
		name, seq := key[:i], binary.BigEndian.Uint64([]byte(key[i+1:]))
		r, err := decodeRecord([]byte(key), value)
		last := before[name]
		before[name] = Record{Seq: seq, Chain: r.Chain}
		switch {
		case err != nil:
			c.addFinding("ledger", "", "record %d of %s: %v", seq, name, err)
		case r.Seq != seq || seq != last.Seq+1:
			c.addFinding("ledger", "", "record %d of %s says that it is %d and follows %d", seq, name, r.Seq, last.Seq)
		case r.Chain != r.chainHash(last.Chain):
			c.addFinding("ledger", "", "record %d of %s does not follow from those before it", seq, name)
		}
	})
}
