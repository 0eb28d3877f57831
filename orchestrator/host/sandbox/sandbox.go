// Package sandbox runs the commands of one sprite apart from the host that owns it.
//
// Start with Config and Start: Start gives a Box, Box.Exec runs a command in it, Box.Stop ends everything in it. A host that
// starts many has a Starter, which does most of the next start ahead. The executable named by Config.Self must call Main when
// its first argument is InitArg; it then becomes the box's init. Importing package early does that, before the rest of the
// executable costs anything.
//
// The actors:
//
//	host process ── control socket (inherited, never a path) ── init ── commands, each in a session of its own
//
// Init is pid 1 of a pid namespace. The host trusts nothing that init says beyond what a sprite may do anyway; init trusts
// the host. When the socket ends, init ends, and the kernel ends all that lives in its pid namespace: a host killed
// outright leaves nothing behind, neither processes nor mounts.
//
// A box is made of user, mount, pid, ipc, uts and control group namespaces, and with Config.Network of a network namespace;
// without it the network is the host's. Commands run as user "sprite" (1000) without capabilities and without the power to
// gain any; on the host they are the user that Config.Owner names, never root. They see a read-only view of the host's system
// folders, and of everything else only what Config shows. Control groups bound what a box uses and hold it still
// (Box.Freeze) where this process may make them; Box.Enforced tells which limits hold. Sweep removes, at the start of a
// host, the groups of one that was killed.
//
// Where the system refuses namespaces, Start returns a *Refusal that says why and what to do. It never lowers the level by
// itself: the caller decides to ask for LevelProcess, and gets a plain process tree whose paths are translated. A plain box
// keeps processes together; it is no boundary against what runs in it.
package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// Config says what one sandbox sees. Missing directories are made. All paths are absolute.
type Config struct {
	Self     string   // executable that, run with InitArg, calls Main: lattice itself
	Root     Root     // the checkpointed tree; what lies in it belongs to Owner
	Level    Level    // "" is the firmest that this user can have: LevelRoot or LevelUser
	Skills   string   // host directory shown read-only at /skills, readable by all; "" = /skills of Root, the box's own
	Run      string   // host directory shown at /.sprite (holds api.sock, which Owner must be allowed to write)
	Cache    string   // host directory shown at /var/cache/sprite, never checkpointed
	Shared   string   // host directory shown read-only at SharedDir, "" for none; a plain box does not have it
	Tools    []string // further host paths shown read-only at the same path
	Env      []string // KEY=VALUE of programs that Root has itself; see BaseEnv
	Passwd   string   // what /etc/passwd and /etc/group are, where Root has programs itself; "" leaves its own
	Group    string
	Hostname string    // "sprite" when empty
	OwnIDs   bool      // its users are none of another box's, for the kernel; see TryOwnIDs
	AsRoot   bool      // its programs can run commands as the box's root, by sudo; LevelRoot only
	NoRoot   string    // without AsRoot: what sudo says, and what can be done about it
	Network  bool      // a network of its own, with nothing in it but what the host hands over
	Limits   Limits    // what it may use
	Points   []Point   // checkpoints shown read-only below /.sprite/checkpoints
	Without  []Defence // defences left out; for tests of attacks only
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
	Whole          bool // when the command has ended, what is left of its process group is killed
}

// ErrDied says that the box ended before the answer came.
var ErrDied = errors.New("the sandbox ended")

// StartError says that a command could not be started although the box is well.
type StartError struct {
	Code int // what a shell would exit with: 127 not found, 126 found but not runnable
	Text string
}

func (e *StartError) Error() string { return e.Text }

// Refusal says which step of making a sandbox the system refused.
type Refusal struct {
	Step   string // what was being done, such as "mount /proc"
	Cause  string // what the system answered
	Remedy string // what a person can do about it
}

func (r *Refusal) Error() string {
	return fmt.Sprintf("make a sandbox: %s: %s (%s)", r.Step, r.Cause, r.Remedy)
}

func (c Config) plain() bool { return c.Level == LevelProcess }

// Owner names the host user and group that a box made from c runs as. They own what it writes, and must own what it is to
// change in Root and Cache. -1, -1 means that this system has no user to give.
func (c Config) Owner() (uid, gid int) {
	if c.plain() {
		return os.Getuid(), os.Getgid()
	}
	return Owner()
}

// checked fills in defaults and refuses what could show more of the host than was meant.
func (c Config) checked() (Config, error) {
	if c.Level == "" {
		c.Level = best()
	}
	if c.Level != LevelProcess && c.Level != best() && c.Level.Valid() {
		return c, fmt.Errorf("sandbox: level %s is not for user %d", c.Level, os.Getuid())
	}
	if !c.Level.Valid() {
		return c, fmt.Errorf("sandbox: no level %q", c.Level)
	}
	if c.Hostname == "" {
		c.Hostname = "sprite"
	}
	c.Limits = c.Limits.orDefaults(machineMemory())
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
		if err := p.check(); err != nil {
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
		if within(own, t) {
			return fmt.Errorf("sandbox: tool path %s would show the sprite's own files in %s", t, own)
		}
	}
	for _, seen := range ownFolders {
		if within(t, seen) || within(seen, t) {
			return fmt.Errorf("sandbox: tool path %s overlaps with the sandbox's own %s; move the tool elsewhere", t, seen)
		}
	}
	return nil
}
