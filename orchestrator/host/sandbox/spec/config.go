// Package spec describes sandboxes: [Config] holds the files and devices of a sandbox and its limits, [Level] how strongly it is isolated, and
// [Defence] names each defence. It starts nothing.
package spec

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spritekit/lattice/orchestrator/host/subids"
)

// Config describes one sandbox. Missing directories are made. All paths are absolute.
type Config struct {
	Self     string   // executable that, run with InitArg, calls Main: lattice itself
	Root     Root     // the checkpointed tree; its files belong to Owner
	Level    Level    // "" is the firmest that this user can have: LevelRoot or LevelUser
	Skills   string   // host directory shown read-only at /skills, readable by all; "" = /skills of Root, the box's own
	Run      string   // host directory shown at /.sprite (holds api.sock, which Owner must be allowed to write)
	Cache    string   // host directory shown at /var/cache/sprite, never checkpointed
	Shared   string   // host directory shown read-only at SharedDir, "" for none; a plain box does not have it
	Tools    []string // further host paths shown read-only at the same path
	Env      []string // KEY=VALUE of programs that Root has itself; see BaseEnv
	Passwd   string   // the content of /etc/passwd and /etc/group, where Root has programs itself; "" leaves its own
	Group    string
	Hostname string       // "sprite" when empty
	OwnIDs   bool         // its users are none of another box's, for the kernel; see TryOwnIDs
	SubIDs   subids.Range // at LevelUser: its users besides the sprite's own; the zero value for none
	FewPids  bool         // its pid namespace bounds its processes, because no control group does and its users are several
	AsRoot   bool         // its programs can run commands as the box's root, by sudo; see Rooted and LoneRoot
	NoRoot   string       // the message of sudo where AsRoot does not help, with the remedy
	Network  bool         // a network of its own, with nothing in it but sockets from the host
	Limits   Limits       // of its resources
	Points   []Point      // checkpoints shown read-only below /.sprite/checkpoints
	Without  []Defence    // defences left out; for tests of attacks only
}

// SharedDir is where a box shows Config.Shared.
const SharedDir = "/var/cache/shared"

// InitArg is argv[1] of the process that becomes a sandbox's init.
const InitArg = "__sprite-init"

// Process is one command to run. Stdin, Stdout and Stderr are handed over as they are (nil is /dev/null, and the caller
// keeps and closes its own copy); with TTY the box makes a pty and Proc.PTY is its master.
type Process struct {
	Program        string // a path, or a name to look up in PATH of Env; Argv[0] when empty
	Argv           []string
	Env            []string // complete
	Dir            string   // /workspace when empty
	Stdin          *os.File
	Stdout, Stderr *os.File
	TTY            bool
	Rows, Cols     uint16
	Whole          bool // when the command has ended, the rest of its process group is killed
}

// ErrDied says that the box ended before the answer came.
var ErrDied = errors.New("the sandbox ended")

// StartError says that a command could not be started although the box is well.
type StartError struct {
	Code int // the exit code of a shell: 127 not found, 126 found but not runnable
	Text string
}

func (e *StartError) Error() string { return e.Text }

// Refusal says which step of making a sandbox the system refused.
type Refusal struct {
	Step   string // such as "mount /proc"
	Cause  string // the error of the system
	Remedy string // for people
}

func (r *Refusal) Error() string {
	return fmt.Sprintf("make a sandbox: %s: %s (%s)", r.Step, r.Cause, r.Remedy)
}

func (c Config) Plain() bool { return c.Level == LevelProcess }

// Owner names the host user and group that a box made from c runs as. They own the files that it writes, and must own those that it is to
// change in Root and Cache. -1, -1 means that this system has no user to give.
func (c Config) Owner() (uid, gid int) {
	if c.Plain() {
		return os.Getuid(), os.Getgid()
	}
	return Owner()
}

// Check fills in defaults and refuses paths that could show more of the host than was meant.
func (c Config) Check() (Config, error) {
	if c.Level == "" {
		c.Level = Best()
	}
	if c.Level != LevelProcess && c.Level != Best() && c.Level.Valid() {
		return c, fmt.Errorf("sandbox: level %s is not for user %d", c.Level, os.Getuid())
	}
	if !c.Level.Valid() {
		return c, fmt.Errorf("sandbox: no level %q", c.Level)
	}
	c.Hostname = cmp.Or(c.Hostname, "sprite")
	c.Limits = c.Limits.OrDefaults(MachineMemory())
	for _, f := range []struct{ name, path string }{
		{"Self", c.Self}, {"Run", c.Run}, {"Cache", c.Cache}, {"Skills", c.Skills}, {"Shared", c.Shared},
	} {
		if f.path == "" && (f.name == "Skills" || f.name == "Shared") {
			continue
		}
		if err := absoluteBelow(f.name, f.path); err != nil {
			return c, err
		}
	}
	if err := c.Root.checkWritable(c.Level); err != nil {
		return c, err
	}
	for _, p := range c.Points {
		if err := p.Check(); err != nil {
			return c, err
		}
	}
	for _, t := range c.Tools {
		if err := c.checkTool(t); err != nil {
			return c, err
		}
	}
	return c, nil
}

// checkTool refuses a tool path that would cover a folder of the box or uncover the sprite's own files.
func (c Config) checkTool(t string) error {
	if !filepath.IsAbs(t) || filepath.Clean(t) == "/" {
		return fmt.Errorf("sandbox: tool path must be an absolute path below /, not %q", t)
	}
	for _, own := range append([]string{c.Root.Dir, c.Root.Upper, c.Run, c.Cache}, c.Root.Lower...) {
		if own == "" {
			continue
		}
		if Within(own, t) {
			return fmt.Errorf("sandbox: tool path %s would show the sprite's own files in %s", t, own)
		}
	}
	for _, seen := range ownFolders {
		if Within(t, seen) || Within(seen, t) {
			return fmt.Errorf("sandbox: tool path %s overlaps with the sandbox's own %s; move the tool elsewhere", t, seen)
		}
	}
	return nil
}

// Kind holds the properties of an init that cannot be changed once its process exists.
type Kind struct {
	Self     string       `json:"-"`
	HostPids bool         `json:"-"` // it is in the host's pid namespace
	Level    Level        `json:"level"`
	OwnIDs   bool         `json:"-"` // its users are none of another init's
	SubIDs   subids.Range `json:"-"`
	Network  bool         `json:"network,omitempty"` // the network namespace is new: to be set up, and its sockets handed over
}

func (c Config) Kind() Kind {
	k := Kind{Self: c.Self, HostPids: !c.Defended(DefencePidNamespace), Level: c.Level, Network: c.OwnNetwork(), OwnIDs: c.OwnIDs && c.Level == LevelRoot && c.Defended(DefenceOwnIDs)}
	if c.Level == LevelUser {
		k.SubIDs = c.SubIDs
	}
	return k
}

func (c Config) OwnNetwork() bool { return c.Network && !c.Plain() && c.Defended(DefenceNetns) }

// LoneRoot reports whether the box has a root that commands can be, but no other users: at LevelUser without SubIDs the kernel
// knows a single one. Root is then the sprite's user under the number 0, in a user namespace of its own, with the capabilities of root over the
// files and processes of that user.
func (c Config) LoneRoot() bool {
	return c.AsRoot && c.Level == LevelUser && !c.SubIDs.Valid() && len(c.Without) == 0
}

// Rooted reports whether the box has a root that commands can be, and with it any other user.
func (c Config) Rooted() bool {
	return c.AsRoot && (c.Level == LevelRoot || c.Level == LevelUser && c.SubIDs.Valid()) && c.Defended(DefenceCaps)
}
