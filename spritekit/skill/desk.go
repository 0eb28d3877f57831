package skill

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/spritekit/lattice/manifests"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/outbox"
	"github.com/spritekit/lattice/spritekit/protocol"
	"github.com/spritekit/lattice/spritekit/workspace"
)

// Desk is what the calls of one process share: the open workspace and its outbox. Calls may run side by side. A
// workspace that was put aside for another one is noticed by the next call.
type Desk struct {
	dir   string
	state string
	held  holding

	mu   sync.Mutex // guards what follows
	now  *place
	past []*place // those of workspaces that are gone; calls may still be at work there

	claims  map[string]string // what an id was used for, of the last maxClaims calls that left no journal
	claimed []string          // their ids, the oldest first
}

// maxClaims bounds what a desk remembers of calls that left no journal.
const maxClaims = 4096

// place is one open workspace.
type place struct {
	is   fs.FileInfo
	root *workspace.Root
	out  *outbox.File
}

// NewDesk is for calls in the workspace dir, with its state as Env.State says. It opens nothing yet: what is wrong is for each call to tell.
func NewDesk(dir, state string) *Desk {
	return &Desk{dir: dir, state: state, claims: map[string]string{}}
}

// Serve is the function Serve, for one of several calls. env.Workspace must be the desk's.
func (d *Desk) Serve(ctx context.Context, s Skill, m manifests.Skill, env Env, streams IO) (exit int) {
	return serve(ctx, d, s, m, env, streams)
}

// Own is the last part of the outbox, in bytes, that holds nothing but what calls at this desk appended.
func (d *Desk) Own() (from, to int64) {
	d.mu.Lock()
	at := d.now
	d.mu.Unlock()
	if at == nil {
		return 0, 0
	}
	return at.out.Own()
}

// Close releases the workspace. No call may be under way.
func (d *Desk) Close() error {
	d.held.close()
	d.mu.Lock()
	defer d.mu.Unlock()
	var failed error
	for _, at := range append(d.past, d.now) {
		if at != nil {
			failed = errors.Join(failed, at.out.Close(), at.root.Close())
		}
	}
	d.now, d.past = nil, nil
	return failed
}

// claim remembers what a call without a journal was, and reports false when its id was used for another one. Nothing of
// a call that only reads is ever replayed, and what must be refused, the same id with another input, the desk knows
// itself. A call that has a journal is only looked up.
func (d *Desk) claim(id, what string, keep bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	had, ok := d.claims[id]
	if ok || !keep {
		return !ok || had == what
	}
	if len(d.claimed) == maxClaims {
		delete(d.claims, d.claimed[0])
		d.claimed = d.claimed[1:]
	}
	d.claims[id] = what
	d.claimed = append(d.claimed, id)
	return true
}

// needsNoJournal reports whether a call needs no journal unless it suspends: it only reads, shares a desk, and has none yet.
func (c *accepted) needsNoJournal() bool {
	if c.desk == nil || c.class != manifests.ClassRead {
		return false
	}
	_, err := c.root.Glance(protocol.CallsDir + "/" + c.id + ".jsonl")
	return errors.Is(err, fs.ErrNotExist)
}

// open gives the workspace as it is now.
func (d *Desk) open(now func() time.Time) (*place, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	is, err := os.Stat(d.dir)
	if err == nil && d.now != nil && os.SameFile(is, d.now.is) {
		return d.now, nil
	}
	root, err := openWorkspace(d.dir, d.state)
	if err != nil {
		return nil, err
	}
	out, err := outbox.OpenFile(root, now)
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	if d.now != nil {
		d.past = append(d.past, d.now)
	}
	d.now = &place{is: is, root: root, out: out}
	return d.now, nil
}

// open brings the call to its workspace and outbox.
func (r *runner) open() (err error) {
	stamp := outbox.Stamp{SpriteID: r.env.SpriteID, WorkItemID: r.env.WorkItemID, CallID: r.id}
	if r.desk != nil {
		at, err := r.desk.open(r.now)
		if err != nil {
			return err
		}
		r.root, r.out.log = at.root, at.out.Log(stamp)
		return nil
	}
	if r.root, err = openWorkspace(r.env.Workspace, r.env.State); err != nil {
		return err
	}
	r.out.log, err = outbox.Open(r.root, stamp, r.now)
	return err
}

func openWorkspace(dir, state string) (*workspace.Root, error) {
	root, err := workspace.OpenWithState(dir, state)
	if err != nil {
		return nil, fault.NotFound("no_workspace", "there is no workspace at %s: %v", dir, err).
			WithHint("set LATTICE_WORKSPACE to an existing directory")
	}
	return root, nil
}
