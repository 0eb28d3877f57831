// Package cgroup bounds what a box uses and holds its processes still by control groups, of version 1 or 2. Where this process
// may make no groups, a [Group] does nothing and says so.
package cgroup

import (
	"errors"
)

// ErrGroupGone says that the box ended while its group was being held.
var ErrGroupGone = errors.New("the control group is gone")
