package stream

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/orchestrator/lattice"
)

// Position is how far a reader of all changes has come: it has the changes of runs up to Runs and those at More, and the entries of
// the audit log up to Audit. The zero value is that of a reader without any.
type Position struct {
	Runs  lattice.Seq
	More  []lattice.Seq // behind Runs, ascending: they were sent before others that were committed earlier
	Audit *uint64       // nil if it is not known
}

// ParsePosition reads a position as String formats it. A sequence number alone is a position in the journal.
func ParsePosition(text string) (p Position, err error) {
	runs, log, audited := strings.Cut(text, ".")
	for i, number := range strings.Split(runs, "+") {
		var seq uint64
		if text == "" {
			return p, nil
		}
		if seq, err = strconv.ParseUint(number, 10, 63); err != nil {
			break
		}
		if i == 0 {
			p.Runs = lattice.Seq(seq)
		} else {
			p.More = append(p.More, lattice.Seq(seq))
		}
	}
	if audited && err == nil {
		var seq uint64
		seq, err = strconv.ParseUint(log, 10, 63)
		p.Audit = &seq
	}
	if err != nil {
		return Position{}, fmt.Errorf("%.64q is not the id of an event", text)
	}
	return p, nil
}

// String formats the position as the id of an event: RUNS.AUDIT, or RUNS+MORE+MORE.AUDIT.
func (p Position) String() string {
	text := strconv.FormatUint(uint64(p.Runs), 10)
	for _, seq := range p.More {
		text += "+" + strconv.FormatUint(uint64(seq), 10)
	}
	if p.Audit != nil {
		text += "." + strconv.FormatUint(*p.Audit, 10)
	}
	return text
}

// Has reports whether the reader has the change of a run at a sequence number.
func (p Position) Has(seq lattice.Seq) bool {
	return seq > 0 && seq <= p.Runs || slices.Contains(p.More, seq)
}

// Add returns the position after the change at a sequence number is sent. The reader has, or gets in order, all changes up to settled.
func (p Position) Add(seq, settled lattice.Seq) Position {
	p.Runs = max(p.Runs, min(seq, settled))
	p.More = slices.DeleteFunc(append(slices.Clone(p.More), seq), func(s lattice.Seq) bool { return s <= p.Runs })
	slices.Sort(p.More)
	return p
}
