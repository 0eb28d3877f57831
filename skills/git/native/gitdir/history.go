package gitdir

import (
	"container/heap"
	"context"
	"errors"
	"math"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// Queue is a heap of commits, the youngest first, those of one second in the order they were found.
type Queue []Queued

// Queued is a commit of a queue.
type Queued struct {
	*object.Commit
	Order int
}

func (q Queue) Len() int      { return len(q) }
func (q Queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q Queue) Less(i, j int) bool {
	if a, b := q[i].Committer.When.Unix(), q[j].Committer.When.Unix(); a != b {
		return a > b
	}
	return q[i].Order < q[j].Order
}
func (q *Queue) Push(x any) { *q = append(*q, x.(Queued)) }
func (q *Queue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// Marks say from which of two sets a commit was reached.
type Marks uint8

// The sets that a commit is reached from.
const (
	Left Marks = 1 << iota
	Right
	Both = Left | Right
)

// Painting marks the commits that two sets reach. It walks from the youngest to the oldest and ends where everything that
// is left has the marks enough.
type Painting struct {
	dir     *Dir
	enough  Marks
	Marks   map[plumbing.Hash]Marks
	known   map[plumbing.Hash]Queued
	found   []plumbing.Hash // in the order in which they were found
	pending map[plumbing.Hash]bool
	oldest  int64 // time of the oldest commit that was found without the marks enough
	queue   Queue
}

// Paint walks from two sets of commits.
func (d *Dir) Paint(ctx context.Context, lefts, rights []plumbing.Hash, enough Marks) (*Painting, error) {
	p := &Painting{
		dir: d, enough: enough, Marks: map[plumbing.Hash]Marks{}, known: map[plumbing.Hash]Queued{}, pending: map[plumbing.Hash]bool{},
		oldest: math.MaxInt64,
	}
	for _, id := range rights {
		if err := p.push(id, Right); err != nil {
			return nil, err
		}
	}
	for _, id := range lefts {
		if err := p.push(id, Left); err != nil {
			return nil, err
		}
	}
	// Clocks go wrong: the walk goes on for some commits behind the oldest one that matters.
	const slop = 64
	for spare := slop; len(p.queue) > 0 && spare > 0; {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		c := heap.Pop(&p.queue).(Queued)
		delete(p.pending, c.Hash)
		if len(p.pending) > 0 || p.Marks[c.Hash]&enough != enough {
			spare = slop
		} else if c.Committer.When.Unix() < p.oldest {
			spare--
		}
		for _, parent := range c.ParentHashes {
			if err := p.push(parent, p.Marks[c.Hash]); err != nil {
				return nil, err
			}
		}
	}
	return p, nil
}

func (p *Painting) push(id plumbing.Hash, mark Marks) error {
	have := p.Marks[id]
	if have|mark == have {
		return nil
	}
	c, ok := p.known[id]
	if !ok {
		commit, err := p.dir.ReadCommit(id)
		if err != nil {
			return err
		}
		c = Queued{commit, len(p.found)}
		p.known[id] = c
		p.found = append(p.found, id)
	}
	p.Marks[id] = have | mark
	if p.Marks[id]&p.enough == p.enough {
		delete(p.pending, id)
	} else {
		p.pending[id] = true
		p.oldest = min(p.oldest, c.Committer.When.Unix())
	}
	heap.Push(&p.queue, c)
	return nil
}

// CountApart counts the commits that only one of two commits reaches.
func (d *Dir) CountApart(ctx context.Context, ours, theirs plumbing.Hash) (ahead, behind int, err error) {
	if ours == theirs {
		return 0, 0, nil
	}
	p, err := d.Paint(ctx, []plumbing.Hash{ours}, []plumbing.Hash{theirs}, Both)
	if err != nil {
		return 0, 0, err
	}
	for _, mark := range p.Marks {
		switch mark {
		case Left:
			ahead++
		case Right:
			behind++
		}
	}
	return ahead, behind, nil
}

// Reaches reports whether a commit is another one or has it among its ancestors.
func (d *Dir) Reaches(ctx context.Context, from, to plumbing.Hash) (bool, error) {
	p, err := d.Paint(ctx, []plumbing.Hash{to}, []plumbing.Hash{from}, Right)
	if err != nil {
		return false, err
	}
	return p.Marks[to]&Right != 0, nil
}

// Missing lists the objects that want needs and have lacks: the commits between and, of their trees, what the trees at
// the border do not hold. borders are the commits of have that the others build upon.
func (d *Dir) Missing(ctx context.Context, want, have []plumbing.Hash) (objects, borders []plumbing.Hash, err error) {
	p, err := d.Paint(ctx, want, have, Right)
	if err != nil {
		return nil, nil, err
	}
	seen := map[plumbing.Hash]bool{}
	var trees []plumbing.Hash
	for _, id := range p.found {
		if p.Marks[id]&Right != 0 {
			continue
		}
		objects = append(objects, id)
		trees = append(trees, p.known[id].TreeHash)
		for _, parent := range p.known[id].ParentHashes {
			if p.Marks[parent]&Right != 0 && !seen[parent] {
				seen[parent] = true
				borders = append(borders, parent)
			}
		}
	}
	for _, border := range borders {
		if err := d.listTree(ctx, p.known[border].TreeHash, seen, nil); err != nil {
			return nil, nil, err
		}
	}
	for _, tree := range trees {
		if err := d.listTree(ctx, tree, seen, &objects); err != nil {
			return nil, nil, err
		}
	}
	return objects, borders, nil
}

// Lacking lists the objects that Missing lists, and the tags among want.
func (d *Dir) Lacking(ctx context.Context, want, have []plumbing.Hash) ([]plumbing.Hash, error) {
	var tags, commits []plumbing.Hash
	for _, id := range want {
		for tag, err := object.GetTag(d.Store, id); err == nil; tag, err = object.GetTag(d.Store, id) {
			tags, id = append(tags, id), tag.Target
		}
		if _, typ, err := d.Peel(id); err != nil || typ != plumbing.CommitObject {
			return nil, errors.Join(err, refuse("refs that do not name a commit"))
		}
		commits = append(commits, id)
	}
	objects, _, err := d.Missing(ctx, commits, have)
	return append(tags, objects...), err
}

// listTree adds a tree and everything in it to the list, except those that were seen.
func (d *Dir) listTree(ctx context.Context, tree plumbing.Hash, seen map[plumbing.Hash]bool, list *[]plumbing.Hash) error {
	add := func(id plumbing.Hash) bool {
		if seen[id] {
			return false
		}
		seen[id] = true
		if list != nil {
			*list = append(*list, id)
		}
		return true
	}
	if !add(tree) {
		return nil
	}
	return d.WalkTree(tree, func(_ string, e object.TreeEntry) (bool, error) {
		return e.Mode != filemode.Submodule && add(e.Hash), context.Cause(ctx)
	})
}
