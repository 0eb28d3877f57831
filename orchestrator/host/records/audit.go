package records

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/spritekit/lattice/orchestrator/boltfile"
	bolt "go.etcd.io/bbolt"
)

// Audit is the result of checking a host.db.
type Audit struct {
	Path     string
	Bytes    int64
	Sprites  int
	Problems []string // none for a sound file
}

// maxProblems bounds the problems of an audit.
const maxProblems = 1000

func (a *Audit) reportProblem(format string, args ...any) {
	if len(a.Problems) < maxProblems {
		a.Problems = append(a.Problems, fmt.Sprintf(format, args...))
	}
}

// Audit looks at all of host.db: pages, and whether the records can be read and fit together. Requests wait until it returns.
func (s *Store) Audit() (Audit, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.db == nil {
		return s.auditClosed()
	}
	a := Audit{Path: s.path}
	if err := boltfile.CheckOpen(s.db, boltfile.Nested, nil, a.reportProblem); err != nil {
		return a, fmt.Errorf("check %s: %w", s.path, err)
	}
	return a.finishAudit(s.db)
}

// auditClosed looks at a file that could not be opened again. mu is held.
func (s *Store) auditClosed() (Audit, error) {
	switch {
	case s.closed:
		return Audit{Path: s.path}, ErrClosed
	case s.broken != nil:
		return Audit{Path: s.path, Problems: []string{s.broken.Error()}}, nil
	}
	return AuditDir(filepath.Dir(s.path))
}

// AuditDir is [Host.Audit] for a directory that no host serves. It fails with an error that wraps os.ErrNotExist where there
// never was one, and with ErrServed where there is.
func AuditDir(dir string) (a Audit, err error) {
	a.Path = filepath.Join(dir, "host.db")
	err = boltfile.Check(a.Path, boltfile.Nested, nil, a.reportProblem)
	if errors.Is(err, boltfile.ErrHeld) {
		err = ErrServed
	}
	if err != nil {
		return a, fmt.Errorf("check %s: %w", a.Path, err)
	}
	if len(a.Problems) > 0 {
		return a.finishAudit(nil)
	}
	db, err := boltfile.Open(a.Path, boltfile.Options{Layout: boltfile.Nested, Patience: 200 * time.Millisecond, ReadOnly: true})
	if err != nil {
		return a, fmt.Errorf("check %s: %w", a.Path, err)
	}
	a, err = a.finishAudit(db)
	return a, errors.Join(err, db.Close())
}

// finishAudit looks at the records, unless the pages are damaged.
func (a Audit) finishAudit(db *bolt.DB) (Audit, error) {
	info, err := os.Stat(a.Path)
	if err != nil {
		return a, fmt.Errorf("check %s: %w", a.Path, err)
	}
	a.Bytes = info.Size()
	if len(a.Problems) > 0 {
		return a, nil
	}
	err = boltfile.Contain(func() error {
		return boltfile.View(db, func(tx *bolt.Tx) error { a.auditRecords(tx); return nil })
	})
	if errors.Is(err, ErrDamaged) {
		a.reportProblem("%v", err)
		err = nil
	}
	return a, err
}

func (a *Audit) auditRecords(tx *bolt.Tx) {
	for _, name := range [][]byte{bucketSprites, bucketCheckpoints, bucketLayers, bucketMeta} {
		if tx.Bucket(name) == nil {
			a.reportProblem("it has no %s", name)
			return
		}
	}
	old := !hasSums(tx)
	if !old {
		a.auditValues(tx)
	}
	open := func(name []byte, below ...string) table {
		t := openTable(tx, name, below...)
		t.old = old
		return t
	}
	layers := map[string]Layer{}
	eachRecord(a, open(bucketLayers), "layer", func(key string, l Layer) {
		if l.ID != key {
			a.reportProblem("the record of layer %s names %s", key, l.ID)
		}
		layers[key] = l
	})
	need := func(what, id string) {
		if _, known := layers[id]; !known {
			a.reportProblem("%s needs layer %s, of which there is no record", what, id)
		}
	}
	for id, l := range layers {
		for _, below := range l.layersBelow() {
			need("layer "+id, below)
		}
	}
	known := map[string]bool{}
	eachRecord(a, open(bucketSprites), "sprite", func(name string, rec Sprite) {
		a.Sprites++
		known[rec.ID] = true
		if rec.Name != name {
			a.reportProblem("the record of sprite %s names %s", name, rec.Name)
		}
		need("sprite "+name, rec.Tree)
		points := open(bucketCheckpoints, rec.ID)
		if points.Bucket == nil {
			a.reportProblem("sprite %s has no list of checkpoints", name)
			return
		}
		eachRecord(a, points, "checkpoint of sprite "+name, func(_ string, p Checkpoint) {
			need(fmt.Sprintf("checkpoint %s of sprite %s", p.ID, name), p.Tree)
		})
		if services := open(bucketServices, rec.ID); services.Bucket != nil {
			eachRecord(a, services, "service of sprite "+name, func(string, Service) {})
		}
	})
	c := tx.Bucket(bucketCheckpoints).Cursor()
	for k, _ := c.First(); k != nil; k, _ = c.Next() {
		if !known[string(k)] {
			a.reportProblem("there are checkpoints of %s, which is not there", k)
		}
	}
}

// auditValues reports the values of which eachRecord reads none, and that are not what was written.
func (a *Audit) auditValues(tx *bolt.Tx) {
	for _, name := range [][]byte{bucketMeta, bucketURLs} {
		t := openTable(tx, name)
		if t.Bucket == nil {
			continue
		}
		c := t.Cursor()
		for k, v := c.First(); k != nil; k, v = c.Next() {
			if _, err := t.open(k, v); err != nil {
				a.reportProblem("the value %q of %s cannot be read: %v", k, name, err)
			}
		}
	}
	if tx.Bucket(bucketMeta).Get(keySealed) == nil {
		a.reportProblem("its values have checksums, and it does not say so")
	}
}

// eachRecord decodes all records of a table, and reports those that cannot be.
func eachRecord[T any](a *Audit, t table, what string, visit func(key string, rec T)) {
	c := t.Cursor()
	for k, v := c.First(); k != nil; k, v = c.Next() {
		var rec T
		content, err := t.open(k, v)
		if err == nil {
			err = json.Unmarshal(content, &rec)
		}
		if err != nil {
			a.reportProblem("the record of %s %s cannot be read: %v", what, k, err)
			continue
		}
		visit(string(k), rec)
	}
}
