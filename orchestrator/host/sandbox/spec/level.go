package spec

import (
	"os"
	"slices"
)

// Level is how firmly a box is isolated from the host.
type Level string

// The levels, the firmest first.
const (
	// LevelRoot needs a host that is root: the sprite's users are none of the host's, and its files may have any owner.
	LevelRoot Level = "ns-root"
	// LevelUser needs user namespaces for ordinary users: the sprite is, for the kernel, the user who runs the host, shut
	// into namespaces. It has one user of its own, or, with Config.SubIDs, all users.
	LevelUser Level = "ns-user"
	// LevelProcess is a plain process tree with translated paths. It keeps processes together and is no boundary: do not
	// run in it any program that you would not run without it.
	LevelProcess Level = "process"
)

// Levels lists all levels, the firmest first.
func Levels() []Level { return []Level{LevelRoot, LevelUser, LevelProcess} }

// Valid reports whether l is one of Levels.
func (l Level) Valid() bool { return slices.Contains(Levels(), l) }

// AtLeast reports whether l is as firm as least or firmer. The empty level is below all, and asks for nothing.
func (l Level) AtLeast(least Level) bool { return least == "" || l.rankOf() >= least.rankOf() }

func (l Level) rankOf() int {
	i := slices.Index(Levels(), l)
	if i < 0 {
		return -1
	}
	return len(Levels()) - i
}

// Best is the firmest level that could work for the user who runs this process.
func Best() Level {
	if os.Getuid() == 0 {
		return LevelRoot
	}
	return LevelUser
}
