package guest

import (
	"context"
	"strings"
	"syscall"
	"testing"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/channel"
)

func TestUnknownCalls(t *testing.T) {
	host, child, err := channel.Pair()
	if err != nil {
		t.Fatal(err)
	}
	control, err := channel.NewSocket(host, channel.MaxReply)
	if err != nil {
		t.Fatal(err)
	}
	inner, err := channel.NewSocket(child, channel.MaxRequest)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s := &server{control: inner, ctx: ctx, pids: map[int]uint64{}, ids: map[uint64]int{}, cancels: map[uint64]context.CancelFunc{}}
	served := make(chan struct{})
	go func() {
		defer close(served)
		for s.takeRequest() == nil {
		}
		s.calls.Wait()
	}()
	t.Cleanup(func() { cancel(); control.Conn.Close(); <-served; inner.Conn.Close() })
	for i, name := range []string{"fs.none", "net.none", "none", ""} {
		if err := control.Send(channel.Request{Op: channel.OpCall, ID: uint64(i), Call: &channel.Call{Name: name, Body: []byte("{}")}}); err != nil {
			t.Fatal(err)
		}
		var r channel.Reply
		if _, err := control.Receive(&r); err != nil || r.Code != int(syscall.ENOSYS) || !strings.Contains(r.Error, "unknown call") {
			t.Errorf("call %q = %+v, %v, want ENOSYS", name, r, err)
		}
	}
}
