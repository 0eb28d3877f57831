package tree

import "context"

// Digest reads a whole tree, which must not change. The digest of a folder is made from those of its entries, so that equal
// trees have equal digests on any file system. Holes are not read: a block of zeros, hole or not, counts by its position.
// A tree may be as deep as a sprite can make it; Digest holds few of its folders open at a time.
func Digest(ctx context.Context, dir string) (Sum, error) { return sumOf(ctx, opDigest, dir) }

// DenseDigest is Digest as it was when zeros were read as all else, for trees of that time.
func DenseDigest(ctx context.Context, dir string) (Sum, error) { return sumOf(ctx, opDense, dir) }

func sumOf(ctx context.Context, do operation, dir string) (Sum, error) {
	a, err := job{Do: do, From: pathsOf(dir)}.run(ctx, nil)
	return a.Sum, err
}

// Size counts the entries and bytes of a tree, which may be in use. Bytes are those that are allocated, each inode's once.
func Size(ctx context.Context, dir string) (Sum, error) { return sumOf(ctx, opSize, dir) }

// Within reports whether a tree, which may be in use, has at most so many entries and bytes. It looks at no more of them.
func Within(ctx context.Context, dir string, entries, bytes int64) (bool, error) {
	a, err := job{Do: opWithin, From: pathsOf(dir), Entries: entries, Bytes: bytes}.run(ctx, nil)
	return a.Within, err
}

// Merge makes dst one layer that shows the same as the given ones on top of any layers below. They are named topmost first,
// and must not change until Merge returns. It is Copy for a stack, and keeps whiteouts where names below must stay
// hidden.
func Merge(ctx context.Context, dst string, layers ...string) error {
	_, err := job{Do: opMerge, From: pathsOf(layers...), Dst: []byte(dst)}.run(ctx, nil)
	return err
}

// Diff calls emit with each difference between two stacks of layers, each named topmost first, ordered by path. It reports an
// added or deleted folder together with all its entries. It does not walk common parts: the same folder of the same layer.
// Files of the same size and time count as equal. Links are compared, never followed.
func Diff(ctx context.Context, from, to []string, emit func(Change) error) error {
	_, err := job{Do: opDiff, From: pathsOf(from...), To: pathsOf(to...)}.run(ctx, emit)
	return err
}

// Same returns an error that names the first difference between two stacks of layers. Unlike Diff it reads every file, and
// looks at attributes.
func Same(ctx context.Context, from, to []string) error {
	_, err := job{Do: opSame, From: pathsOf(from...), To: pathsOf(to...)}.run(ctx, nil)
	return err
}
