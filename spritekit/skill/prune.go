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
	pruneEvery  = 64        // calls; looking through a thousand files takes milliseconds
	spillBudget = 256 << 20 // bytes
	keepSpilled = 64        // files, whatever their size
)

// prune keeps the journals and spilled payloads of calls within bounds, now and then. The caller has its result already:
// trouble is told on stderr and left to the next call.
func (r *runner) prune() {
	if r.journal != nil && r.journal.Made() && isTurn(r.id) {
		if err := journal.Prune(r.root, keepCalls); err != nil {
			fmt.Fprintf(r.streams.Stderr, "%s: %v\n", r.skill.Name, err)
		}
	}
	if r.spilled || r.out.log != nil && r.out.log.Spilled() {
		if err := outbox.PruneSpill(r.root, spillBudget, keepSpilled, r.spilledResults); err != nil {
			fmt.Fprintf(r.streams.Stderr, "%s: %v\n", r.skill.Name, err)
		}
	}
}

// isTurn chooses one call in pruneEvery, by its id, so that the cost of a call is no matter of chance.
func isTurn(id string) bool {
	h := fnv.New32a()
	h.Write([]byte(id))
	return h.Sum32()%pruneEvery == 0
}

// spilledResults names the spilled files that a call would be answered with if it were made again.
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
