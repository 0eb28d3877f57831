// Package channel is the conversation between a box's owner and its init: the [Socket] with its frames and descriptors, and
// the requests, replies and calls that pass over it. Neither end trusts the messages that it receives beyond their form.
package channel

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"syscall"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/view"
)

// The control conversation, one JSON object per frame (four bytes of length, big endian, then the object). File
// descriptors ride with the length.
//
//	host → init   prepare (once, first) · setup (once; fds: the mounts made by the host) · exec (fds: stdin, stdout, stderr as
//	              present) · signal · call (fds: the call's) · cancel · taken (descriptors that init held for the host; see hand.go)
//	init → host   network (fds: its sockets, before ready) · ready | refused (answer setup) · started (fds: pty master) | failed (answer exec) · exited ·
//	              answer (answers call, also a cancelled one, in any order; fds: the answer's)
//
// The socket is a stream, not a sequence of datagrams: an environment may be larger than the largest datagram.
const (
	MaxRequest = 12 << 20 // argv and environment, with room: the kernel takes 6 MiB at most, which base64 makes 8
	MaxReply   = MaxAnswer + 64<<10
	MaxFDs     = 250 // the kernel takes 253 in one message
)

const (
	OpPrepare = "prepare"
	OpSetup   = "setup"
	OpExec    = "exec"
	OpSignal  = "signal"
	OpCall    = "call"
	OpCancel  = "cancel"
	OpTaken   = "taken"
	OpReady   = "ready"
	OpRefused = "refused"
	OpStarted = "started"
	OpFailed  = "failed"
	OpExited  = "exited"
	OpAnswer  = "answer"
	OpNetwork = "network"
)

// Request is a message from the host to init.
type Request struct {
	Op      string     `json:"op"`
	ID      uint64     `json:"id,omitempty"`
	Prepare *spec.Kind `json:"prepare,omitempty"`
	Setup   *view.Plan `json:"setup,omitempty"`
	Exec    *Command   `json:"exec,omitempty"`
	Signal  int        `json:"signal,omitempty"`
	Call    *Call      `json:"call,omitempty"`
}

// Command is one command as init starts it. Stdio says which of the three descriptors came along.
type Command struct {
	Program []byte   `json:"program"` // a path, or a name to look up
	Argv    Verbatim `json:"argv"`
	Env     Verbatim `json:"env"`
	Dir     []byte   `json:"dir"`
	TTY     bool     `json:"tty,omitempty"`
	Rows    uint16   `json:"rows,omitempty"`
	Cols    uint16   `json:"cols,omitempty"`
	Whole   bool     `json:"whole,omitempty"`
	Stdio   [3]bool  `json:"stdio"`
}

// Verbatim is a list of strings that travels byte by byte: bytes that are not UTF-8 would not survive as JSON strings.
type Verbatim []string

// MarshalJSON implements [json.Marshaler].
func (v Verbatim) MarshalJSON() ([]byte, error) {
	list := make([][]byte, len(v))
	for i, s := range v {
		list[i] = []byte(s)
	}
	return json.Marshal(list)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (v *Verbatim) UnmarshalJSON(data []byte) error {
	var list [][]byte
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	*v = make(Verbatim, len(list))
	for i, b := range list {
		(*v)[i] = string(b)
	}
	return nil
}

// Reply is a message from init to the host.
type Reply struct {
	Op      string          `json:"op"`
	ID      uint64          `json:"id,omitempty"`
	PID     int             `json:"pid,omitempty"`
	Program string          `json:"program,omitempty"` // started: the path that was found
	Code    int             `json:"code,omitempty"`    // exited: exit code; failed: see StartError; refused, answer: errno
	Step    string          `json:"step,omitempty"`
	Error   string          `json:"error,omitempty"`
	Body    json.RawMessage `json:"body,omitempty"`  // answer
	Errno   int             `json:"errno,omitempty"` // failed: of the shortage
	Held    []int           `json:"held,omitempty"`  // network, started, answer: numbers of init's descriptors that could not come along
}

// Socket is one end of the control socket. One goroutine receives; any may send.
type Socket struct {
	Conn  *net.UnixConn
	Limit int // bytes of one received object

	mu sync.Mutex // one frame at a time
}

// NewSocket takes over f.
func NewSocket(f *os.File, limit int) (*Socket, error) {
	defer f.Close()
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("open control socket: %w", err)
	}
	unix, ok := conn.(*net.UnixConn)
	if !ok {
		conn.Close()
		return nil, errors.New("open control socket: not a unix socket")
	}
	return &Socket{Conn: unix, Limit: limit}, nil
}

