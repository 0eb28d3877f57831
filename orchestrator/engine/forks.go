package engine

import (
	"fmt"
	"strconv"

	"github.com/spritekit/lattice/orchestrator/ir"
	"github.com/spritekit/lattice/orchestrator/lattice"
)

// A TOOL_CALL with sprite "fork" runs in a fork of the enclosing sprite, made from a checkpoint that is taken when the attempt
// starts. Each attempt has a fork of its own. Other nodes do not see the files that the call writes there, only its output.
// Forks are removed when the run has ended, except those of State.Kept.

// copyName returns the name of the fork for the current attempt. It begins with the name of the enclosing sprite.
func (t callOp) copyName() string {
	v := t.Visit
	key := lattice.DerivedKey(t.Run.State.RunID, strconv.Itoa(t.Run.State.Epoch), t.Path, t.Node, strconv.Itoa(v.Number), strconv.Itoa(v.Attempt))
	return fmt.Sprintf("%.40s-%s", t.Sprite(), key[:12])
}

// makeCopy makes the fork in which the current call runs. It takes a checkpoint first if there is none of the present files.
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

// releaseCopy forgets the fork of a call that has ended. If the call succeeded and its node has keep_sprite, the fork is kept
// after the run.
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
