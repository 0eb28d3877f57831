package store

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/orchestrator/store/bolt"
	"github.com/spritekit/lattice/orchestrator/store/kv"
)

// Problem is one thing that is wrong with a store.
type Problem struct {
	Code    string `json:"code"`             // page, sequence, entry, chain, index, dedupe, head, record, program, state or audit
	Run     string `json:"run_id,omitempty"` // the run that it concerns, "" when that is not known
	Message string `json:"message"`
}

func (p Problem) String() string {
	if p.Run == "" {
		return p.Code + ": " + p.Message
	}
	return fmt.Sprintf("%s: run %s: %s", p.Code, p.Run, p.Message)
}

// Progress is told how much of a long work is done, in a unit of the work's own. It may be nil.
type Progress = func(done, of uint64)

func reportProgress(p Progress, done, of uint64) {
	if p != nil {
		p(done, of)
	}
}

// Check reads the whole file and returns its faults, none for a sound one: pages, sequence without
// gaps, entries against their checksums, index, heads and dedupe keys, the chain of each run's facts, programs against their digests, snapshots against runs, the chain of the audit log. Whether
// facts fold to the snapshot is the engine's to say. Appends wait until it ends; ctx ends only the wait for a turn.
func (s *Store) Check(ctx context.Context, progress Progress) ([]Problem, error) {
	var c checker
	err := s.commits.RunAlone(ctx, func() error {
		if err := s.db.Check(progress, c.addPage); err != nil {
			return fmt.Errorf("check the store: %w", err)
		}
		if len(c.problems) > 0 {
			return nil // damaged pages cannot be read
		}
		return s.view(func(tx kv.Tx) error {
			c.checkRuns(tx)
			c.checkEntries(tx, progress)
			c.checkLeftovers(tx)
			c.checkIndexes(tx)
			c.auditRuns(tx)
			return nil
		})
	})
	return c.problems, err
}

// CheckPages looks at the pages of a file that need not be one that Open takes. It fails with ErrLocked when a process
// has it open for writing.
func CheckPages(path string, progress Progress) ([]Problem, error) {
	var c checker
	if err := bolt.CheckPages(path, progress, c.addPage); err != nil {
		return nil, fmt.Errorf("check the store: %w", err)
	}
	return c.problems, nil
}

// maxProblems bounds the findings of a report; a file with more is lost anyway.
const maxProblems = 1000

type checker struct {
	problems  []Problem
	heads     map[string]head
	last      map[string]lattice.Seq // by run, as the entries tell it
	chains    map[string]string      // of its facts, by run
	actions   actionModel            // as the entries tell it
	indexed   int                    // entries with an index
	deduped   int                    // entries with a dedupe key
	artifacts int                    // entries that declare products
}

func (c *checker) addFinding(code, run, format string, args ...any) {
	if len(c.problems) < maxProblems {
		c.problems = append(c.problems, Problem{code, run, fmt.Sprintf(format, args...)})
	}
}

func (c *checker) addPage(format string, args ...any) { c.addFinding("page", "", format, args...) }

func (c *checker) checkRuns(tx kv.Tx) {
	c.heads, c.last, c.chains, c.actions = map[string]head{}, map[string]lattice.Seq{}, map[string]string{}, actionModel{}
	numbers := map[uint32]string{}
	visitBucket(tx, bucketHeads, func(run string, raw []byte) {
		h, err := decodeHead([]byte(run), raw)
		if err != nil {
			c.addFinding("head", run, "%v", err)
			return
		}
		if other, taken := numbers[h.number]; taken {
			c.addFinding("head", run, "it has the number of run %s", other)
		}
		numbers[h.number] = run
		c.heads[run] = h
	})
	visitBucket(tx, bucketRuns, func(id string, raw []byte) {
		run, err := readRun(tx, []byte(id), raw, false)
		sum := sha256.Sum256(tx.Bucket(bucketPrograms).Get([]byte(run.Digest)))
		switch _, headed := c.heads[id]; {
		case err != nil:
			c.addFinding("record", id, "%v", err)
		case run.ID != id:
			c.addFinding("record", id, "its record names %s", run.ID)
		case !headed:
			c.addFinding("head", id, "it has no head")
		case hex.EncodeToString(sum[:]) != run.Digest:
			c.addFinding("program", id, "its program does not have the digest %s", run.Digest)
		}
	})
	if made := tx.Bucket(bucketRuns).Sequence(); made != uint64(len(c.heads)) {
		c.addFinding("sequence", "", "%d runs were made, there are %d heads", made, len(c.heads))
	}
}

