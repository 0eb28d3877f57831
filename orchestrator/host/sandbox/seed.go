package sandbox

import (
	"errors"
	"os"
	"os/exec"
)

// kind is what an init must be made for: all that cannot be changed once its process is there.
type kind struct {
	self     string `json:"-"`
	hostPids bool   `json:"-"` // it is in the host's pid namespace
	Level    Level  `json:"level"`
	ownIDs   bool   `json:"-"`                 // its users are none of another init's
	Network  bool   `json:"network,omitempty"` // the network namespace is new: to be set up, and its sockets handed over
}

func (c Config) kind() kind {
	return kind{self: c.Self, hostPids: !c.defended(DefencePidNamespace), Level: c.Level, Network: c.ownNetwork(), ownIDs: c.OwnIDs && c.Level == LevelRoot && c.defended(DefenceOwnIDs)}
}

func (c Config) ownNetwork() bool { return c.Network && !c.plain() && c.defended(DefenceNetns) }

// seed is an init, in its namespaces and control groups, that has yet to hear what its box is. Nothing of a sprite has been
// in it.
type seed struct {
	kind    kind
	ids     *idRange // nil without ownIDs
	cmd     *exec.Cmd
	group   *group
	control *channel
	stderr  *tail
}

// sow starts an init. The caller has it grow, or discards it.
func sow(k kind) (*seed, error) {
	host, child, err := socketpair()
	if err != nil {
		return nil, err
	}
	defer child.Close()
	control, err := newChannel(host, maxReply)
	if err != nil {
		return nil, err
	}
	var ids *idRange
	if k.ownIDs {
		if ids, err = takeRange(k.self); err != nil {
			return nil, errors.Join(refusal(failedAt(stepNamespaces, err)), control.conn.Close())
		}
	}
	s := &seed{kind: k, ids: ids, group: newGroup(), control: control, stderr: new(tail)}
	s.cmd, err = spawn(k, ids, s.group, child, s.stderr)
	if err != nil { // it may be the groups that are refused, or that nothing can be started in them
		if err := s.group.remove(); err != nil {
			ids.release()
			return nil, errors.Join(err, control.conn.Close())
		}
		s.group = new(group)
		s.cmd, err = spawn(k, ids, s.group, child, s.stderr)
	}
	if err != nil {
		ids.release()
		control.conn.Close()
		return nil, err
	}
	// A failure means that init has ended; who has it grow hears why.
	_ = control.send(request{Op: opPrepare, Prepare: &k})
	return s, nil
}

// discard ends a seed that is not to grow, or did not.
func (s *seed) discard() error {
	s.cmd.Process.Kill()
	s.cmd.Wait() // says how it was killed
	s.ids.release()
	s.control.conn.Close()
	return s.group.remove()
}

// grow makes the box of cfg, which is of the seed's kind. A seed that does not grow is discarded.
func (s *seed) grow(cfg Config) (*Box, error) {
	b := &Box{
		cfg: cfg, ids: s.ids, cmd: s.cmd, group: s.group, control: s.control, stderr: s.stderr,
		slots: make(chan struct{}, maxCalls), quiet: make(chan struct{}), done: make(chan struct{}),
		procs: make(map[uint64]*Proc), calls: make(map[uint64]chan callAnswer), plain: make(map[int]bool),
	}
	b.group.limit(cfg)
	err := prepare(cfg)
	if err == nil {
		var p plan
		var mounts []*os.File
		if p, mounts, err = draw(cfg, s.ids); err == nil {
			err = b.setUp(p, mounts)
			closeAll(mounts)
		}
	}
	if err != nil {
		b.network.Close()
		left := s.discard()
		return nil, errors.Join(starved(err), left)
	}
	b.tasks.Go(b.read)
	b.tasks.Go(b.wait)
	return b, nil
}
