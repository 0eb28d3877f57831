package native

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/native/gitdir"
	"github.com/spritekit/lattice/skills/git/native/wire"
	"github.com/spritekit/lattice/spritekit/fault"
)

// source is where commits come from: a remote or a bundle.
type source interface {
	// List returns the refs, HEAD among them.
	List() []engine.Ref
	// Fetch streams a pack of the objects that commits reach.
	Fetch(ctx context.Context, want []plumbing.Hash) (io.ReadCloser, error)
	Close() error
}

func openSource(ctx context.Context, from engine.Source) (source, error) {
	switch {
	case from.Bundle:
		return openBundle(from.URL)
	case from.Local:
		return nil, engine.Refuse("clones of a folder")
	}
	return wire.OpenSource(ctx, from)
}

// Refs asks a source for its refs.
func (Engine) Refs(ctx context.Context, from engine.Source) ([]engine.Ref, error) {
	s, err := openSource(ctx, from)
	if err != nil {
		return nil, explainError(err, "clone_failed")
	}
	list := s.List()
	slices.SortFunc(list, func(a, b engine.Ref) int { return cmp.Compare(a.Name, b.Name) })
	return list, s.Close()
}

// bundle is a file of refs and one pack.
type bundle struct {
	f    *os.File
	pack *bufio.Reader // behind the header
	refs []engine.Ref
}

func openBundle(name string) (source, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	b := &bundle{f: f, pack: bufio.NewReaderSize(f, 64<<10)}
	if err := b.readHeader(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return b, nil
}

// readHeader reads the lines before the pack: capabilities, prerequisites, refs, an empty line.
func (b *bundle) readHeader() error {
	const maxRefs = 1 << 20
	for n := 0; len(b.refs) < maxRefs; n++ {
		raw, err := b.pack.ReadSlice('\n')
		if err != nil {
			return engine.NotRepository("the file is not a git bundle, or one that is cut off")
		}
		line := strings.TrimSuffix(string(raw), "\n")
		id, name, _ := strings.Cut(line, " ")
		switch {
		case n == 0 && (line == "# v2 git bundle" || line == "# v3 git bundle") || line == "@object-format=sha1":
		case n == 0:
			return engine.NotRepository("the file is not a git bundle")
		case line == "":
			return nil
		case line[0] == '@':
			return engine.Refuse("bundles with " + line[1:])
		case line[0] == '-':
			return fault.Failed("clone_failed", "the bundle builds upon commits that it does not hold").WithHint("make it with git bundle create FILE --all")
		case !plumbing.IsHash(id) || name != string(plumbing.HEAD) && !gitdir.IsRefName(name):
			return engine.NotRepository("the bundle's header has the line %.80q", line)
		default:
			b.refs = append(b.refs, engine.Ref{Name: name, ID: id})
		}
	}
	return fault.Limit("too_many", "the bundle has more than %d refs", maxRefs)
}

func (b *bundle) List() []engine.Ref { return b.refs }
func (b *bundle) Close() error       { return b.f.Close() }

func (b *bundle) Fetch(context.Context, []plumbing.Hash) (io.ReadCloser, error) {
	return io.NopCloser(b.pack), nil
}