func (c *checker) checkEntries(tx kv.Tx, progress Progress) {
	index, dedupe := tx.Bucket(bucketIndex), tx.Bucket(bucketDedupe)
	end := tx.Bucket(bucketEntries).Sequence()
	var want uint64
	visitBucket(tx, bucketEntries, func(key string, raw []byte) {
		if want++; want%1024 == 0 {
			reportProgress(progress, want, end)
		}
		if len(key) != 8 || binary.BigEndian.Uint64([]byte(key)) != want {
			c.addFinding("sequence", "", "there is a gap before entry %x; %d was expected", key, want)
			if len(key) != 8 {
				return
			}
			want = binary.BigEndian.Uint64([]byte(key))
		}
		e, err := decodeEntry(bucketEntries, []byte(key), raw)
		h, known := c.heads[e.Run]
		switch {
		case err != nil:
			c.addFinding("entry", "", "entry %d: %v", want, err)
			return
		case uint64(e.Seq) != want:
			c.addFinding("entry", e.Run, "entry %d says that it is %d", want, e.Seq)
		case !known:
			c.addFinding("entry", e.Run, "entry %d belongs to a run that is not there", want)
			return
		case !bytes.Equal(index.Get(indexKey(h.number, e.Seq)), []byte{kindByte(e.Kind)}):
			c.addFinding("index", e.Run, "entry %d is not in the index", want)
		default:
			c.indexed++
		}
		if e.Dedupe != "" {
			c.deduped++
			if !bytes.Equal(dedupe.Get(dedupeKey(h.number, e.Dedupe)), u64(want)) {
				c.addFinding("dedupe", e.Run, "entry %d: its dedupe key is missing or another's", want)
			}
		}
		if isArtifact(e) {
			c.artifacts++
		}
		c.last[e.Run] = e.Seq
		_ = foldAction(tx, c.actions, e) // a model takes every change
		if e.Kind != lattice.EntryFact {
			return
		}
		if c.chains[e.Run], err = followChain(c.chains[e.Run], e); err != nil {
			c.addFinding("chain", e.Run, "%v", err)
		}
	})
	if end != want {
		c.addFinding("sequence", "", "the sequence stands at %d, the last entry is %d", end, want)
	}
}

func (c *checker) checkLeftovers(tx kv.Tx) {
	for run, h := range c.heads {
		if c.last[run] != h.last {
			c.addFinding("head", run, "its head says %d, its last entry is %d", h.last, c.last[run])
		}
		if tx.Bucket(bucketRuns).Get([]byte(run)) == nil {
			c.addFinding("record", run, "it has a head but no record")
		}
	}
	for bucket, want := range map[string]int{string(bucketIndex): c.indexed, string(bucketDedupe): c.deduped} {
		have := 0
		visitBucket(tx, []byte(bucket), func(string, []byte) { have++ })
		if have != want {
			c.addFinding(bucket, "", "there are %d keys for %d entries", have, want)
		}
	}
	var states uint64
	visitBucket(tx, bucketStates, func(run string, raw []byte) {
		states++
		e, err := decodeEntry(bucketStates, []byte(run), raw)
		switch h, known := c.heads[run]; {
		case err != nil:
			c.addFinding("state", run, "%v", err)
		case !known || e.Run != run:
			c.addFinding("state", run, "its state belongs to no run")
		case e.Seq > h.last:
			c.addFinding("state", run, "its state stands behind %d, the run ends at %d", e.Seq, h.last)
		case !json.Valid(e.Body):
			c.addFinding("state", run, "its state is not JSON")
		}
	})
	if made := tx.Bucket(bucketStates).Sequence(); made > states { // an older lattice counted none
		c.addFinding("state", "", "states of %d runs were written, those of %d are there", made, states)
	}
}

