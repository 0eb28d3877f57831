package grep

import (
	"encoding/binary"
	"regexp/syntax"
	"slices"
)

// maxStates bounds the states of a lazy DFA, each about 1 KiB; beyond, it drops them all and builds new ones.
const maxStates = 500

// sieve finds lines that may match an expression, and never passes over one that does: it walks the bytes through a
// deterministic automaton that it builds as it goes. Undecided cases count as a match: boundaries, and
// characters beyond ASCII. It belongs to one Scanner.
type sieve struct {
	prog   *syntax.Prog
	states map[string]*place
	start  *place
}

// place is a state of the automaton: the set of instructions that may come next.
type place struct {
	next  [128]*place
	pcs   []uint32 // sorted
	match bool
}

func newSieve(prog *syntax.Prog) *sieve {
	v := &sieve{prog: prog}
	v.dropStates()
	return v
}

func (v *sieve) dropStates() {
	v.states = map[string]*place{}
	v.start = v.enterState([]uint32{uint32(v.prog.Start)})
}

// findFirst is a place in the first line of block[from:] that may match, -1 when there is none. from is the beginning of a
// line.
func (v *sieve) findFirst(block []byte, from int) int {
	at := v.start
	if at.match && from < len(block) {
		return from
	}
	for i, c := range block[from:] {
		if c >= 128 {
			return from + i
		}
		next := at.next[c]
		if next == nil {
			next = v.buildState(at, c)
		}
		if next.match {
			return from + i
		}
		at = next
	}
	return -1
}

// buildState finds out where c leads from a place.
func (v *sieve) buildState(at *place, c byte) *place {
	if len(v.states) >= maxStates {
		v.dropStates() // the places that are in use stay until they are left
	}
	next := v.start // no match goes over the end of a line
	if c != '\n' {
		pcs := []uint32{uint32(v.prog.Start)} // a match may begin behind c
		for _, pc := range at.pcs {
			if inst := &v.prog.Inst[pc]; inst.MatchRune(rune(c)) {
				pcs = append(pcs, inst.Out)
			}
		}
		next = v.enterState(pcs)
	}
	at.next[c] = next
	return next
}

// enterState is the place of all instructions that are reached from these without reading.
func (v *sieve) enterState(pcs []uint32) *place {
	found := new(place)
	for seen := map[uint32]bool{}; len(pcs) > 0; {
		pc := pcs[len(pcs)-1]
		pcs = pcs[:len(pcs)-1]
		if seen[pc] {
			continue
		}
		seen[pc] = true
		switch inst := &v.prog.Inst[pc]; inst.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			pcs = append(pcs, inst.Out, inst.Arg)
		case syntax.InstCapture, syntax.InstNop, syntax.InstEmptyWidth:
			pcs = append(pcs, inst.Out)
		case syntax.InstMatch:
			found.match = true
		case syntax.InstFail:
		default:
			found.pcs = append(found.pcs, pc)
		}
	}
	slices.Sort(found.pcs)
	key := make([]byte, 0, 4*len(found.pcs)+1)
	for _, pc := range found.pcs {
		key = binary.LittleEndian.AppendUint32(key, pc)
	}
	if found.match {
		key = append(key, 1)
	}
	if known := v.states[string(key)]; known != nil {
		return known
	}
	v.states[string(key)] = found
	return found
}
