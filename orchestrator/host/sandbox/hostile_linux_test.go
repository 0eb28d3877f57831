package sandbox

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/files"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/channel"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
	"golang.org/x/sys/unix"
)

// This file plays an init that what runs in the box has taken over: it says what it likes to the host, which must neither
// crash, nor hang, nor keep descriptors, nor take one thing for another.

// seized gives a box whose init is played by the test.
func seized(t *testing.T) (*Box, *channel.Socket) {
	b, inner := talking(t)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.plain = map[int]bool{}
	return b, inner
}

// taken plays init and says whether the host should be done with it.
type taken struct {
	name string
	say  func(t *testing.T, inner *channel.Socket)
	ends bool // the host ends the conversation
}

func rawFrame(t *testing.T, c *channel.Socket, length uint32, body string, fds ...int) {
	t.Helper()
	oob := []byte(nil)
	if len(fds) > 0 {
		oob = syscall.UnixRights(fds...)
	}
	head := binary.BigEndian.AppendUint32(nil, length)
	if _, _, err := c.Conn.WriteMsgUnix(head, oob, nil); err != nil {
		return // the host has ended it
	}
	c.Conn.Write([]byte(body))
}

func said(t *testing.T, c *channel.Socket, body string, fds ...int) {
	rawFrame(t, c, uint32(len(body)), body, fds...)
}

func openDescriptors(t *testing.T) map[string]string {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, e := range entries {
		if to, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil {
			all[e.Name()] = to
		}
	}
	return all
}

// sameDescriptors compares by what is open, so that the runtime's own ones may have moved.
func sameDescriptors(t *testing.T, before map[string]string) {
	t.Helper()
	count := func(all map[string]string) map[string]int {
		n := map[string]int{}
		for _, to := range all {
			kind, _, _ := strings.Cut(to, ":[")
			n[kind]++
		}
		return n
	}
	was, is := count(before), count(openDescriptors(t))
	for kind, n := range is {
		if n > was[kind] && !strings.HasPrefix(kind, "anon_inode") {
			t.Errorf("%d × %s stay open, there were %d", n, kind, was[kind])
		}
	}
}

