// Package sandbox runs the commands of one sprite apart from the host that owns it.
//
// Start with Config and Start: Start gives a Box, Box.Exec runs a command in it, Box.Stop ends everything in it. A host that
// starts many has a Starter, which does most of the next start ahead. The executable named by Config.Self must call Main of
// package guest when its first argument is InitArg; it then becomes the box's init. Importing package early does that, before
// the rest of the executable costs anything.
//
// The actors:
//
//	host process ── control socket (inherited, never a path) ── init ── commands, each in a session of its own
//
// Init is pid 1 of a pid namespace. The host trusts nothing that init says beyond what a sprite may do anyway; init trusts
// the host. When the socket ends, init ends, and the kernel ends all that lives in its pid namespace: a host killed
// outright leaves nothing behind, neither processes nor mounts.
//
// A box is made of user, mount, pid, ipc, uts and control group namespaces, and with Config.Network of a network namespace;
// without it the network is the host's. Commands run as user "sprite" (1000) without capabilities and without the power to
// gain any; on the host they are the user that Config.Owner names, never root. They see a read-only view of the host's system
// folders, and of everything else only what Config shows. Control groups bound what a box uses and hold it still
// (Box.Freeze) where this process may make them; BoxLimits.Enforced tells which limits hold. Sweep removes, at the start of a
// host, the groups of one that was killed.
//
// Where the system refuses namespaces, Start returns a *Refusal that says why and what to do. It never lowers the level by
// itself: the caller decides to ask for LevelProcess, and gets a plain process tree whose paths are translated. A plain box
// keeps processes together; it is not a boundary against the programs in it.
//
// The parts are packages, top to bottom: this one is the host's side of a box, guest is its init, channel the socket between
// them, view what a box shows, cgroup and idrange what the host makes for it, and spec the words that all of them use.
package sandbox

import (
	"github.com/spritekit/lattice/orchestrator/host/sandbox/cgroup"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/channel"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
)

// Names of package spec by which the owner of a box describes it.
type (
	// Config says what a box sees and may use.
	Config = spec.Config
	// Root is the tree that a box shows as /.
	Root = spec.Root
	// Point is a checkpoint that a box shows.
	Point = spec.Point
	// Level says how firmly a box is kept apart.
	Level = spec.Level
	// Limits bound what a box uses.
	Limits = spec.Limits
	// Enforcement says how a limit is kept.
	Enforcement = spec.Enforcement
	// Process is a command to run.
	Process = spec.Process
	// StartError says that a command could not be started.
	StartError = spec.StartError
	// Refusal says which step of making a box the system refused.
	Refusal = spec.Refusal
	// Shortage says that something was short for the moment.
	Shortage = spec.Shortage
	// Port is a port on which a program of a box listens.
	Port = channel.Port
)

const (
	LevelRoot      = spec.LevelRoot
	LevelUser      = spec.LevelUser
	LevelProcess   = spec.LevelProcess
	SharedDir      = spec.SharedDir
	InitArg        = spec.InitArg
	ProxyPort      = spec.ProxyPort
	DefenceMemory  = spec.DefenceMemory
	DefenceTmpSize = spec.DefenceTmpSize
)

// ErrDied says that the box ended before the answer came.
var ErrDied = spec.ErrDied

// Levels lists the levels, the firmest first.
func Levels() []Level { return spec.Levels() }

// Short reports whether err says that something was short for the moment; see [spec.Short].
func Short(err error) bool { return spec.Short(err) }

// OwnFolders lists the folders that a box has of its own; see [spec.OwnFolders].
func OwnFolders() []string { return spec.OwnFolders() }

// Skeleton makes the folders of a root; see [spec.Skeleton].
func Skeleton(dir string, uid, gid int) error { return spec.Skeleton(dir, uid, gid) }

// Furnish makes the folders of a root, and gives them their modes and owners; see [spec.Furnish].
func Furnish(dir string, uid, gid int) error { return spec.Furnish(dir, uid, gid) }

// Sweep removes the control groups of boxes whose host was killed; see [cgroup.Sweep].
func Sweep() error { return cgroup.Sweep() }
