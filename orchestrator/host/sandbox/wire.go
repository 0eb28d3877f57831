package sandbox

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
)

// The control conversation, one JSON object per frame (four bytes of length, big endian, then the object). File
// descriptors ride with the length.
//
//	host → init   prepare (once, first) · setup (once; fds: the mounts made by the host) · exec (fds: stdin, stdout, stderr as
//	              present) · signal · call (fds: the call's) · cancel · taken (what init held for the host; see fetch.go)
//	init → host   network (fds: its sockets, before ready) · ready | refused (answer setup) · started (fds: pty master) | failed (answer exec) · exited ·
//	              answer (answers call, also a cancelled one, in any order; fds: the answer's)
//
// The socket is a stream, not a sequence of datagrams: an environment may be larger than the largest datagram.
const (
	maxRequest = 12 << 20 // argv and environment, with room: the kernel takes 6 MiB at most, which base64 makes 8
	maxReply   = maxAnswer + 64<<10
	maxFDs     = 250 // the kernel takes 253 in one message
)

const (
	opPrepare = "prepare"
	opSetup   = "setup"
	opExec    = "exec"
	opSignal  = "signal"
	opCall    = "call"
	opCancel  = "cancel"
	opTaken   = "taken"
	opReady   = "ready"
	opRefused = "refused"
	opStarted = "started"
	opFailed  = "failed"
	opExited  = "exited"
	opAnswer  = "answer"
	opNetwork = "network"
)

// request is what the host says.
type request struct {
	Op      string   `json:"op"`
	ID      uint64   `json:"id,omitempty"`
	Prepare *kind    `json:"prepare,omitempty"`
	Setup   *plan    `json:"setup,omitempty"`
	Exec    *command `json:"exec,omitempty"`
	Signal  int      `json:"signal,omitempty"`
	Call    *call    `json:"call,omitempty"`
}

// command is one command as init starts it. Stdio says which of the three descriptors came along.
type command struct {
	Program []byte   `json:"program"` // a path, or a name to look up
	Argv    verbatim `json:"argv"`
	Env     verbatim `json:"env"`
	Dir     []byte   `json:"dir"`
	TTY     bool     `json:"tty,omitempty"`
	Rows    uint16   `json:"rows,omitempty"`
	Cols    uint16   `json:"cols,omitempty"`
	Whole   bool     `json:"whole,omitempty"`
	Stdio   [3]bool  `json:"stdio"`
}

// verbatim is a list of strings that travels byte by byte: what is no UTF-8 would not survive as JSON strings.
type verbatim []string

// MarshalJSON implements [json.Marshaler].
func (v verbatim) MarshalJSON() ([]byte, error) {
	list := make([][]byte, len(v))
	for i, s := range v {
		list[i] = []byte(s)
	}
	return json.Marshal(list)
}

// UnmarshalJSON implements [json.Unmarshaler].
func (v *verbatim) UnmarshalJSON(data []byte) error {
	var list [][]byte
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	*v = make(verbatim, len(list))
	for i, b := range list {
		(*v)[i] = string(b)
	}
	return nil
}

// reply is what init says.
type reply struct {
	Op      string          `json:"op"`
	ID      uint64          `json:"id,omitempty"`
	PID     int             `json:"pid,omitempty"`
	Program string          `json:"program,omitempty"` // started: the path that was found
	Code    int             `json:"code,omitempty"`    // exited: exit code; failed: see StartError; refused, answer: errno
	Step    string          `json:"step,omitempty"`
	Error   string          `json:"error,omitempty"`
	Body    json.RawMessage `json:"body,omitempty"`  // answer
	Errno   int             `json:"errno,omitempty"` // failed: of what was short
	Held    []int           `json:"held,omitempty"`  // network, started, answer: numbers of init's descriptors that could not come along
}

// channel is one end of the control socket. One goroutine receives; any may send.
type channel struct {
	conn  *net.UnixConn
	limit int // bytes of one received object

	mu sync.Mutex // one frame at a time
}

// newChannel takes over f.
func newChannel(f *os.File, limit int) (*channel, error) {
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
	return &channel{conn: unix, limit: limit}, nil
}

// socketpair makes both ends of a control socket, neither inherited by accident.
func socketpair() (host, child *os.File, err error) {
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

// send sends one object. ETOOMANYREFS says that nothing was sent, and that anything without descriptors still can be: the
// kernel counts the descriptors that are on their way in sockets by user, and another box may have many on theirs.
func (c *channel) send(v any, fds ...int) error {
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
	n, _, err := c.conn.WriteMsgUnix(frame, oob, nil) // at once: the other end wakes up once
	if err == nil && n < len(frame) {
		_, err = c.conn.Write(frame[n:])
	}
	if err != nil {
		return fmt.Errorf("send control message: %w", err)
	}
	return nil
}

// recv reads one object into v. The descriptors that came along belong to the caller, also when err is not nil.
func (c *channel) recv(v any) (files []*os.File, err error) {
	head := make([]byte, 4)
	oob := make([]byte, syscall.CmsgSpace(maxFDs*4))
	n, oobn, _, _, err := c.conn.ReadMsgUnix(head, oob)
	if err == nil && n == 0 {
		err = io.EOF
	}
	if err != nil {
		return nil, err
	}
	if files, err = parseFDs(oob[:oobn]); err != nil {
		return files, err
	}
	if _, err := io.ReadFull(c.conn, head[n:]); err != nil {
		return files, err
	}
	size := binary.BigEndian.Uint32(head)
	if int64(size) > int64(c.limit) {
		return files, fmt.Errorf("control message of %d bytes exceeds %d", size, c.limit)
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(c.conn, body); err != nil {
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

// closeAll closes descriptors that came from the other end. Sockets among them must not linger: closing one that has
// something to send would wait as long as whoever made it says, for ever when the other end of its connection is among them.
func closeAll(files []*os.File) {
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
