package skill

import (
	"bytes"
	"fmt"
	"hash/fnv"

	"github.com/spritekit/lattice/spritekit/journal"
	"github.com/spritekit/lattice/spritekit/outbox"
)

const (
	keepCalls   = 1000      // journals of calls that are done
	pruneEvery  = 64        // calls; listing a thousand files takes milliseconds
	spillBudget = 256 << 20 // bytes
	keepSpilled = 64        // files, whatever their size
)

// pruneJournals removes old journals, at every pruneEvery-th call or so. The caller has its result already: an error goes
// to stderr, and the next call tries again.
func (c *accepted) pruneJournals() {
	if c.journal.Made() && isChosen(c.id) {
		if err := journal.Prune(c.root, keepCalls); err != nil {
			fmt.Fprintf(c.streams.Stderr, "%s: %v\n", c.skill.Name, err)
		}
	}
}

// pruneSpilled removes old spilled files after a call that spilled one. Errors are handled as in pruneJournals.
func (r *runner) pruneSpilled() {
	if r.out.spilled || r.out.log != nil && r.out.log.Spilled() {
		if err := outbox.PruneSpill(r.root, spillBudget, keepSpilled, r.spilledResults); err != nil {
			fmt.Fprintf(r.streams.Stderr, "%s: %v\n", r.skill.Name, err)
		}
	}
}

// isChosen selects one call in pruneEvery by its id, so that the cost of a call is deterministic.
func isChosen(id string) bool {
	h := fnv.New32a()
	h.Write([]byte(id))
	return h.Sum32()%pruneEvery == 0
}

// spilledResults returns the digests of spilled files that recorded results refer to.
func (r *runner) spilledResults() (map[string]bool, error) {
	pinned := map[string]bool{}
	err := journal.Results(r.root, func(result []byte) {
		const digest = 64 // hex digits
		mark := []byte(outbox.SpillDir + "/")
		for i := bytes.Index(result, mark); i >= 0; i = bytes.Index(result, mark) {
			result = result[i+len(mark):]
			pinned[string(result[:min(digest, len(result))])] = true
		}
	})
	return pinned, err
}
