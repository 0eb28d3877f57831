package skill

import (
	"errors"

	"github.com/spritekit/lattice/spritekit/outbox"
)

// Spill writes data to which a result only refers to a file below .lattice, as a result that is too large for its line is
// written; the files are pruned together. It returns the path, relative to the workspace, and the digest. Spill fails
// after the call has ended.
func (c *Call) Spill(data []byte) (path, sha256 string, err error) {
	ref, err := c.out.spill(data)
	return ref.Path, ref.SHA256, err
}

func (o *output) spill(data []byte) (outbox.Ref, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed || o.log == nil {
		return outbox.Ref{}, errors.New("spill data of the call: it has no outbox any more")
	}
	return o.log.Spill(data)
}
