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
	key := lattice.DerivedKey(t.Run.State.RunID, strconv.Itoa(t.Run.State.Epoch), t.Path, t.Node, strconv.Itoa(v.Number), strconv.Itoa(v.Attempt))
	return fmt.Sprintf("%.40s-%s", t.Sprite(), key[:12])
}

// makeCopy makes the copy in which the current call runs, from a checkpoint that it takes first if there is none.
func (t callOp) makeCopy() {
	from := t.Sprite()
	pair, paired := t.Run.State.Pairs[from]
	if t.Run.State.Dirty[from] || !paired {
		t.Issue(lattice.Command{Kind: lattice.DoCheckpoint, Sprite: from})
		return
	}
	t.Issue(lattice.Command{Kind: lattice.DoFork, Sprite: t.Visit.Call.Sprite, Pair: &pair})
}

// runsInCopy reports whether the current node is a call that has a sprite of its own.
func (t callOp) runsInCopy() bool {
	v := t.Visit
	return t.Run.State.Undoing == nil && v != nil && v.Call != nil && t.Run.Program.Node(t.Node).ForksSprites()
}

// releaseCopy forgets the copy of a call that has ended; kept says whether it shall stay behind the run.
func (t callOp) releaseCopy(node *ir.Node, ok bool) {
	m := t.Run
	if !t.runsInCopy() {
		return
	}
	name := t.Visit.Call.Sprite
	delete(m.State.Pairs, name)
	delete(m.State.Dirty, name)
	if ok && node.KeepSprite {
		m.State.Kept = append(m.State.Kept, name)
	}
}
