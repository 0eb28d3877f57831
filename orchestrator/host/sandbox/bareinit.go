package sandbox

import (
	"errors"
	"os"
	"os/exec"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/cgroup"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/channel"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/idrange"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/view"
)

// bareInit is an init, in its namespaces and control groups, that has not received its plan. Nothing of a sprite has been
// in it.
type bareInit struct {
	kind    spec.Kind
	ids     *idrange.Range // nil without OwnIDs
	cmd     *exec.Cmd
	group   *cgroup.Group
	control *channel.Socket
	stderr  *tail
}

// startInit starts an init. The caller makes its box, or discards it.
func startInit(k spec.Kind) (*bareInit, error) {
	host, child, err := channel.Pair()
	if err != nil {
		return nil, err
	}
	defer child.Close()
	control, err := channel.NewSocket(host, channel.MaxReply)
	if err != nil {
		return nil, err
	}
	var ids *idrange.Range
	if k.OwnIDs {
		if ids, err = idrange.Take(k.Self); err != nil {
			return nil, errors.Join(refusalOf(spec.FailedAt(spec.StepNamespaces, err)), control.Conn.Close())
		}
	}
	s := &bareInit{kind: k, ids: ids, group: cgroup.New(), control: control, stderr: new(tail)}
	s.cmd, err = spawnInit(k, ids, s.group, child, s.stderr)
	if err != nil { // it may be the groups that are refused, or that nothing can be started in them
		if err := s.group.Remove(); err != nil {
			ids.Release()
			return nil, errors.Join(err, control.Conn.Close())
		}
		s.group = new(cgroup.Group)
		s.cmd, err = spawnInit(k, ids, s.group, child, s.stderr)
	}
	if err != nil {
		ids.Release()
		control.Conn.Close()
		return nil, err
	}
	// A failure means that init has ended; makeBox returns the reason.
	_ = control.Send(channel.Request{Op: channel.OpPrepare, Prepare: &k})
	return s, nil
}

// discardInit ends a bareInit that got no box.
func (s *bareInit) discardInit() error {
	s.cmd.Process.Kill()
	s.cmd.Wait() // says how it was killed
	s.ids.Release()
	s.control.Conn.Close()
	return s.group.Remove()
}

// makeBox makes the box of cfg, which is of the bareInit's kind. A bareInit without a box is discarded.
func (s *bareInit) makeBox(cfg spec.Config) (*Box, error) {
	b := &Box{
		cfg: cfg, ids: s.ids, cmd: s.cmd, group: s.group, control: s.control, stderr: s.stderr,
		slots: make(chan struct{}, channel.MaxCalls), quiet: make(chan struct{}), done: make(chan struct{}),
		procs: make(map[uint64]*Proc), calls: make(map[uint64]chan channel.Answer), plain: make(map[int]bool),
	}
	b.group.Limit(cfg)
	cfg.FewPids = cfg.Level == spec.LevelUser && cfg.Rooted() && cfg.Defended(spec.DefencePids) && !b.group.Keeps(spec.DefencePids) && spec.PidsPerNamespace()
	b.cfg = cfg
	err := prepareFolders(cfg)
	if err == nil {
		var p view.Plan
		var mounts []*os.File
		if p, mounts, err = drawPlan(cfg, s.ids); err == nil {
			err = b.setUp(p, mounts)
			channel.CloseAll(mounts)
		}
	}
	if err != nil {
		b.network.Close()
		left := s.discardInit()
		return nil, errors.Join(explainShortage(err), left)
	}
	b.tasks.Go(b.read)
	b.tasks.Go(b.awaitInit)
	return b, nil
}
