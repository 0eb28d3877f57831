package sandbox

import (
	"context"
	"strings"
	"syscall"
	"testing"
)

func TestUnknownCalls(t *testing.T) {
	host, child, err := socketpair()
	if err != nil {
		t.Fatal(err)
	}
	control, err := newChannel(host, maxReply)
	if err != nil {
		t.Fatal(err)
	}
	inner, err := newChannel(child, maxRequest)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s := &server{control: inner, ctx: ctx, pids: map[int]uint64{}, ids: map[uint64]int{}, cancels: map[uint64]context.CancelFunc{}}
	served := make(chan struct{})
	go func() {
		defer close(served)
		for s.next() == nil {
		}
		s.calls.Wait()
	}()
	t.Cleanup(func() { cancel(); control.conn.Close(); <-served; inner.conn.Close() })
	for i, name := range []string{"fs.none", "net.none", "none", ""} {
		if err := control.send(request{Op: opCall, ID: uint64(i), Call: &call{Name: name, Body: []byte("{}")}}); err != nil {
			t.Fatal(err)
		}
		var r reply
		if _, err := control.recv(&r); err != nil || r.Code != int(syscall.ENOSYS) || !strings.Contains(r.Error, "unknown call") {
			t.Errorf("call %q = %+v, %v, want ENOSYS", name, r, err)
		}
	}
}