func TestHostileInit(t *testing.T) {
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	many := make([]int, channel.MaxFDs)
	for i := range many {
		many[i] = int(null.Fd())
	}
	for _, c := range []taken{
		{"a length without end", func(t *testing.T, c *channel.Socket) { rawFrame(t, c, 1<<32-1, "") }, true},
		{"a frame that is larger than any", func(t *testing.T, c *channel.Socket) { rawFrame(t, c, channel.MaxReply+1, "x") }, true},
		{"half a frame, and silence", func(t *testing.T, c *channel.Socket) { rawFrame(t, c, 1000, `{"op":`) }, false},
		{"half a length", func(t *testing.T, c *channel.Socket) { c.Conn.Write([]byte{0, 0}) }, false},
		{"an empty frame", func(t *testing.T, c *channel.Socket) { said(t, c, "") }, true},
		{"no JSON", func(t *testing.T, c *channel.Socket) { said(t, c, "\x00\xff") }, true},
		{"JSON of another form", func(t *testing.T, c *channel.Socket) { said(t, c, `[1,2,3]`) }, true},
		{"JSON that is very deep", func(t *testing.T, c *channel.Socket) { said(t, c, strings.Repeat("[", 1<<20)) }, true},
		{"numbers out of range", func(t *testing.T, c *channel.Socket) { said(t, c, `{"op":"exited","id":1e400}`) }, true},
		{"a negative number", func(t *testing.T, c *channel.Socket) { said(t, c, `{"op":"exited","id":-1}`) }, true},
		{"an unknown word", func(t *testing.T, c *channel.Socket) { said(t, c, `{"op":"surprise","id":1,"body":{"a":[]}}`) }, false},
		{"ready again", func(t *testing.T, c *channel.Socket) { said(t, c, `{"op":"ready"}`) }, false},
		{"a network too late", func(t *testing.T, c *channel.Socket) { said(t, c, `{"op":"network"}`, many[:2]...) }, false},
		{"the end of a command that never began", func(t *testing.T, c *channel.Socket) { said(t, c, `{"op":"exited","id":7,"code":3}`, many[:1]...) }, false},
		{"answers to calls never made", func(t *testing.T, c *channel.Socket) {
			for id := range uint64(3 * channel.MaxCalls) {
				said(t, c, fmt.Sprintf(`{"op":"answer","id":%d}`, id), many[:1]...)
			}
		}, false},
		{"as many descriptors as the kernel carries", func(t *testing.T, c *channel.Socket) {
			for range 60 {
				said(t, c, `{"op":"started","id":9}`, many...)
			}
		}, false},
		{"descriptors and then no JSON", func(t *testing.T, c *channel.Socket) { said(t, c, "}", many...) }, true},
		{"descriptors beside the length", func(t *testing.T, c *channel.Socket) {
			body := `{"op":"started","id":9}`
			c.Conn.Write(binary.BigEndian.AppendUint32(nil, uint32(len(body))))
			c.Conn.WriteMsgUnix([]byte(body), syscall.UnixRights(many...), nil)
		}, false},
		{"connections that would not be closed for an hour", lingeringPair, false},
		{"descriptors of its own socket", ownSocket, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := openDescriptors(t)
			t.Cleanup(func() { sameDescriptors(t, before) }) // after the box is gone
			b, inner := seized(t)
			c.say(t, inner)
			if c.ends {
				<-b.quiet
				return
			}
			// A host that still listens takes a command's start and end; one that waits for the rest of a frame may not.
			if !strings.HasPrefix(c.name, "half") {
				alive(t, b, inner)
			}
		})
	}
}

// alive has a command start and end over the conversation.
func alive(t *testing.T, b *Box, inner *channel.Socket) {
	t.Helper()
	played := make(chan struct{})
	go func() {
		defer close(played)
		var r channel.Request
		files, err := inner.Receive(&r)
		channel.CloseAll(files)
		if err != nil || r.Op != channel.OpExec {
			t.Errorf("init hears %+v, %v", r, err)
			return
		}
		said(t, inner, fmt.Sprintf(`{"op":"started","id":%d,"pid":4}`, r.ID))
		said(t, inner, fmt.Sprintf(`{"op":"exited","id":%d,"code":3}`, r.ID))
		said(t, inner, fmt.Sprintf(`{"op":"exited","id":%d,"code":4}`, r.ID))
	}()
	p, err := b.Exec(spec.Process{Argv: []string{"x"}})
	<-played
	if err != nil {
		t.Fatal(err)
	}
	if code, err := p.Wait(); code != 3 || err != nil {
		t.Errorf("Wait = %d, %v", code, err)
	}
}

// lingeringPair hands over both ends of a connection with something to send that nobody takes.
func lingeringPair(t *testing.T, c *channel.Socket) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	near, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	var fds []int
	var copies, ends []io.Closer
	for _, conn := range []net.Conn{near, far} {
		tcp := conn.(*net.TCPConn)
		if err := tcp.SetLinger(3600); err != nil {
			t.Fatal(err)
		}
		tcp.SetWriteDeadline(time.Now().Add(50 * time.Millisecond))
		for conn == near && err == nil { // until there is no room
			_, err = tcp.Write(make([]byte, 1<<20))
		}
		f, err := tcp.File()
		if err != nil {
			t.Fatal(err)
		}
		fds, copies, ends = append(fds, int(f.Fd())), append(copies, f), append(ends, conn)
	}
	// The host has them with the length of the frame, and closes them after the rest, when it has the last copies.
	body := `{"op":"answer","id":77}`
	rawFrame(t, c, uint32(len(body)), "", fds...)
	for _, f := range append(copies, ends...) {
		f.Close()
	}
	c.Conn.Write([]byte(body))
}

