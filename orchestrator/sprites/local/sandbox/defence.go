package sandbox

import "slices"

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
	DefenceReadOnly     Defence = "ro-skills"    // /skills, /.sprite and what is shown of the host cannot be written
	DefenceMaskedProc   Defence = "masked-proc"  // of /proc only what concerns the box's own processes
	DefenceNosuid       Defence = "nosuid"       // mounts ignore setuid bits and device nodes
	DefenceDumpable     Defence = "dumpable"     // init cannot be traced or read
	DefenceCloseFDs     Defence = "fd-close"     // commands inherit no descriptors of init or the host
	DefenceSession      Defence = "session"      // each command has a session and terminal of its own
	DefencePids         Defence = "pids"         // limit of processes
	DefenceMemory       Defence = "memory"       // limit of memory
	DefenceCPU          Defence = "cpu"          // limit of processor time
	DefenceTmpSize      Defence = "tmp-size"     // limit of what the box's memory file systems hold
	DefenceNetns        Defence = "netns"        // a network namespace of its own
	DefenceHostIDs      Defence = "host-ids"     // the host's root is nobody in the box
	DefencePidNamespace Defence = "pidns"        // processes of the host cannot be named
)

// defended reports whether d is in force.
func (c Config) defended(d Defence) bool { return !slices.Contains(c.Without, d) }
