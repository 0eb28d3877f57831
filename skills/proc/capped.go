package proc

// Head keeps the first Limit bytes written to it and counts the rest. The zero value keeps nothing.
type Head struct {
	Limit   int
	kept    []byte
	omitted int64
}

// Write never fails.
func (h *Head) Write(p []byte) (int, error) {
	keep := min(len(p), h.Limit-len(h.kept))
	h.kept = append(h.kept, p[:keep]...)
	h.omitted += int64(len(p) - keep)
	return len(p), nil
}

// Bytes returns the bytes that were kept.
func (h *Head) Bytes() []byte { return h.kept }

// Omitted counts the bytes that were not kept.
func (h *Head) Omitted() int64 { return h.omitted }

// Tail keeps the last Limit bytes written to it.
type Tail struct {
	Limit int
	kept  []byte
}

// Write never fails.
func (t *Tail) Write(p []byte) (int, error) {
	n := len(p)
	p = p[max(0, n-t.Limit):]
	t.kept = append(t.kept[max(0, len(t.kept)+len(p)-t.Limit):], p...)
	return n, nil
}

// Bytes returns the bytes that were kept.
func (t *Tail) Bytes() []byte { return t.kept }
