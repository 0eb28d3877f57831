package confine

import (
	"github.com/spritekit/lattice/orchestrator/host/core"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
	"github.com/spritekit/lattice/orchestrator/host/subids"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// Confinement says how this machine lets us keep sprites apart.
type Confinement struct {
	Plain      bool               // namespaces are refused
	Isolation  spec.Level         // of boxes; "" when none starts
	Downgrade  *sprites.Downgrade // why it is plain, nil when it is not
	Limits     []spec.Enforcement // how boxes' limits are kept
	Text       string             // for people
	Warning    string             // for people, before anything runs; "" when all is well
	OwnIDs     bool               // each box has user ids that no other has
	SubIDs     subids.Range       // the ids of boxes of an ordinary user; zero when they have one user each
	OneUser    string             // why they have one, with the remedy; "" when they have more
	NoRoot     string             // why boxes have no root, although they should; "" when they have one
	Netns      bool               // boxes can have a network of their own
	Redirects  bool               // and outgoing connections can be redirected
	NoRedirect string             // why not
}

// Level returns the level for new boxes: the firmest that works.
func (c Confinement) Level() spec.Level {
	if c.Plain {
		return spec.LevelProcess
	}
	return ""
}

// Confiner finds out how firmly this machine keeps sprites apart, and holds them to it.
type Confiner struct {
	*core.Core
	Confined func() Confinement // probes until it knows
}

func NewConfiner(c *core.Core) *Confiner {
	cf := &Confiner{Core: c}
	cf.Confined = cf.Probed()
	return cf
}
