package channel

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net/netip"
	"os"
)

// A call asks init for something that is best done inside: it has a name, a JSON body and descriptors, and so has its
// answer, or an error that keeps its number and text.
const (
	MaxCalls   = 64      // at work at a time in one box; more wait on the host's side
	MaxCallFDs = 16      // descriptors of one call or answer
	MaxCall    = 1 << 20 // bytes of a call's body
	MaxAnswer  = 1 << 20 // bytes of an answer's body
	MaxText    = 4 << 10 // bytes of an error's text
)

// Call is one call on its way to init.
type Call struct {
	Name string          `json:"name"`
	Body json.RawMessage `json:"body,omitempty"`
}

// Answer is the reply to a call, with the descriptors, which then belong to the caller.
type Answer struct {
	Reply
	Files []*os.File
}

// Calls to init about the sprite's files. It does them as the sprite's user, so that every path means the same as in the
// box.
const (
	FSOpen  = "fs.open"  // FSTarget → the open regular file as descriptor
	FSWrite = "fs.write" // FSTarget, the content as descriptor → the mode it got
	FSDo    = "fs.do"    // files.Op, the writing end of a pipe → nothing; entries go into the pipe
	FSWatch = "fs.watch" // one end of a socket, over which files.Watch talks; the answer comes when that is over
)

// AsRoot begins the names of these calls, FSWatch excepted, where init is to do them as the root of a box that has one.
const AsRoot = "root."

type FSTarget struct {
	Path []byte       `json:"path"`
	Size int64        `json:"size,omitempty"`
	Mode *fs.FileMode `json:"mode,omitempty"`
}

// MaxWatches bounds the conversations about changes in one box.
const MaxWatches = 16

// NetTarget is where the host wants to be connected to in the box's network.
type NetTarget struct {
	Network string `json:"network"`
	Host    string `json:"host"`
	Port    uint16 `json:"port"`
	// Shared says that the box has no network of its own. A listener is then only reached when a process of the box
	// holds the socket: all else on the same addresses is the host's.
	Shared bool `json:"shared,omitempty"`
}

// ErrOutside says that an address is not one of the box's own. Dial reaches nothing else, so that a connection into a box
// does not lead through it.
var ErrOutside = errors.New("only the sprite's own addresses can be reached: localhost, or an address of its own")

// Port is a TCP socket that a process of the box listens on.
type Port struct {
	Port    int    `json:"port"`
	Address string `json:"address"` // it is bound to; 0.0.0.0 or :: for all
	PID     int    `json:"pid"`     // of a process that holds it, as the box numbers processes
}

// Covers reports whether a connection to addr and port ends at p.
func (p Port) Covers(addr netip.Addr, port uint16) bool {
	bound, err := netip.ParseAddr(p.Address)
	if err != nil || p.Port != int(port) {
		return false
	}
	bound = bound.Unmap()
	return bound == addr || bound.IsUnspecified() && (bound.Is6() || addr.Is4())
}

// MaxPorts bounds how many sockets Ports tells of.
const MaxPorts = 4096
