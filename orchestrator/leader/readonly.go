package leader

import (
	"cmp"
	"errors"
	"path/filepath"

	"github.com/spritekit/lattice/orchestrator/api"
	"github.com/spritekit/lattice/orchestrator/host"
	"github.com/spritekit/lattice/orchestrator/leader/home"
	"github.com/spritekit/lattice/orchestrator/leader/problem"
	"github.com/spritekit/lattice/orchestrator/sprites"
	"github.com/spritekit/lattice/orchestrator/store"
	"github.com/spritekit/lattice/orchestrator/worktree"
	"github.com/spritekit/lattice/spritekit/fault"
)

// IsReadOnly reports whether a home was refused because its file system is read-only.
func IsReadOnly(err error) bool {
	var p *fault.Error
	return errors.As(err, &p) && p.Fault.Code == home.CodeReadOnly
}

// openReadOnly opens a home on a read-only file system.
func (l *Leader) openReadOnly() (err error) {
	if l.store, err = store.OpenReadOnly(cmp.Or(l.cfg.Store, l.home.Store())); err != nil {
		return problem.StoreProblem(err)
	}
	if l.git, err = worktree.New(worktree.Options{Env: l.cfg.Environ, Scratch: l.cfg.ReadOnly}); err != nil {
		return err
	}
	l.openAgents()
	l.hostless = readOnly("sprites cannot run: the state directory is on a read-only file system")
	l.noSkills = l.hostless
	if l.client = l.cfg.Remote; l.client == nil {
		l.client = sprites.New(api.Base, "", api.HTTPClient(filepath.Join(l.cfg.ReadOnly, SocketName)))
	}
	l.composeParts(host.Unopened(l.hostless))
	return nil
}

// SocketName is the file name of a leader's socket.
const SocketName = "lattice.sock"

// readOnly returns the error of an operation that would have to write to the home.
func readOnly(text string) error {
	return fault.Denied(home.CodeReadOnly, "%s", text).WithHint("set LATTICE_HOME to a directory that you may write; runs can be read and backed up all the same")
}
