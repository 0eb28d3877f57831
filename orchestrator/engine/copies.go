package engine

import (
	"fmt"
	"strconv"

	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// A TOOL_CALL with a sprite of its own runs in a copy of the one around, made of a checkpoint of that as it is when the
// attempt begins. Every attempt has a new copy. What the call writes there is seen by nobody else; its output goes on. Copies
// are removed when the run has ended, but for those of State.Kept.

// copyName is that of the copy for the current attempt. All copies of a run begin with the name of its sprite.
func (m *machine) copyName() string {
	v := m.at.Visit
	key := lattice.DerivedKey(m.s.RunID, strconv.Itoa(m.s.Epoch), m.at.path, m.at.Node, strconv.Itoa(v.Number), strconv.Itoa(v.Attempt))
	return fmt.Sprintf("%.40s-%s", m.sprite(), key[:12])
}

// copySprite makes the copy in which the current call runs, from a checkpoint that it takes first if there is none.
func (m *machine) copySprite() {
	from := m.sprite()
	pair, paired := m.s.Pairs[from]
	if m.s.Dirty[from] || !paired {
		m.issue(lattice.Command{Kind: lattice.DoCheckpoint, Sprite: from})
		return
	}
	m.issue(lattice.Command{Kind: lattice.DoFork, Sprite: m.at.Visit.Call.Sprite, Pair: &pair})
}

// inCopy reports whether the current node is a call that has a sprite of its own.
func (m *machine) inCopy() bool {
	v := m.at.Visit
	return m.s.Undoing == nil && v != nil && v.Call != nil && m.p.Node(m.at.Node).ForksSprites()
}

// leaveCopy forgets the copy of a call that has ended; kept says whether it shall stay behind the run.
func (m *machine) leaveCopy(node *ir.Node, ok bool) {
	if !m.inCopy() {
		return
	}
	name := m.at.Visit.Call.Sprite
	delete(m.s.Pairs, name)
	delete(m.s.Dirty, name)
	if ok && node.KeepSprite {
		m.s.Kept = append(m.s.Kept, name)
	}
}
