package objects

import (
	"bytes"
	"compress/zlib"
	"crypto/sha1"
	"encoding/binary"
	"fmt"
	"hash"
	"io"
)

// Send writes a pack of these objects. What a pack of ours already holds as a delta upon another object that is sent, or
// whole, is copied as it is; the rest is compressed. Content streams, so that memory does not grow with the objects.
func (s *Store) Send(to io.Writer, ids []ID, follow func(done int64)) error {
	w := &packWriter{store: s, hash: sha1.New(), sent: make(map[ID]bool, len(ids)), all: make(map[ID]bool, len(ids))}
	w.to = io.MultiWriter(to, w.hash)
	for _, id := range ids {
		w.all[id] = true
	}
	head := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), uint32(len(w.all)))
	if _, err := w.to.Write(head); err != nil {
		return err
	}
	for i, id := range ids {
		if err := w.object(id); err != nil {
			return fmt.Errorf("pack object %s: %w", id, err)
		}
		if follow != nil {
			follow(int64(i + 1))
		}
	}
	_, err := to.Write(w.hash.Sum(nil))
	return err
}

// packWriter writes one pack.
type packWriter struct {
	store *Store
	to    io.Writer
	hash  hash.Hash
	sent  map[ID]bool
	all   map[ID]bool

	deflate *zlib.Writer
}

func (w *packWriter) object(id ID) error {
	if w.sent[id] {
		return nil
	}
	w.sent[id] = true
	p, offset, err := w.store.packed(id)
	if err != nil {
		return err
	}
	if p != nil {
		h, err := w.store.inflater.at(p.file, offset)
		if err != nil {
			return err
		}
		if h.typ == ofsDelta { // offsets are others in the new pack
			if h.ref, err = p.idAt(h.base); err != nil {
				return err
			}
			h.typ = refDelta
		}
		if h.typ != refDelta || w.all[h.ref] {
			return w.copy(p, h)
		}
	}
	typ, size, content, err := w.store.Content(id)
	if err != nil {
		return err
	}
	defer content.Close()
	if _, err := w.to.Write(entryHeader(typ, size)); err != nil {
		return err
	}
	if w.deflate == nil {
		w.deflate = zlib.NewWriter(w.to)
	} else {
		w.deflate.Reset(w.to)
	}
	if _, err := io.Copy(w.deflate, content); err != nil {
		return err
	}
	return w.deflate.Close()
}

// copy passes a compressed entry on. It is inflated once, which shows where it ends and that it is whole.
func (w *packWriter) copy(p *pack, h header) error {
	head := entryHeader(h.typ, h.size)
	if h.typ == refDelta {
		head = append(head, h.ref[:]...)
	}
	n, err := w.store.inflater.skip(h.size)
	if err != nil {
		return err
	}
	if _, err := w.to.Write(head); err != nil {
		return err
	}
	_, err = io.Copy(w.to, io.NewSectionReader(p.file, h.start, n))
	return err
}

// entryHeader is type and size as packs hold them.
func entryHeader(typ Type, size int64) []byte {
	var b bytes.Buffer
	c := byte(typ)<<4 | byte(size&15)
	for size >>= 4; size > 0; size >>= 7 {
		b.WriteByte(c | 0x80)
		c = byte(size & 0x7f)
	}
	b.WriteByte(c)
	return b.Bytes()
}
