//go:build !linux

package postgrestest

import "syscall"

// makeAttributes returns those of a server.
func makeAttributes(as *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: as}
}
