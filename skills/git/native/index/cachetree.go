package index

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// cacheTree remembers the tree objects that folders of the index come to.
type cacheTree struct {
	name     string
	count    int // entries below, -1 when the tree is not known
	id       ID
	children []*cacheTree // in git's order: by length, then bytes
}

// maxDepth bounds how deep folders of a TREE extension nest.
const maxDepth = 4096

// decodeCacheTree reads the TREE extension; one that is broken counts as none.
func decodeCacheTree(data []byte, entries int) *cacheTree {
	tree, rest := decodeNode(data, entries, 0)
	if len(rest) > 0 {
		return nil
	}
	return tree
}

func decodeNode(data []byte, entries, depth int) (*cacheTree, []byte) {
	name, rest, ok := bytes.Cut(data, []byte{0})
	line, rest, ended := bytes.Cut(rest, []byte("\n"))
	countText, childText, spaced := strings.Cut(string(line), " ")
	count, err1 := strconv.Atoi(countText)
	children, err2 := strconv.Atoi(childText)
	if !ok || !ended || !spaced || err1 != nil || err2 != nil || count < -1 || count > entries ||
		children < 0 || children > len(rest) || depth > maxDepth || bytes.IndexByte(name, '/') >= 0 {
		return nil, data
	}
	t := &cacheTree{name: string(name), count: count}
	if count >= 0 {
		if len(rest) < 20 {
			return nil, data
		}
		t.id, rest = ID(rest[:20]), rest[20:]
	}
	for range children {
		var child *cacheTree
		if child, rest = decodeNode(rest, entries, depth+1); child == nil || child.name == "" {
			return nil, data
		}
		t.children = append(t.children, child)
	}
	slices.SortFunc(t.children, compareNodes)
	return t, rest
}

func compareNodes(a, b *cacheTree) int { return compareNodeNames(a.name, b.name) }

func compareNodeNames(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}

func (t *cacheTree) encode() []byte {
	if t == nil {
		return nil
	}
	return t.append(nil)
}

func (t *cacheTree) append(b []byte) []byte {
	b = append(append(b, t.name...), 0)
	b = strconv.AppendInt(b, int64(t.count), 10)
	b = strconv.AppendInt(append(b, ' '), int64(len(t.children)), 10)
	b = append(b, '\n')
	if t.count >= 0 {
		b = append(b, t.id[:]...)
	}
	for _, c := range t.children {
		b = c.append(b)
	}
	return b
}

// child returns the node of a folder, nil when there is none.
func (t *cacheTree) child(name string) *cacheTree {
	if t == nil {
		return nil
	}
	i, ok := slices.BinarySearchFunc(t.children, name, func(c *cacheTree, name string) int { return compareNodeNames(c.name, name) })
	if !ok {
		return nil
	}
	return t.children[i]
}

// invalidate forgets the trees of the folders that hold a path, and the node of a folder that a file took the place of.
func (x *Index) invalidate(path string) {
	t := x.tree
	for t != nil {
		t.count = -1
		name, rest, below := strings.Cut(path, "/")
		if !below {
			t.children = slices.DeleteFunc(t.children, func(c *cacheTree) bool { return c.name == name })
			return
		}
		t, path = t.child(name), rest
	}
}

// KnownTree returns the tree object of a folder, "" for the root, if the index remembers it.
func (x *Index) KnownTree(dir string) (ID, bool) {
	t := x.tree
	for part := range strings.SplitSeq(dir, "/") {
		if dir == "" {
			break
		}
		t = t.child(part)
	}
	if t == nil || t.count < 0 {
		return ID{}, false
	}
	return t.id, true
}

// Node is a folder of the index with the tree object it came to.
type Node struct {
	ID       ID
	Count    int // entries below, -1 when the tree does not hold all of them
	Empty    bool
	Children map[string]*Node
}

// KnownNode returns the trees of a folder and of all below it, as far as the index remembers them.
func (x *Index) KnownNode(dir string) (*Node, bool) {
	t := x.tree
	for part := range strings.SplitSeq(dir, "/") {
		if dir == "" {
			break
		}
		t = t.child(part)
	}
	if t == nil || t.count < 0 {
		return nil, false
	}
	return t.node(), true
}

func (t *cacheTree) node() *Node {
	n := &Node{ID: t.id, Count: t.count, Children: map[string]*Node{}}
	for _, c := range t.children {
		n.Children[c.name] = c.node()
	}
	return n
}

// SetTrees remembers the trees of all folders; nil forgets them.
func (x *Index) SetTrees(root *Node) {
	if root == nil {
		x.tree = nil
		return
	}
	x.tree = root.cache("")
}

func (n *Node) cache(name string) *cacheTree {
	t := &cacheTree{name: name, count: n.Count, id: n.ID}
	for childName, child := range n.Children {
		t.children = append(t.children, child.cache(childName))
	}
	slices.SortFunc(t.children, compareNodes)
	return t
}
