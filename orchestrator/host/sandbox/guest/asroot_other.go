//go:build !linux

package guest

import (
	"errors"
	"net"
	"syscall"
)

func layAside() error                                        { return errors.ErrUnsupported }
func (s *server) asRoot(func()) error                        { return syscall.EPERM }
func listenRoot() (*net.UnixListener, error)                 { return nil, errors.ErrUnsupported }
func (s *server) serveRoot(*net.UnixListener)                {}
func (s *server) killProcess(pid int, signal syscall.Signal) { syscall.Kill(pid, signal) } // gone already is as good