func visitBucket(tx kv.Tx, bucket []byte, visit func(key string, value []byte)) {
	c := tx.Bucket(bucket).Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		visit(string(k), v)
	}
}

func (c *checker) openActions(tx kv.Tx) {
	listed := 0
	visitBucket(tx, bucketActions, func(key string, id []byte) {
		if listed++; c.actions[key] != string(id) {
			c.addFinding("index", string(id), "the list of noted actions has it at %x, where it does not belong", key)
		}
	})
	if listed != len(c.actions) {
		c.addFinding("index", "", "the list of noted actions has %d of %d", listed, len(c.actions))
	}
}

// checkRegistries checks the registries that the file has.
func (c *checker) checkRegistries(tx kv.Tx) {
	if hasBuckets(tx, bucketArtifacts) {
		listed := 0
		visitBucket(tx, bucketArtifacts, func(key string, run []byte) {
			listed++
			e, err := readArtifact(tx, []byte(key))
			if err != nil || !isArtifact(e) || e.Run != string(run) || key != string(indexKey(c.heads[e.Run].number, e.Seq)) {
				c.addFinding("index", string(run), "the list of artifacts has entry %x, which is none", key)
			}
		})
		if listed != c.artifacts {
			c.addFinding("index", "", "the list of artifacts has %d of %d", listed, c.artifacts)
		}
	}
	if !hasBuckets(tx, bucketIntents, bucketAudit) {
		return
	}
	want, listed := 0, 0
	visitBucket(tx, bucketAudit, func(key string, _ []byte) {
		if e, err := readAudit(tx, []byte(key)); err == nil {
			if id, ok := intentOf(e); ok {
				want++
				if !bytes.Equal(tx.Bucket(bucketIntents).Get(append([]byte{'i'}, id...)), u64(e.Seq)) {
					c.addFinding("index", "", "the list of intents lacks %s", id)
				}
			}
		}
	})
	visitBucket(tx, bucketIntents, func(key string, id []byte) {
		if key[0] == 's' && len(key) == 9 {
			listed++
			if !bytes.Equal(tx.Bucket(bucketIntents).Get(append([]byte{'i'}, id...)), []byte(key[1:])) || binary.BigEndian.Uint64([]byte(key[1:])) == 0 {
				c.addFinding("index", "", "the list of intents has %s twice", id)
			}
		}
	})
	if listed != want {
		c.addFinding("index", "", "the list of intents has %d of %d", listed, want)
	}
}

// auditRuns checks the chain of the audit log, and its index. The first broken entry is named.
func (c *checker) auditRuns(tx kv.Tx) {
	log, index := tx.Bucket(bucketAudit), tx.Bucket(bucketAuditIndex)
	if log == nil || index == nil {
		return
	}
	var seq uint64
	prev, want := "", 0
	visitBucket(tx, bucketAudit, func(key string, _ []byte) {
		seq++
		e, err := readAudit(tx, []byte(key))
		if err == nil {
			err = e.Verify(seq, prev)
		}
		if err != nil {
			c.addFinding("audit", "", "%v", err)
		}
		prev = e.Sum
		want++
		subject := auditSubjectKey(e)
		if !index.Has(subject) {
			c.addFinding("audit", "", "audit entry %d is not found by its subject", e.Seq)
		}
		if e.Key != "" {
			want++
			if !bytes.Equal(index.Get(auditIndexKey(auditKey, e.Key)), u64(e.Seq)) {
				c.addFinding("audit", "", "audit entry %d is not found by its key", e.Seq)
			}
		}
	})
	if log.Sequence() != seq {
		c.addFinding("audit", "", "%d audit entries were written, %d are there", log.Sequence(), seq)
	}
	have := 0
	visitBucket(tx, bucketAuditIndex, func(string, []byte) { have++ })
	if have != want {
		c.addFinding("audit", "", "the index of the audit log has %d keys, not %d", have, want)
	}
}
