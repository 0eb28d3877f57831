package spec

// Stages of init. The second has no privilege; a plain box knows only the first.
const (
	StageSetup = "setup"
	StageServe = "serve"
	StageRoot  = "serve-root" // serve, and start commands as root for those who ask
	StageLone  = "serve-lone" // serve, next to a keeper of root; see Config.LoneRoot
	StageKeep  = "keep"       // no init: the keeper starts commands as root for those who ask
	StageSudo  = "sudo"       // no init: a program of the box that asks for root; see AloneArg
	StageHold  = "hold"       // no init: see package idrange
)

// ControlFD is where init finds its end of the control socket, in both stages.
const ControlFD = 3

// KeeperFD is where the second stage of init finds its end of the socket to the keeper of root.
const KeeperFD = 4

// AloneArg follows StageSudo where root is the only user that a command can be; the argument after it is the remedy.
const AloneArg = "--alone"