// Pair makes both ends of a control socket, neither inherited by accident.
func Pair() (host, child *os.File, err error) {
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make control socket: %w", err)
	}
	syscall.CloseOnExec(fds[0])
	syscall.CloseOnExec(fds[1])
	return os.NewFile(uintptr(fds[0]), "control"), os.NewFile(uintptr(fds[1]), "control"), nil
}

// Send sends one object. ETOOMANYREFS says that nothing was sent, and that anything without descriptors still can be: the
// kernel counts the descriptors that are on their way in sockets by user, and another box may have many on theirs.
func (c *Socket) Send(v any, fds ...int) error {
	body, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode control message: %w", err)
	}
	var oob []byte
	if len(fds) > 0 {
		oob = syscall.UnixRights(fds...)
	}
	frame := append(binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(body)), uint32(len(body))), body...)
	c.mu.Lock()
	defer c.mu.Unlock()
	n, _, err := c.Conn.WriteMsgUnix(frame, oob, nil) // at once: the other end wakes up once
	if err == nil && n < len(frame) {
		_, err = c.Conn.Write(frame[n:])
	}
	if err != nil {
		return fmt.Errorf("send control message: %w", err)
	}
	return nil
}

// Receive reads one object into v. The descriptors that came along belong to the caller, also when err is not nil.
func (c *Socket) Receive(v any) (files []*os.File, err error) {
	head := make([]byte, 4)
	oob := make([]byte, syscall.CmsgSpace(MaxFDs*4))
	n, oobn, _, _, err := c.Conn.ReadMsgUnix(head, oob)
	if err == nil && n == 0 {
		err = io.EOF
	}
	if err != nil {
		return nil, err
	}
	if files, err = parseFDs(oob[:oobn]); err != nil {
		return files, err
	}
	if _, err := io.ReadFull(c.Conn, head[n:]); err != nil {
		return files, err
	}
	size := binary.BigEndian.Uint32(head)
	if int64(size) > int64(c.Limit) {
		return files, fmt.Errorf("control message of %d bytes exceeds %d", size, c.Limit)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(c.Conn, body); err != nil {
		return files, err
	}
	if err := json.Unmarshal(body, v); err != nil {
		return files, fmt.Errorf("decode control message: %w", err)
	}
	return files, nil
}

func parseFDs(oob []byte) (files []*os.File, err error) {
	msgs, err := syscall.ParseSocketControlMessage(oob)
	if err != nil {
		return nil, fmt.Errorf("parse control descriptors: %w", err)
	}
	for _, m := range msgs {
		fds, err := syscall.ParseUnixRights(&m)
		if err != nil {
			continue // some other kind of ancillary data, without descriptors
		}
		for _, fd := range fds {
			files = append(files, os.NewFile(uintptr(fd), "received"))
		}
	}
	return files, nil
}

// CloseAll closes descriptors that came from the other end. Sockets among them must not linger: closing one that has
// something to send would wait as long as its maker says, for ever when the other end of its connection is among them.
func CloseAll(files []*os.File) {
	for _, f := range files {
		if raw, err := f.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) {
				_ = syscall.SetsockoptLinger(int(fd), syscall.SOL_SOCKET, syscall.SO_LINGER, &syscall.Linger{}) // most are no sockets
			})
		}
	}
	for _, f := range files {
		f.Close()
	}
}
