package sandbox

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/cgroup"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/channel"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/view"
)

// kinds are descriptors of all sorts for a hostile init to hand over: fd n%len.
func kinds(t *testing.T) (fds []int) {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	packets, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close(); packets.Close(); null.Close() })
	for _, c := range []interface{ File() (*os.File, error) }{listener.(*net.TCPListener), packets.(*net.UDPConn)} {
		f, err := c.File()
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		fds = append(fds, int(f.Fd()))
	}
	return append(fds, int(null.Fd()))
}

// FuzzConversation has an init say any words in any order, with any numbers, descriptors of any sort and claims to hold more,
// to a host that waits for a terminal, a command, a file, a connection and a list. The host comes to an end with each.
func FuzzConversation(f *testing.F) {
	f.Add([]byte{0, 1, 1, 0, 2, 1, 0, 0})                                           // started, exited
	f.Add([]byte{0, 1, 0, 0x11, 0, 2, 0, 0x13, 3, 3, 0, 0x12})                      // what is held
	f.Add([]byte{3, 1, 3, 0xf0, 3, 3, 2, 0, 3, 4, 1, 2, 3, 5, 0, 0, 4, 0, 0, 0})    // answers, with too much
	f.Add([]byte{1, 1, 0, 0, 1, 1, 0, 0, 2, 1, 0, 0, 5, 9, 3, 3, 6, 0, 2, 0})       // failed twice, and words out of place
	f.Add([]byte{7, 200, 3, 0xff, 3, 3, 0, 1, 8, 1, 1, 1, 9, 2, 2, 2, 10, 3, 3, 3}) // unknown words, deep and wide bodies
	ops := []string{channel.OpStarted, channel.OpFailed, channel.OpExited, channel.OpAnswer, channel.OpReady, channel.OpRefused, channel.OpNetwork, "surprise", channel.OpExec, channel.OpTaken, ""}
	bodies := []string{`null`, `"text"`, `[{"port":80,"address":"::","pid":5}]`, strings.Repeat("[", 5000) + strings.Repeat("]", 5000), `{"a":{"b":1e300}}`, `-1`, `true`}
	f.Fuzz(func(t *testing.T, script []byte) {
		b, inner := seized(t)
		some := kinds(t)
		ctx, cancel := context.WithCancel(t.Context())
		asked := make(chan struct{}, 5)
		for _, ask := range []func(){
			func() {
				if p, err := b.ExecContext(ctx, spec.Process{Argv: []string{"x"}, TTY: true}); err == nil {
					p.PTY.Close()
				}
			},
			func() { _, _ = b.ExecContext(ctx, spec.Process{Argv: []string{"x"}}) }, // it may end in any way, as all of these
			func() {
				if file, _, err := b.Files().Open(ctx, "/x"); err == nil {
					file.Close()
				}
			},
			func() {
				if conn, err := b.Dial(ctx, "tcp", "localhost:80"); err == nil {
					conn.Close()
				}
			},
			func() { _, _ = b.Ports(ctx) },
		} {
			go func() { ask(); asked <- struct{}{} }()
		}
		listening := make(chan struct{})
		go func() { // takes what the host says, so that it can say all
			defer close(listening)
			for {
				var r channel.Request
				files, err := inner.Receive(&r)
				channel.CloseAll(files)
				if err != nil {
					return
				}
			}
		}()
		go func() { // a host that has ended the conversation takes no more
			<-b.quiet
			inner.Conn.SetWriteDeadline(time.Unix(1, 0))
		}()
		for ; len(script) >= 4; script = script[4:] {
			r := channel.Reply{Op: ops[int(script[0])%len(ops)], ID: uint64(script[1] % 8), PID: int(script[1]), Code: int(int8(script[2])), Errno: int(script[2])}
			r.Body = json.RawMessage(bodies[int(script[2])%len(bodies)])
			for i := range script[3] >> 4 {
				r.Held = append(r.Held, int(script[2])+int(i)-3)
			}
			var fds []int
			for i := range script[3] & 0xf {
				fds = append(fds, some[(int(script[1])+int(i))%len(some)])
			}
			if inner.Send(r, fds...) != nil {
				break // the host has ended it
			}
		}
		inner.Conn.CloseWrite()
		<-b.quiet
		cancel()
		b.control.Conn.CloseWrite()
		<-listening
		// Calls are given up by their context; those that the host keeps until init has ended them, by the box's end.
		close(b.done)
		for range cap(asked) {
			<-asked
		}
		b.done = make(chan struct{}) // for the clean-up, which closes it
	})
}

// FuzzSetUp has an init say anything before it is ready.
func FuzzSetUp(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x0e{\"op\":\"ready\"}"), byte(0))
	f.Add([]byte("\x00\x00\x00\x10{\"op\":\"network\"}\x00\x00\x00\x0e{\"op\":\"ready\"}"), byte(2))
	f.Add([]byte("\x00\x00\x00\x1f{\"op\":\"network\",\"held\":[5,6,-1]}\x00\x00\x00\x0e{\"op\":\"ready\"}"), byte(0))
	f.Add([]byte("\x00\x00\x00\x33{\"op\":\"refused\",\"code\":28,\"step\":\"x\",\"error\":\"full\"}"), byte(1))
	f.Fuzz(func(t *testing.T, stream []byte, descriptors byte) {
		if len(stream) == 0 {
			return
		}
		host, child, err := channel.Pair()
		if err != nil {
			t.Fatal(err)
		}
		control, err := channel.NewSocket(host, channel.MaxReply)
		if err != nil {
			t.Fatal(err)
		}
		defer control.Conn.Close()
		inner, err := channel.NewSocket(child, channel.MaxRequest)
		if err != nil {
			t.Fatal(err)
		}
		defer inner.Conn.Close()
		some := kinds(t)
		var fds []int
		for i := range int(descriptors % 5) {
			fds = append(fds, some[i%len(some)])
		}
		talking, _ := talking(t)
		b := &Box{cfg: spec.Config{Level: spec.LevelProcess}, cmd: talking.cmd, group: new(cgroup.Group), control: control, stderr: new(tail)}
		if _, _, err := inner.Conn.WriteMsgUnix(stream[:1], syscall.UnixRights(append(fds, some[2])...), nil); err != nil {
			t.Fatal(err)
		}
		inner.Conn.Write(stream[1:])
		inner.Conn.CloseWrite()
		if err := b.setUp(view.Plan{}, nil); err == nil && !strings.Contains(string(stream), "ready") {
			t.Errorf("%q passes for a box that is ready", stream)
		}
		b.network.Close()
	})
}
