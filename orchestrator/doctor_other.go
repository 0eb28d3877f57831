//go:build !linux

package main

import (
	"golang.org/x/sys/unix"

	"github.com/spritekit/lattice/orchestrator/doctor"
)

func fileSystemKind(st unix.Statfs_t) string { return unix.ByteSliceToString(st.Fstypename[:]) }

// reflinks is for Linux: elsewhere checkpoints copy.
func reflinks(string) bool { return false }

func overlay() string { return "not on this system" }

func controlGroups() doctor.Check {
	return doctor.Check{Name: "cgroup", Status: doctor.OK, Detail: "not on this system"}
}
