package sandbox

import "os"

// Config says what one sandbox sees. Root is a host directory with workspace/, home/sprite/ and tmp/ (the checkpointed
// tree); they appear as /workspace, /home/sprite and /tmp.
type Config struct {
	Self   string   // executable that, run with InitArg, calls Main: lattice itself
	Root   string   // checkpointed tree on the host
	Skills string   // host directory shown read-only at /skills
	Run    string   // host directory shown at /.sprite (holds api.sock)
	Cache  string   // host directory shown at /var/cache/sprite, never checkpointed
	Tools  []string // further host paths shown read-only at the same path
}

// InitArg is argv[1] of the process that becomes a sandbox's init.
const InitArg = "__sprite-init"

// Process is one command to run. Stdin, Stdout and Stderr are handed over as they are; with TTY the box makes a pty
// and Proc.PTY is its master.
type Process struct {
	Argv           []string
	Env            []string // complete
	Dir            string
	Stdin          *os.File
	Stdout, Stderr *os.File
	TTY            bool
	Rows, Cols     uint16
}

// Box is a running sandbox. All its processes end with it, and it ends with the host process.
type Box struct{}

// Proc is a process in a box.
type Proc struct {
	PID int      // as seen by the host API: the pid inside the sandbox
	PTY *os.File // master side, TTY only; the caller closes it
}

func Start(cfg Config) (*Box, error)            { return nil, nil }
func (b *Box) Exec(p Process) (*Proc, error)    { return nil, nil }
func (b *Box) Stop() error                      { return nil } // kills everything and waits
func (b *Box) Done() <-chan struct{}            { return nil } // closed when init is gone
func (b *Box) Translated() bool                 { return false }
func (b *Box) HostPath(p string) string         { return p }
func (p *Proc) Signal(sig string) error         { return nil }
func (p *Proc) Resize(rows, cols uint16) error  { return nil }
func (p *Proc) Wait() (exitCode int, err error) { return 0, nil } // 128+n after signal n; err when the box died
func Main(args []string) int                    { return 0 }