// ownSocket hands over the socket that it talks through, which then keeps itself open.
func ownSocket(t *testing.T, c *channel.Socket) {
	f, err := c.Conn.File()
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for range 8 {
		said(t, c, `{"op":"started","id":5}`, int(f.Fd()))
	}
}

// What init hands over for a file must be one, and nothing behind which the host would wait or be led astray.
func TestHostileFiles(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, name) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(os.WriteFile(path("file"), []byte("content"), 0o600))
	must(unix.Mkfifo(path("fifo"), 0o600))
	open := func(name string, flags int) func() (int, error) {
		return func() (int, error) { return unix.Open(name, flags|unix.O_CLOEXEC, 0) }
	}
	for _, c := range []struct {
		name string
		open func() (int, error)
		ok   bool
	}{
		{"a file", open(path("file"), unix.O_RDONLY), true},
		{"a file that can be written, too", open(path("file"), unix.O_RDWR), true},
		{"a file that can only be written", open(path("file"), unix.O_WRONLY), false},
		{"a file that is only named", open(path("file"), unix.O_PATH), false},
		{"a folder", open(dir, unix.O_RDONLY), false},
		{"a pipe", open(path("fifo"), unix.O_RDWR|unix.O_NONBLOCK), false},
		{"a device", open("/dev/zero", unix.O_RDONLY), false},
		{"a file of the kernel's", open("/proc/self/status", unix.O_RDONLY), false},
		{"a socket", func() (int, error) { return unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0) }, false},
		{"a watch", func() (int, error) { return unix.InotifyInit1(unix.IN_CLOEXEC) }, false},
		{"a process", func() (int, error) { return unix.PidfdOpen(os.Getpid(), 0) }, false},
		{"memory", func() (int, error) { return unix.MemfdCreate("x", unix.MFD_CLOEXEC) }, true},
	} {
		before := openDescriptors(t)
		fd, err := c.open()
		must(err)
		b, inner := seized(t)
		answerCall(t, inner, `{"op":"answer","id":%d}`, fd)
		f, _, err := b.Files().Open(t.Context(), "/x")
		if (err == nil) != c.ok {
			t.Errorf("%s: Open = %v", c.name, err)
		}
		if f != nil {
			f.Close()
		}
		for _, n := range []int{0, 2} {
			answerCall(t, inner, `{"op":"answer","id":%d}`, []int{fd, fd}[:n]...)
			if _, _, err := b.Files().Open(t.Context(), "/x"); err == nil {
				t.Errorf("%s: Open takes %d descriptors for one", c.name, n)
			}
		}
		inner.Conn.Close()
		<-b.quiet
		b.control.Conn.Close()
		unix.Close(fd)
		sameDescriptors(t, before)
	}
}

// answerCall has init answer the next call, in a goroutine that ends with the test's wait for the call.
func answerCall(t *testing.T, inner *channel.Socket, format string, fds ...int) {
	t.Helper()
	go func() {
		var r channel.Request
		files, err := inner.Receive(&r)
		channel.CloseAll(files)
		if err == nil {
			said(t, inner, fmt.Sprintf(format, r.ID), fds...)
		}
	}()
}

