package execs

import (
	"time"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/channel"

	"github.com/spritekit/lattice/orchestrator/host/fleet"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// portNotices tells the client of a session which ports open and close while it is there. It begins when the session has
// run for a moment: most commands end before, and cost nothing more. Ports that were open before the command began are not reported.
type portNotices struct {
	watch   *fleet.PortWatch
	first   int // processes with lower numbers are older than the command
	begin   *time.Timer
	joined  *fleet.PortListener
	settled bool // the ports that are not news are known
	before  []channel.Port
}

func newPortNotices(watch *fleet.PortWatch, first int) *portNotices {
	return &portNotices{watch: watch, first: first, begin: time.NewTimer(fleet.PortsEvery / 2)}
}

// joinWatch begins to listen; it is due when begin fires.
func (n *portNotices) joinWatch() { n.joined = n.watch.Join() }

// portLists returns the lists of ports as they come; nil before joinWatch.
func (n *portNotices) portLists() <-chan fleet.PortList {
	if n.joined == nil {
		return nil
	}
	return n.joined.Lists
}

// diffPorts returns the differences from the list before.
func (n *portNotices) diffPorts(now []channel.Port) []sprites.PortEvent {
	before := n.before
	if !n.settled {
		n.settled = true
		for _, p := range now {
			if p.PID < n.first {
				before = append(before, p)
			}
		}
	}
	n.before = now
	return fleet.PortChanges(before, now)
}

func (n *portNotices) endWatch() {
	n.begin.Stop()
	if n.joined != nil {
		n.watch.Part(n.joined)
	}
}
