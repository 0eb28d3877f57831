package lattice

import (
	"fmt"
	"slices"
)

// RunStatus is the state of a run (DESIGN 27).
type RunStatus string

const (
	Pending               RunStatus = "pending"
	Running               RunStatus = "running"
	Succeeded             RunStatus = "succeeded"
	Failed                RunStatus = "failed"
	Canceled              RunStatus = "canceled"
	Blocked               RunStatus = "blocked"
	BlockedWaitingForUser RunStatus = "blocked_waiting_for_user"
	Waiting               RunStatus = "waiting"
)

var transitions = map[RunStatus][]RunStatus{
	Pending:               {Running, Canceled},
	Running:               {Succeeded, Failed, Canceled, Blocked, BlockedWaitingForUser, Waiting},
	Waiting:               {Running, Failed, Canceled},
	Blocked:               {Running, Failed, Canceled},
	BlockedWaitingForUser: {Running, Failed, Canceled},
	Succeeded:             {},
	Failed:                {},
	Canceled:              {},
}

// Ended reports whether s is final.
func (s RunStatus) Ended() bool { return s == Succeeded || s == Failed || s == Canceled }

// Blocked reports whether a run has stopped at a legacy question or blocked: it does nothing more itself.
func (s RunStatus) Blocked() bool { return s == Blocked || s == BlockedWaitingForUser }

// To checks the move from s to next; staying is always legal.
func (s RunStatus) To(next RunStatus) error {
	if s == next {
		return nil
	}
	if slices.Contains(transitions[s], next) {
		return nil
	}
	return fmt.Errorf("a run that is %s cannot become %s", s, next)
}
