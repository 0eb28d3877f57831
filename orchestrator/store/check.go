package store

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"go.etcd.io/bbolt"

	"github.com/spritekit/lattice/orchestrator/lattice"
)

// Check looks at the whole file and returns what is wrong with it, nothing for a sound one: pages, sequence without
// gaps, entries against index, heads and dedupe keys, programs against their digests, snapshots against runs. Whether
// facts fold to the snapshot is the engine's to say.
func (s *Store) Check() ([]string, error) {
	var c checker
	err := s.view(func(tx *bbolt.Tx) error {
		for err := range tx.Check() {
			c.report("page: %v", err)
		}
		c.runs(tx)
		c.entries(tx)
		c.leftovers(tx)
		return nil
	})
	return c.problems, err
}

// maxProblems bounds what a report names; a file with more is lost anyway.
const maxProblems = 1000

type checker struct {
	problems []string
	heads    map[string]head
	last     map[string]lattice.Seq // by run, as the entries tell it
	indexed  int                    // entries with an index
	deduped  int                    // entries with a dedupe key
}

func (c *checker) report(format string, args ...any) {
	if len(c.problems) < maxProblems {
		c.problems = append(c.problems, fmt.Sprintf(format, args...))
	}
}

func (c *checker) runs(tx *bbolt.Tx) {
	c.heads, c.last = map[string]head{}, map[string]lattice.Seq{}
	numbers := map[uint32]string{}
	each(tx, bucketHeads, func(run string, raw []byte) {
		h, err := decodeHead(raw)
		if err != nil {
			c.report("run %s: %v", run, err)
			return
		}
		if other, taken := numbers[h.number]; taken {
			c.report("run %s: has the number of run %s", run, other)
		}
		numbers[h.number] = run
		c.heads[run] = h
	})
	each(tx, bucketRuns, func(id string, raw []byte) {
		run, err := readRun(tx, raw, true)
		sum := sha256.Sum256(run.Program)
		switch _, headed := c.heads[id]; {
		case err != nil:
			c.report("run %s: %v", id, err)
		case run.ID != id:
			c.report("run %s: its record names %s", id, run.ID)
		case !headed:
			c.report("run %s: has no head", id)
		case hex.EncodeToString(sum[:]) != run.Digest:
			c.report("run %s: its program does not have the digest %s", id, run.Digest)
		}
	})
}

func (c *checker) entries(tx *bbolt.Tx) {
	index, dedupe := tx.Bucket(bucketIndex), tx.Bucket(bucketDedupe)
	var want uint64
	each(tx, bucketEntries, func(key string, raw []byte) {
		want++
		if len(key) != 8 || binary.BigEndian.Uint64([]byte(key)) != want {
			c.report("entry %x: the sequence has a gap; %d was expected", key, want)
			if len(key) != 8 {
				return
			}
			want = binary.BigEndian.Uint64([]byte(key))
		}
		e, err := decodeEntry(raw)
		h, known := c.heads[e.Run]
		switch {
		case err != nil:
			c.report("entry %d: %v", want, err)
			return
		case uint64(e.Seq) != want:
			c.report("entry %d: says that it is %d", want, e.Seq)
		case !known:
			c.report("entry %d: belongs to run %q, which is not there", want, e.Run)
			return
		case !bytes.Equal(index.Get(indexKey(h.number, e.Seq)), []byte{kindByte(e.Kind)}):
			c.report("entry %d: is not in the index of run %s", want, e.Run)
		default:
			c.indexed++
		}
		if e.Dedupe != "" {
			c.deduped++
			if !bytes.Equal(dedupe.Get(dedupeKey(h.number, e.Dedupe)), u64(want)) {
				c.report("entry %d: its dedupe key is missing or another's", want)
			}
		}
		c.last[e.Run] = e.Seq
	})
	if have := tx.Bucket(bucketEntries).Sequence(); have != want {
		c.report("the sequence stands at %d, the last entry is %d", have, want)
	}
}

func (c *checker) leftovers(tx *bbolt.Tx) {
	for run, h := range c.heads {
		if c.last[run] != h.last {
			c.report("run %s: its head says %d, its last entry is %d", run, h.last, c.last[run])
		}
		if tx.Bucket(bucketRuns).Get([]byte(run)) == nil {
			c.report("run %s: has a head but no record", run)
		}
	}
	for bucket, want := range map[string]int{string(bucketIndex): c.indexed, string(bucketDedupe): c.deduped} {
		have := 0
		each(tx, []byte(bucket), func(string, []byte) { have++ })
		if have != want {
			c.report("%s has %d keys for %d entries", bucket, have, want)
		}
	}
	each(tx, bucketStates, func(run string, raw []byte) {
		e, err := decodeEntry(raw)
		switch h, known := c.heads[run]; {
		case err != nil:
			c.report("state of run %s: %v", run, err)
		case !known || e.Run != run:
			c.report("state of run %s: belongs to no run", run)
		case e.Seq > h.last:
			c.report("state of run %s: stands behind %d, the run ends at %d", run, e.Seq, h.last)
		case !json.Valid(e.Body):
			c.report("state of run %s: no JSON", run)
		}
	})
}

func each(tx *bbolt.Tx, bucket []byte, visit func(key string, value []byte)) {
	c := tx.Bucket(bucket).Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		visit(string(k), v)
	}
}
