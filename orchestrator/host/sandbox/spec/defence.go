package spec

import (
	"slices"
)

// Defence is one of the things that hold an attacker in a box. Config.Without leaves some out, so that a test of an attack
// can show that it fails because of them and not by accident. No API, command or setting reaches it.
type Defence string

// The defences of the namespace levels.
const (
	DefenceCaps         Defence = "caps"         // all capabilities are dropped, also those over the box's own namespaces
	DefenceNoNewPrivs   Defence = "no_new_privs" // setuid programs and file capabilities give nothing
	DefenceUserns       Defence = "userns"       // no further user namespaces below the box's
	DefenceSeccomp      Defence = "seccomp"      // system calls that only attackers and system software need are refused
	DefenceLandlock     Defence = "landlock"     // a second fence around files, signals and abstract sockets
	DefenceReadOnly     Defence = "ro-skills"    // /skills, /.sprite and the folders of the host cannot be written
	DefenceMaskedProc   Defence = "masked-proc"  // /proc shows only the box's own processes
	DefenceNosuid       Defence = "nosuid"       // mounts ignore setuid bits and device nodes
	DefenceDumpable     Defence = "dumpable"     // init cannot be traced or read
	DefenceCloseFDs     Defence = "fd-close"     // commands inherit no descriptors of init or the host
	DefencePids         Defence = "pids"         // limit of processes
	DefenceMemory       Defence = "memory"       // limit of memory
	DefenceCPU          Defence = "cpu"          // limit of processor time
	DefenceTmpSize      Defence = "tmp-size"     // limit of the box's memory file systems
	DefenceShares       Defence = "shares"       // limits of resources that the kernel shares between all: terminals, inotify instances
	DefenceOwnIDs       Defence = "own-ids"      // user ids of the host that no other box has; ns-root, where Config.OwnIDs asks for it
	DefenceNetns        Defence = "netns"        // a network namespace of its own
	DefencePidNamespace Defence = "pidns"        // processes of the host cannot be named
)

// Without lists the defences that are left out.
type Without []Defence

// Defended reports whether d is in force.
func (w Without) Defended(d Defence) bool { return !slices.Contains(w, d) }

func (c Config) Defended(d Defence) bool { return Without(c.Without).Defended(d) }

// Args appends the list to a command line, for init's second stage; [ParseWithout] reads it there.
func (w Without) Args(line ...string) []string {
	for _, d := range w {
		line = append(line, string(d))
	}
	return line
}

func ParseWithout(args []string) (w Without) {
	for _, a := range args {
		w = append(w, Defence(a))
	}
	return w
}
