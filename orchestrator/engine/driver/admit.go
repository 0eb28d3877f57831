package driver

import (
	"cmp"
	"fmt"

	"github.com/spritekit/lattice/orchestrator/lattice"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// DefaultMaxEventBytes bounds the events of sprites that a run records, so that a sprite cannot fill the disk. The course of
// a run does not depend on events beyond the bound: it depends on facts.
const DefaultMaxEventBytes = 64 << 20

// admitEvent counts an event of a sprite. Of those beyond the bound it returns nil, and of the first of them a warning in its
// place.
func (d *drive) admitEvent(e lattice.Entry) (*lattice.Entry, error) {
	r := d.r
	most := cmp.Or(r.deps.MaxEventBytes, DefaultMaxEventBytes)
	if r.eventBytes > most {
		return nil, nil
	}
	r.eventBytes += uint64(len(e.Body))
	if r.eventBytes <= most {
		return &e, nil
	}
	warning, err := ownEntry(r.state, protocol.Info{
		Kind: "warning", Message: fmt.Sprintf("the sprites of this run have said more than %d bytes; further events are not recorded", most),
	}, "events_limit", "events_limit", e.At)
	return &warning, err
}
