package patient_test

import (
	"errors"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/patient"
)

// scarce fails to accept with what the kernel says of it, in the form in which package net does.
type scarce struct {
	net.Listener
	errs []error
}

func (s *scarce) Accept() (net.Conn, error) {
	if len(s.errs) == 0 {
		return s.Listener.Accept()
	}
	err := s.errs[0]
	s.errs = s.errs[1:]
	return nil, &net.OpError{Op: "accept", Net: "unix", Err: err}
}

func TestListener(t *testing.T) {
	t.Parallel()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := patient.Listener(&scarce{inner, []error{
		syscall.ENOSPC, syscall.ENOMEM, syscall.ENOBUFS, os.NewSyscallError("accept4", syscall.EMFILE), os.NewSyscallError("accept4", syscall.ENFILE),
	}})
	near, err := net.Dial("tcp", inner.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	conn, err := l.Accept()
	if err != nil {
		t.Fatalf("Accept during shortages = %v", err)
	}
	conn.Close()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept after Close = %v, want net.ErrClosed", err)
	}
}

func TestListenerEnds(t *testing.T) {
	t.Parallel()
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	forever := make([]error, 1000)
	for i := range forever {
		forever[i] = syscall.ENOSPC
	}
	l := patient.Listener(&scarce{inner, forever})
	time.AfterFunc(20*time.Millisecond, func() { l.Close() })
	if _, err := l.Accept(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("Accept while the listener is closed = %v, want net.ErrClosed", err)
	}
	other := patient.Listener(&scarce{inner, []error{syscall.EINVAL}})
	if _, err := other.Accept(); !errors.Is(err, syscall.EINVAL) {
		t.Errorf("Accept = %v, want EINVAL", err)
	}
}