// A connection must be one, to the port that was asked for.
func TestHostileConnections(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	socket := func(family, kind int) func() (int, error) {
		return func() (int, error) { return unix.Socket(family, kind|unix.SOCK_CLOEXEC, 0) }
	}
	connected := func() (int, error) {
		fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err == nil {
			err = unix.Connect(fd, &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}})
		}
		return fd, err
	}
	for _, c := range []struct {
		name string
		open func() (int, error)
		port int
		ok   bool
	}{
		{"the connection", connected, port, true},
		{"a connection to another port", connected, port ^ 1, false},
		{"a socket that is not connected", socket(unix.AF_INET, unix.SOCK_STREAM), port, false},
		{"a datagram socket", socket(unix.AF_INET, unix.SOCK_DGRAM), port, false},
		{"a unix socket", socket(unix.AF_UNIX, unix.SOCK_STREAM), port, false},
		{"a file", func() (int, error) { return unix.Open("/etc/passwd", unix.O_RDONLY|unix.O_CLOEXEC, 0) }, port, false},
	} {
		fd, err := c.open()
		if err != nil {
			t.Fatal(err)
		}
		b, inner := seized(t)
		answerCall(t, inner, `{"op":"answer","id":%d}`, fd)
		conn, err := b.Dial(t.Context(), "tcp", fmt.Sprintf("localhost:%d", c.port))
		if (err == nil) != c.ok {
			t.Errorf("%s: Dial = %v", c.name, err)
		}
		if conn != nil {
			conn.Close()
		}
		unix.Close(fd)
	}
	b, inner := seized(t)
	answerCall(t, inner, `{"op":"answer","id":%d,"body":[{"port":-1,"address":"1.2.3.4","pid":1},{"port":80,"address":"../../etc","pid":1},{"port":99999999,"address":"::","pid":1},{"port":80,"address":"::","pid":-5},{"port":80,"address":"::","pid":5}]}`)
	if ports, err := b.Ports(t.Context()); err != nil || len(ports) != 1 {
		t.Errorf("Ports = %v, %v, want the one that makes sense", ports, err)
	}
}

// A list without end is ended by who asked; one of nothing by its context; names are names and nothing else.
func TestHostileEntries(t *testing.T) {
	play := func(inner *channel.Socket, write func(w *os.File)) {
		go func() {
			var r channel.Request
			received, err := inner.Receive(&r)
			if err == nil && len(received) == 1 {
				write(received[0])
			}
			channel.CloseAll(received)
			body, _ := json.Marshal(channel.Reply{Op: channel.OpAnswer, ID: r.ID})
			said(t, inner, string(body))
		}()
	}
	b, inner := seized(t)
	enough := errors.New("enough")
	play(inner, func(w *os.File) {
		out := files.NewEncoder(w)
		for out.Entry(files.Entry{Rel: "../../../etc/passwd\x00\n\x1b[2J", Mode: fs.ModeSetuid | 0o777, Size: -1, ModTime: time.Unix(1, 0)}) == nil {
		}
	})
	n := 0
	err := b.Files().Do(t.Context(), files.Op{Kind: files.List, Path: []byte("/")}, func(files.Entry) error {
		if n++; n == 1000 {
			return enough
		}
		return nil
	})
	if !errors.Is(err, enough) {
		t.Errorf("Do = %v after %d entries", err, n)
	}

	b, inner = seized(t)
	ctx, cancel := context.WithCancel(t.Context())
	play(inner, func(w *os.File) {
		cancel() // whoever asked goes
		for i := 0; ; i++ {
			if _, err := w.Write([]byte{2}); err != nil { // ticks
				return
			}
		}
	})
	if err := b.Files().Do(ctx, files.Op{Kind: files.List, Path: []byte("/")}, func(files.Entry) error { return nil }); err == nil {
		t.Error("a list of nothing ends well")
	}

	for _, garbage := range []string{"", "\x01", "\x03", "\x01" + strings.Repeat("\xff", 22) + "x"} {
		b, inner = seized(t)
		play(inner, func(w *os.File) { w.WriteString(garbage) })
		if err := b.Files().Do(t.Context(), files.Op{Kind: files.List, Path: []byte("/")}, func(files.Entry) error { return nil }); !errors.Is(err, files.ErrCut) {
			t.Errorf("Do of %q = %v", garbage, err)
		}
	}
}

