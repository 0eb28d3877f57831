package native

import (
	"container/heap"
	"context"
	"errors"
	"math"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/spritekit/lattice/skills/git/engine"
)

// queue is a heap of commits, the youngest first, those of one second in the order they were found.
type queue []queued

type queued struct {
	*object.Commit
	order int
}

func (q queue) Len() int      { return len(q) }
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q queue) Less(i, j int) bool {
	if a, b := q[i].Committer.When.Unix(), q[j].Committer.When.Unix(); a != b {
		return a > b
	}
	return q[i].order < q[j].order
}
func (q *queue) Push(x any) { *q = append(*q, x.(queued)) }
func (q *queue) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// marks say from which side of a paint a commit was reached.
type marks uint8

const (
	left marks = 1 << iota
	right
	both = left | right
)

// paint marks the commits that two sets reach. It walks from the youngest to the oldest and ends where everything that
// is left has the marks enough.
type paint struct {
	repo    *repo
	enough  marks
	marks   map[plumbing.Hash]marks
	known   map[plumbing.Hash]queued
	found   []plumbing.Hash // in the order in which they were found
	pending map[plumbing.Hash]bool
	queue   queue
}

func (r *repo) paint(ctx context.Context, lefts, rights []plumbing.Hash, enough marks) (*paint, error) {
	p := &paint{repo: r, enough: enough, marks: map[plumbing.Hash]marks{}, known: map[plumbing.Hash]queued{}, pending: map[plumbing.Hash]bool{}}
	for _, id := range rights {
		if err := p.push(id, right); err != nil {
			return nil, err
		}
	}
	for _, id := range lefts {
		if err := p.push(id, left); err != nil {
			return nil, err
		}
	}
	// Clocks go wrong: the walk goes on for some commits behind the oldest one that matters.
	const slop = 64
	for spare := slop; len(p.queue) > 0 && spare > 0; {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		c := heap.Pop(&p.queue).(queued)
		delete(p.pending, c.Hash)
		if len(p.pending) > 0 || p.marks[c.Hash]&enough != enough {
			spare = slop
		} else if c.Committer.When.Unix() < p.oldest() {
			spare--
		}
		for _, parent := range c.ParentHashes {
			if err := p.push(parent, p.marks[c.Hash]); err != nil {
				return nil, err
			}
		}
	}
	return p, nil
}

func (p *paint) push(id plumbing.Hash, mark marks) error {
	have := p.marks[id]
	if have|mark == have {
		return nil
	}
	c, ok := p.known[id]
	if !ok {
		commit, err := p.repo.commit(id)
		if err != nil {
			return err
		}
		c = queued{commit, len(p.found)}
		p.known[id] = c
		p.found = append(p.found, id)
	}
	p.marks[id] = have | mark
	if p.marks[id]&p.enough == p.enough {
		delete(p.pending, id)
	} else {
		p.pending[id] = true
	}
	heap.Push(&p.queue, c)
	return nil
}

// oldest returns the time of the oldest commit without the marks enough.
func (p *paint) oldest() int64 {
	at := int64(math.MaxInt64)
	for id, mark := range p.marks {
		if mark&p.enough != p.enough {
			at = min(at, p.known[id].Committer.When.Unix())
		}
	}
	return at
}

// countApart counts the commits that only one of two commits reaches.
func (r *repo) countApart(ctx context.Context, ours, theirs plumbing.Hash) (ahead, behind int, err error) {
	if ours == theirs {
		return 0, 0, nil
	}
	p, err := r.paint(ctx, []plumbing.Hash{ours}, []plumbing.Hash{theirs}, both)
	if err != nil {
		return 0, 0, err
	}
	for _, mark := range p.marks {
		switch mark {
		case left:
			ahead++
		case right:
			behind++
		}
	}
	return ahead, behind, nil
}

// reaches reports whether a commit is another one or has it among its ancestors.
func (r *repo) reaches(ctx context.Context, from, to plumbing.Hash) (bool, error) {
	p, err := r.paint(ctx, []plumbing.Hash{to}, []plumbing.Hash{from}, right)
	if err != nil {
		return false, err
	}
	return p.marks[to]&right != 0, nil
}

// missing lists the objects that want needs and have lacks: the commits between and, of their trees, what the trees at
// the border do not hold. borders are the commits of have that the others build upon.
func (r *repo) missing(ctx context.Context, want, have []plumbing.Hash) (objects, borders []plumbing.Hash, err error) {
	p, err := r.paint(ctx, want, have, right)
	if err != nil {
		return nil, nil, err
	}
	seen := map[plumbing.Hash]bool{}
	var trees []plumbing.Hash
	for _, id := range p.found {
		if p.marks[id]&right != 0 {
			continue
		}
		objects = append(objects, id)
		trees = append(trees, p.known[id].TreeHash)
		for _, parent := range p.known[id].ParentHashes {
			if p.marks[parent]&right != 0 && !seen[parent] {
				seen[parent] = true
				borders = append(borders, parent)
			}
		}
	}
	for _, border := range borders {
		if err := r.listTree(ctx, p.known[border].TreeHash, seen, nil); err != nil {
			return nil, nil, err
		}
	}
	for _, tree := range trees {
		if err := r.listTree(ctx, tree, seen, &objects); err != nil {
			return nil, nil, err
		}
	}
	return objects, borders, nil
}

// lacking lists what missing does, for want that may be annotated tags.
func (r *repo) lacking(ctx context.Context, want, have []plumbing.Hash) ([]plumbing.Hash, error) {
	var tags, commits []plumbing.Hash
	for _, id := range want {
		for tag, err := object.GetTag(r.store, id); err == nil; tag, err = object.GetTag(r.store, id) {
			tags, id = append(tags, id), tag.Target
		}
		if _, typ, err := r.peel(id); err != nil || typ != plumbing.CommitObject {
			return nil, errors.Join(err, refuse("refs that do not name a commit"))
		}
		commits = append(commits, id)
	}
	objects, _, err := r.missing(ctx, commits, have)
	return append(tags, objects...), err
}

// listTree adds a tree and everything in it to the list, without what was seen.
func (r *repo) listTree(ctx context.Context, tree plumbing.Hash, seen map[plumbing.Hash]bool, list *[]plumbing.Hash) error {
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
	return r.walkTree(tree, func(_ string, e object.TreeEntry) (bool, error) {
		return e.Mode != modeSubmodule && add(e.Hash), context.Cause(ctx)
	})
}

// MergeBase finds the best common ancestors of two commits.
func (r *repo) MergeBase(ctx context.Context, spec engine.MergeBaseSpec) (engine.MergeBase, error) {
	answer := engine.MergeBase{Bases: []string{}}
	if len(spec.Commits) != 2 || len(r.shallow) > 0 {
		return answer, refuse("the merge base of more than two commits, or in a shallow repository")
	}
	var commits [2]*object.Commit
	for i, revision := range spec.Commits {
		id, err := r.resolveCommit(revision)
		if err == nil {
			commits[i], err = r.commit(id)
		}
		if err != nil {
			return answer, explain(err, "merge_base_failed")
		}
	}
	bases, err := commits[0].MergeBase(commits[1])
	if err != nil {
		return answer, explain(err, "merge_base_failed")
	}
	for _, base := range bases {
		answer.Bases = append(answer.Bases, base.Hash.String())
		answer.IsAncestor = answer.IsAncestor || base.Hash == commits[0].Hash
	}
	if !spec.All && len(bases) > 1 {
		return answer, refuse("the choice among several merge bases")
	}
	return answer, nil
}
