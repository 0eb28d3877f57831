package postgrestest

import "syscall"

// makeAttributes returns those of a server, which ends with the process that started it.
func makeAttributes(as *syscall.Credential) *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Credential: as, Pdeathsig: syscall.SIGQUIT}
}
