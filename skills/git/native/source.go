package native

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/spritekit/lattice/skills/git/engine"
	"github.com/spritekit/lattice/skills/git/gitconfig"
	"github.com/spritekit/lattice/skills/git/native/gitdir"
	"github.com/spritekit/lattice/skills/git/native/wire"
	"github.com/spritekit/lattice/spritekit/fault"
)

// source is where commits come from: a remote, a bundle, or a repository of the workspace.
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
		return openLocal(from.URL)
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

// local is a repository of the workspace. Its objects are read here; nothing is run in it.
type local struct{ *repo }

func openLocal(dir string) (*local, error) {
	git, err := findGit(dir)
	if err != nil {
		return nil, err
	}
	data, err := readConfig(git)
	if err != nil {
		return nil, err
	}
	config, err := gitconfig.Parse(data)
	if err != nil {
		return nil, fault.Failed("bad_config", "read the configuration of %s: %v", filepath.Base(dir), err)
	}
	// Settings of the work tree alone have no effect here.
	config = slices.DeleteFunc(config, func(e gitconfig.Entry) bool {
		return slices.Contains([]string{"core.worktree", "core.sparsecheckout", "core.splitindex", "core.ignorecase", "core.autocrlf", "core.eol"}, e.Key)
	})
	r, err := openRepo(engine.Location{Name: filepath.Base(dir), Dir: dir, GitDir: git, CommonDir: git}, config)
	if err != nil {
		return nil, err
	}
	return &local{r}, nil
}

// readConfig reads the configuration of a .git folder. A FIFO in its place would block, and a device has no end.
func readConfig(git string) ([]byte, error) {
	root, err := os.OpenRoot(git)
	if err != nil {
		return nil, err
	}
	data, err := (&gitdir.Dir{Root: root}).ReadSmall("config")
	return data, errors.Join(err, root.Close())
}

// findGit returns the .git of a folder, or the folder itself when it is a bare repository.
func findGit(dir string) (string, error) {
	for _, git := range []string{filepath.Join(dir, ".git"), dir} {
		if info, err := os.Lstat(git); err == nil && info.Mode().IsRegular() {
			return "", engine.Refuse("cloning a linked work tree or a submodule")
		}
		_, head := os.Lstat(filepath.Join(git, "HEAD"))
		if info, err := os.Lstat(filepath.Join(git, "objects")); err == nil && info.IsDir() && head == nil {
			return git, nil
		}
	}
	return "", engine.NotRepository("%s is not a git repository", filepath.Base(dir))
}

func (l *local) List() []engine.Ref {
	var list []engine.Ref
	if branch, commit, err := l.Head(); err == nil {
		list = append(list, engine.Ref{Name: string(plumbing.HEAD), ID: gitdir.Hex(commit), Target: branch})
	}
	found, err := l.ListRefs("refs/")
	if err != nil {
		return list
	}
	for _, ref := range found {
		e := engine.Ref{Name: ref.Name, ID: ref.ID.String()}
		if peeled, _, err := l.Peel(ref.ID); err == nil && peeled != ref.ID {
			e.Peeled = peeled.String()
		}
		list = append(list, e)
	}
	return list
}

func (l *local) Fetch(ctx context.Context, want []plumbing.Hash) (io.ReadCloser, error) {
	if len(l.Shallow) > 0 {
		return nil, engine.Refuse("clones of a shallow repository")
	}
	objects, err := l.ListReached(ctx, want)
	if err != nil {
		return nil, fmt.Errorf("read the source: %w", err)
	}
	read, w := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.CloseWithError(l.WritePack(ctx, w, objects))
	}()
	return pipe{read, done}, nil
}

// pipe is filled by a goroutine that Close waits for.
type pipe struct {
	*io.PipeReader
	done <-chan struct{}
}

func (p pipe) Close() error {
	err := p.PipeReader.Close()
	<-p.done
	return err
}
