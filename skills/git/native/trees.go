package native

import (
	"fmt"
	"strings"

	"github.com/spritekit/lattice/skills/git/native/index"
	"github.com/spritekit/lattice/skills/git/native/objects"
)

// writeTree writes the tree objects of an index, which must be without conflict, and lets the index remember them.
// Folders that did not change since are not looked at.
func (r *repo) writeTree(x *index.Index) (id, error) {
	b := &treeBuilder{repo: r, index: x}
	root, err := b.folder("", 0, len(x.Entries))
	if err != nil {
		return id{}, err
	}
	x.SetTrees(root)
	return root.ID, nil
}

type treeBuilder struct {
	repo  *repo
	index *index.Index
}

// folder makes the tree of a folder, whose files are the entries from first to end.
func (b *treeBuilder) folder(dir string, first, end int) (*index.Node, error) {
	if known, ok := b.index.KnownNode(dir); ok && known.Count == end-first {
		if has, err := b.repo.objects.Has(known.ID); has || err != nil {
			return known, err
		}
	}
	n := &index.Node{Count: end - first, Children: map[string]*index.Node{}}
	var entries []objects.Entry
	skip := 0
	if dir != "" {
		skip = len(dir) + 1
	}
	for i := first; i < end; {
		e := &b.index.Entries[i]
		name, _, below := strings.Cut(e.Path[skip:], "/")
		if !below {
			i++
			if e.IntentToAdd {
				n.Count = -1 // git, too, knows no tree for what is not in it
				continue
			}
			if err := b.there(e); err != nil {
				return nil, err
			}
			entries = append(entries, objects.Entry{Mode: e.Mode, Name: name, ID: e.ID})
			continue
		}
		path := e.Path[:skip+len(name)]
		last := i
		for last < end && strings.HasPrefix(b.index.Entries[last].Path, path+"/") {
			last++
		}
		child, err := b.folder(path, i, last)
		if err != nil {
			return nil, err
		}
		i = last
		n.Children[name] = child
		if child.Count < 0 {
			n.Count = -1
		}
		if child.Empty {
			continue
		}
		entries = append(entries, objects.Entry{Mode: objects.ModeTree, Name: name, ID: child.ID})
	}
	n.Empty = len(entries) == 0
	var err error
	n.ID, err = b.repo.objects.Write(objects.Tree, objects.EncodeTree(entries))
	return n, err
}

// there makes sure that what a tree is to hold exists.
func (b *treeBuilder) there(e *index.Entry) error {
	if e.Mode == objects.ModeSubmodule {
		return nil
	}
	has, err := b.repo.objects.Has(e.ID)
	if err == nil && !has {
		err = fmt.Errorf("%w: %s, which is staged as %s", objects.ErrNotFound, e.ID, e.Path)
	}
	return err
}
