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

// Desk is the process context of calls: the open workspace and its outbox, which they share. Calls may run concurrently.
// If the workspace was replaced, the next call opens the new one.
type Desk struct {
	dir   string
	state string
	held  holding

	mu   sync.Mutex // guards the fields below
	now  *place
	past []*place // replaced workspaces, which calls may still use

	claims  map[string]string // id to skill and input, of the last maxClaims calls without a journal
	claimed []string          // the ids in claims, oldest first
}

// maxClaims limits the calls without a journal that a desk remembers.
const maxClaims = 4096

// place is one open workspace.
type place struct {
	is   fs.FileInfo
	root *workspace.Root
	out  *outbox.File
}

// NewDesk returns the Desk for calls in the workspace dir, with its state in state (Env.State). It opens no files: each
// call reports an error of opening them.
func NewDesk(dir, state string) *Desk {
	return &Desk{dir: dir, state: state, claims: map[string]string{}}
}

// Serve is [Serve] for one of several calls. env.Workspace must be the desk's.
func (d *Desk) Serve(ctx context.Context, s Skill, m manifests.Skill, env Env, streams IO) (exit int) {
	return serve(ctx, d, s, m, env, streams)
}

// Own returns the last range of the outbox, in bytes, that was appended by calls at this desk alone.
func (d *Desk) Own() (from, to int64) {
	d.mu.Lock()
	at := d.now
	d.mu.Unlock()
	if at == nil {
		return 0, 0
	}
	return at.out.Own()
}

// Close closes the workspace. All calls must have ended.
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

// claimUse reports whether the id is unused or was used for the same skill and input, given as use. With keep it remembers
// the use: a call that only reads needs no journal, because it is never replayed; only its id must not be reused.
func (d *Desk) claimUse(id, use string, keep bool) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	had, ok := d.claims[id]
	if ok || !keep {
		return !ok || had == use
	}
	if len(d.claimed) == maxClaims {
		delete(d.claims, d.claimed[0])
		d.claimed = d.claimed[1:]
	}
	d.claims[id] = use
	d.claimed = append(d.claimed, id)
	return true
}

// needsNoJournal reports whether a call needs no journal unless it suspends: it only reads, shares a desk, and has none yet.
func (c *accepted) needsNoJournal() bool {
	if c.desk == nil || c.class != manifests.ClassRead {
		return false
	}
	_, err := c.root.Runtime().Glance(protocol.CallsDir + "/" + c.id + ".jsonl")
	return errors.Is(err, fs.ErrNotExist)
}

// openPlace returns the current workspace.
func (d *Desk) openPlace(now func() time.Time) (*place, error) {
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

// openAll opens the workspace and the outbox of the call.
func (r *runner) openAll() (err error) {
	stamp := outbox.Stamp{SpriteID: r.env.SpriteID, WorkItemID: r.env.WorkItemID, CallID: r.id}
	if r.desk != nil {
		at, err := r.desk.openPlace(r.now)
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
