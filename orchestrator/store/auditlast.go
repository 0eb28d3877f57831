package store

import (
	"bytes"
	"encoding/binary"

	"github.com/spritekit/lattice/orchestrator/audit"
	"github.com/spritekit/lattice/orchestrator/store/kv"
)

// LastAudits returns the last entries of a subject, the newest first: at most limit, and only those behind the entry after.
func (s *Store) LastAudits(subject string, after uint64, limit int) (entries []audit.Entry, err error) {
	err = s.view(func(tx kv.Tx) error {
		index := tx.Bucket(bucketAuditIndex)
		if index == nil {
			return nil // an older file that is open for reading only
		}
		c, prefix := index.Cursor(), auditIndexKey(auditSubject, subject)
		for seq := lastOf(index, subject); seq > after && len(entries) < limit; {
			e, err := readAudit(tx, u64(seq))
			if err != nil {
				return err
			}
			entries = append(entries, e)
			c.Seek(append(bytes.Clone(prefix), u64(seq)...))
			k, _ := c.Prev()
			if !bytes.HasPrefix(k, prefix) {
				return nil
			}
			seq = binary.BigEndian.Uint64(k[len(prefix):])
		}
		return nil
	})
	return entries, err
}
