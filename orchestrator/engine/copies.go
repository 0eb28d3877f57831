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
func (t callOp) copyName() string {
	v := t.Visit
	key := lattice.DerivedKey(t.m.s.RunID, strconv.Itoa(t.m.s.Epoch), t.path, t.Node, strconv.Itoa(v.Number), strconv.Itoa(v.Attempt))
	return fmt.Sprintf("%.40s-%s", t.sprite(), key[:12])
}

// makeCopy makes the copy in which the current call runs, from a checkpoint that it takes first if there is none.
func (t callOp) makeCopy() {
	from := t.sprite()
	pair, paired := t.m.s.Pairs[from]
	if t.m.s.Dirty[from] || !paired {
		t.issue(lattice.Command{Kind: lattice.DoCheckpoint, Sprite: from})
		return
	}
	t.issue(lattice.Command{Kind: lattice.DoFork, Sprite: t.Visit.Call.Sprite, Pair: &pair})
}

// runsInCopy reports whether the current node is a call that has a sprite of its own.
func (t callOp) runsInCopy() bool {
	v := t.Visit
	return t.m.s.Undoing == nil && v != nil && v.Call != nil && t.m.p.Node(t.Node).ForksSprites()
}

// releaseCopy forgets the copy of a call that has ended; kept says whether it shall stay behind the run.
func (t callOp) releaseCopy(node *ir.Node, ok bool) {
	m := t.m
	if !t.runsInCopy() {
		return
	}
	name := t.Visit.Call.Sprite
	delete(m.s.Pairs, name)
	delete(m.s.Dirty, name)
	if ok && node.KeepSprite {
		m.s.Kept = append(m.s.Kept, name)
	}
}
