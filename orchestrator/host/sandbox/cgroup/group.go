// Package cgroup limits the resources of a box and freezes its processes by control groups, of version 1 or 2. Where this
// process may not make groups, a [Group] does nothing and reports that.
package cgroup

import (
	"errors"
)

// ErrGroupGone says that the box ended while its group was being held.
var ErrGroupGone = errors.New("the control group is gone")
