package spec

// Stages of init. The second has no privilege; a plain box knows only the first.
const (
	StageSetup = "setup"
	StageServe = "serve"
	StageRoot  = "serve-root" // serve, and start commands as root for those who ask
	StageSudo  = "sudo"       // no init: a program of the box that asks it for root
	StageHold  = "hold"       // no init: see package idrange
)

// ControlFD is where init finds its end of the control socket, in both stages.
const ControlFD = 3