// What looks like a terminal must be the master side of one.
func TestHostileTerminal(t *testing.T) {
	b, inner := seized(t)
	for _, name := range []string{os.DevNull, "/proc/self/status", t.TempDir()} {
		f, err := os.Open(name)
		if err != nil {
			t.Fatal(err)
		}
		answerCall(t, inner, `{"op":"started","id":%d,"pid":2}`, int(f.Fd()))
		if p, err := b.Exec(spec.Process{Argv: []string{"x"}, TTY: true}); err == nil {
			t.Errorf("%s is taken for a terminal: %+v", name, p)
		}
		f.Close()
	}
}

// FuzzReplies sends any bytes and descriptors to a host that waits for answers.
func FuzzReplies(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x0e{\"op\":\"ready\"}"), 0)
	f.Add([]byte("\x00\x00\x00\x1b{\"op\":\"started\",\"id\":1,\"pid\":3}"), 1)
	f.Add([]byte("\x00\x00\x00\x18{\"op\":\"answer\",\"id\":2,\"body\":[]}"), 3)
	f.Add([]byte("\xff\xff\xff\xff"), 200)
	f.Fuzz(func(t *testing.T, stream []byte, descriptors int) {
		null, err := os.Open(os.DevNull)
		if err != nil {
			t.Fatal(err)
		}
		defer null.Close()
		var fds []int
		for range uint(descriptors) % channel.MaxFDs {
			fds = append(fds, int(null.Fd()))
		}
		b, inner := seized(t)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		waiting := make(chan struct{})
		go func() {
			defer close(waiting)
			var ports []channel.Port
			received, _ := b.callInit(ctx, "net.ports", nil, nil, &ports) // it may end in any way
			channel.CloseAll(received)
		}()
		var r channel.Request
		if _, err := inner.Receive(&r); err != nil {
			t.Fatal(err)
		}
		if len(stream) == 0 {
			return
		}
		inner.Conn.WriteMsgUnix(stream[:1], syscall.UnixRights(append(fds, int(null.Fd()))...), nil)
		inner.Conn.Write(stream[1:])
		inner.Conn.CloseWrite()
		<-b.quiet
		cancel()
		<-waiting
	})
}

// What init holds for somebody who has gone, or does not want it, it is told to close: once each, whatever the host waits for.
func TestHeldForNobody(t *testing.T) {
	told := func(inner *channel.Socket, op string) channel.Request {
		t.Helper()
		for {
			var r channel.Request
			files, err := inner.Receive(&r)
			channel.CloseAll(files)
			if err != nil {
				t.Fatal(err)
			}
			if r.Op == op {
				return r
			}
		}
	}
	held := fmt.Sprintf(`"held":[%d]`, 1)
	for name, do := range map[string]func(ctx context.Context, b *Box){
		"a command": func(ctx context.Context, b *Box) { _, _ = b.ExecContext(ctx, spec.Process{Argv: []string{"x"}}) }, // it may end in any way
		"a terminal": func(ctx context.Context, b *Box) {
			_, _ = b.ExecContext(ctx, spec.Process{Argv: []string{"x"}, TTY: true})
		},
		"a call": func(ctx context.Context, b *Box) {
			files, _ := b.callInit(ctx, "fs.x", 1, nil, nil)
			channel.CloseAll(files)
		},
	} {
		for _, gone := range []bool{false, true} {
			b, inner := seized(t)
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() { defer close(ended); do(ctx, b) }()
			var asked channel.Request
			files, err := inner.Receive(&asked)
			channel.CloseAll(files)
			if err != nil {
				t.Fatal(err)
			}
			if gone {
				cancel()
				<-ended
			}
			op := channel.OpStarted
			if asked.Op == channel.OpCall {
				op = channel.OpAnswer
			}
			said(t, inner, fmt.Sprintf(`{"op":%q,"id":%d,"pid":4,%s}`, op, asked.ID, held))
			if r := told(inner, channel.OpTaken); r.ID != asked.ID {
				t.Errorf("%s, gone %t: init is told of %d, want %d", name, gone, r.ID, asked.ID)
			}
			cancel()
			<-ended
		}
	}
}
