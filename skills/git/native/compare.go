package native

import (
	"fmt"

	"github.com/spritekit/lattice/skills/git/native/index"
	"github.com/spritekit/lattice/skills/git/native/objects"
)

// side is a file in a tree or an index.
type side struct {
	mode uint32
	id   id
}

// there reports whether the file exists on this side.
func (s side) there() bool { return s.mode != 0 }

// change is a file that differs between two sides.
type change struct {
	path     string
	from, to side
}

// letter is what git calls it.
func (c change) letter() string {
	switch {
	case !c.from.there():
		return "A"
	case !c.to.there():
		return "D"
	case kind(c.from.mode) != kind(c.to.mode):
		return "T"
	}
	return "M"
}

// kind tells files, symlinks and submodules apart.
func kind(mode uint32) uint32 { return mode & 0o170000 }

// maxTreeDepth bounds how deep trees nest; git's own bound is lower where paths are.
const maxTreeDepth = 2048

// leaves calls f for each file of a tree, in the order of the index. enter is asked for each folder and may say no.
func (r *repo) leaves(tree id, dir string, enter func(dir string, tree id) bool, f func(path string, s side) error) error {
	return r.leavesAt(tree, dir, 0, enter, f)
}

func (r *repo) leavesAt(tree id, dir string, depth int, enter func(string, id) bool, f func(string, side) error) error {
	if tree.IsZero() {
		return nil
	}
	if depth > maxTreeDepth {
		return fmt.Errorf("read tree %s: %w: folders in folders without end", tree, objects.ErrCorrupt)
	}
	entries, err := r.objects.Tree(tree)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name
		if dir != "" {
			name = dir + "/" + name
		}
		if e.Mode != objects.ModeTree {
			err = f(name, side{e.Mode, e.ID})
		} else if enter == nil || enter(name, e.ID) {
			err = r.leavesAt(e.ID, name, depth+1, enter, f)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// staged lists what differs between a tree, zero for none, and the index; files in conflict are left out. Folders whose
// tree the index remembers are not read.
func (r *repo) staged(tree id, x *index.Index) ([]change, error) {
	var changes []change
	at := 0
	added := func(until func(*index.Entry) bool) {
		for ; at < len(x.Entries) && until(&x.Entries[at]); at++ {
			if e := &x.Entries[at]; e.Stage == 0 && !e.IntentToAdd {
				changes = append(changes, change{path: e.Path, to: side{e.Mode, e.ID}})
			}
		}
	}
	if known, ok := x.KnownTree(""); ok && known == tree {
		return nil, nil
	}
	enter := func(dir string, tree id) bool {
		if known, ok := x.KnownTree(dir); !ok || known != tree {
			return true
		}
		first, end := x.Below(dir)
		added(func(e *index.Entry) bool { return at < first })
		at = max(at, end)
		return false
	}
	err := r.leaves(tree, "", enter, func(path string, s side) error {
		added(func(e *index.Entry) bool { return e.Path < path })
		if at == len(x.Entries) || x.Entries[at].Path != path {
			changes = append(changes, change{path: path, from: s})
			return nil
		}
		e := &x.Entries[at]
		for ; at < len(x.Entries) && x.Entries[at].Path == path; at++ {
		}
		switch {
		case e.Stage != 0:
		case e.IntentToAdd:
			changes = append(changes, change{path: path, from: s})
		case e.Mode != s.mode || e.ID != s.id:
			changes = append(changes, change{path, s, side{e.Mode, e.ID}})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	added(func(*index.Entry) bool { return true })
	return changes, nil
}

// between lists what differs between two trees, either of which may be zero.
func (r *repo) between(from, to id) ([]change, error) {
	var changes []change
	err := r.betweenAt(from, to, "", 0, &changes)
	return changes, err
}

func (r *repo) betweenAt(from, to id, dir string, depth int, changes *[]change) error {
	if from == to {
		return nil
	}
	if depth > maxTreeDepth {
		return fmt.Errorf("read tree %s: %w: folders in folders without end", to, objects.ErrCorrupt)
	}
	var a, b []objects.Entry
	var err error
	if !from.IsZero() {
		if a, err = r.objects.Tree(from); err != nil {
			return err
		}
	}
	if !to.IsZero() {
		if b, err = r.objects.Tree(to); err != nil {
			return err
		}
	}
	for len(a) > 0 || len(b) > 0 {
		var old, now objects.Entry
		switch c := order(a, b); {
		case c < 0:
			old, a = a[0], a[1:]
		case c > 0:
			now, b = b[0], b[1:]
		default:
			old, now, a, b = a[0], b[0], a[1:], b[1:]
		}
		if err := r.pair(old, now, dir, depth, changes); err != nil {
			return err
		}
	}
	return nil
}

// order says which of two trees has the next entry.
func order(a, b []objects.Entry) int {
	switch {
	case len(a) == 0:
		return 1
	case len(b) == 0:
		return -1
	}
	return objects.CompareNames(a[0].Name, a[0].Mode == objects.ModeTree, b[0].Name, b[0].Mode == objects.ModeTree)
}

// pair compares two entries of one name, one of which may be missing.
func (r *repo) pair(old, now objects.Entry, dir string, depth int, changes *[]change) error {
	name := max(old.Name, now.Name) // equal, or one is empty
	if dir != "" {
		name = dir + "/" + name
	}
	if old.Mode == objects.ModeTree || now.Mode == objects.ModeTree {
		return r.betweenAt(old.ID, now.ID, name, depth+1, changes)
	}
	if old.Mode != now.Mode || old.ID != now.ID {
		*changes = append(*changes, change{name, side{old.Mode, old.ID}, side{now.Mode, now.ID}})
	}
	return nil
}
