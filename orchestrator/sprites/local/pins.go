package local

// pin marks the layers that a box is about to mount, so that they stay until unpin even when nothing else needs them.
func (h *Host) pin(chain []layerRecord) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var ids []string
	for _, l := range chain {
		h.mounted[l.ID]++
		ids = append(ids, l.ID)
	}
	return ids
}

func (h *Host) unpin(ids []string) {
	h.mu.Lock()
	var free []string
	for _, id := range ids {
		if h.mounted[id]--; h.mounted[id] == 0 {
			delete(h.mounted, id)
			free = append(free, id)
		}
	}
	h.mu.Unlock()
	var unused []string
	for _, id := range free {
		if l, err := h.store.layer(id); err == nil && l.Refs == 0 {
			unused = append(unused, id)
		}
	}
	if len(unused) == 0 {
		return
	}
	garbage, err := h.store.forgetUnused(unused, h.isMounted)
	if err != nil {
		h.cfg.Log.Warn().Err(err).Msg("forget layers that nothing needs")
	}
	h.discard(garbage...)
}

func (h *Host) isMounted(id string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.mounted[id] > 0
}
