package transfer

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"golang.org/x/sync/errgroup"

	"github.com/spritekit/lattice/orchestrator/sprites"
)

// This file copies folders as one stream, by the tar of the sprites: one command for each sprite, for any number of files.
// Links stay links. The sprite chooses names and links, so files are written below the copy's top only.

// canStream reports whether the sprites of a copy have tar.
func (j *copyJob) canStream(ctx context.Context) (bool, error) {
	for _, p := range []Place{j.from, j.to} {
		if p.Sprite == "" {
			continue
		}
		code, err := j.c.Exec(ctx, p.Sprite, sprites.Exec{Cmd: []string{"tar", "--version"}, Stdout: io.Discard, Stderr: io.Discard})
		if err != nil || code == 126 || code == 127 {
			return false, err
		}
	}
	return true, nil
}

// copyTree copies a folder to dest.
func (j *copyJob) copyTree(ctx context.Context, dest string) error {
	read, write := j.readLocal, j.writeLocal
	if j.from.Sprite != "" {
		read = j.readSprite
	}
	if j.to.Sprite != "" {
		write = j.writeSprite
	}
	return write(ctx, dest, read)
}

func (j *copyJob) readLocal(_ context.Context, give func(node) error) error {
	top := j.from.path + string(filepath.Separator) // a link to a folder is followed here, and nowhere else
	seen := map[fileID]string{}
	return filepath.WalkDir(top, func(name string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(j.from.path, name)
		if err != nil {
			return err
		}
		st, err := e.Info()
		if rel == "." {
			st, err = os.Stat(name)
		}
		if err != nil {
			return err
		}
		h := &tar.Header{Name: filepath.ToSlash(rel), Mode: int64(st.Mode().Perm()), ModTime: st.ModTime()}
		switch {
		case st.IsDir():
			h.Typeflag = tar.TypeDir
		case st.Mode()&fs.ModeSymlink != 0:
			h.Typeflag = tar.TypeSymlink
			if h.Linkname, err = os.Readlink(name); err != nil {
				return err
			}
		case !st.Mode().IsRegular():
			j.done.Skipped = append(j.done.Skipped, name)
			return nil
		default:
			if first, again := sameFile(seen, st, h.Name); again {
				h.Typeflag, h.Linkname = tar.TypeLink, first
				break
			}
			f, err := os.Open(name)
			if err != nil {
				return err
			}
			defer f.Close()
			h.Typeflag, h.Size = tar.TypeReg, st.Size()
			return give(node{h, f})
		}
		return give(node{h, nil})
	})
}

func (j *copyJob) readSprite(ctx context.Context, give func(node) error) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	out, feed := io.Pipe()
	var said lastWords
	var all errgroup.Group
	all.Go(func() error {
		code, err := j.c.Exec(ctx, j.from.Sprite, sprites.Exec{Cmd: []string{"tar", "-c", "-f", "-", "."}, Dir: j.from.path, Stdout: feed, Stderr: &said})
		if err == nil && code != 0 {
			err = fmt.Errorf("tar in sprite %s ended with %d: %s", j.from.Sprite, code, said)
		}
		feed.CloseWithError(err) // nil is the end
		return err
	})
	err = j.readTar(tar.NewReader(out), give)
	if err == nil {
		_, err = io.Copy(io.Discard, out) // the padding of tar
	}
	out.CloseWithError(err)
	if err != nil {
		cancel()
	}
	if ended := all.Wait(); err == nil {
		err = ended
	}
	return err
}

// readTar takes names below the top, and refuses others.
func (j *copyJob) readTar(r *tar.Reader, give func(node) error) error {
	for {
		h, err := r.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the stream of the sprite: %w", err)
		}
		h.Name = path.Clean(h.Name)
		if !filepath.IsLocal(filepath.FromSlash(h.Name)) {
			return fmt.Errorf("the sprite sends %q, which is not below %s", h.Name, j.from.path)
		}
		switch h.Typeflag {
		case tar.TypeReg, tar.TypeDir, tar.TypeSymlink:
		case tar.TypeLink:
			if h.Linkname = path.Clean(h.Linkname); !filepath.IsLocal(filepath.FromSlash(h.Linkname)) {
				return fmt.Errorf("the sprite sends a link to %q, which is not below %s", h.Linkname, j.from.path)
			}
		default:
			j.done.Skipped = append(j.done.Skipped, path.Join(j.from.path, h.Name))
			continue
		}
		if err := give(node{h, r}); err != nil {
			return err
		}
	}
}

func (j *copyJob) writeSprite(ctx context.Context, dest string, read reader) error {
	if st, err := j.c.Files().Stat(ctx, j.to.Sprite, dest); err != nil || !st.IsDir {
		if err := j.c.Files().Mkdir(ctx, j.to.Sprite, dest); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	in, feed := io.Pipe()
	var said lastWords
	var all errgroup.Group
	all.Go(func() error {
		code, err := j.c.Exec(ctx, j.to.Sprite, sprites.Exec{Cmd: []string{"tar", "-x", "-p", "-f", "-"}, Dir: dest, Stdin: in, Stdout: io.Discard, Stderr: &said})
		if err == nil && code != 0 {
			err = fmt.Errorf("tar in sprite %s ended with %d: %s", j.to.Sprite, code, said)
		}
		in.CloseWithError(errors.Join(err, io.ErrClosedPipe))
		return err
	})
	w := tar.NewWriter(feed)
	err := read(ctx, func(n node) error {
		h := &tar.Header{Typeflag: n.Typeflag, Name: "./" + n.Name, Linkname: n.Linkname, Mode: n.Mode & 0o777, ModTime: n.ModTime, Size: n.Size, Format: tar.FormatGNU}
		if n.Typeflag == tar.TypeLink {
			h.Linkname = "./" + n.Linkname
		}
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		if n.Typeflag == tar.TypeReg {
			if _, err := io.CopyN(w, j.observeContent(n.body), n.Size); err != nil {
				return fmt.Errorf("copy %s: %w", n.Name, err)
			}
		}
		j.countNode(n)
		return nil
	})
	if err == nil {
		err = w.Close()
	}
	feed.CloseWithError(err)
	if err != nil {
		cancel() // an incomplete stream must not look complete
	}
	if ended := all.Wait(); ended != nil && (err == nil || errors.Is(err, io.ErrClosedPipe)) {
		err = ended
	}
	return err
}

// writeLocal writes below dest and nowhere else, no matter which links exist or come.
func (j *copyJob) writeLocal(ctx context.Context, dest string, read reader) error {
	if err := os.Mkdir(dest, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	root, err := os.OpenRoot(dest)
	if err != nil {
		return err
	}
	defer root.Close()
	var folders []node
	err = read(ctx, func(n node) error {
		name, mode := filepath.FromSlash(n.Name), fs.FileMode(n.Mode).Perm()
		defer j.countNode(n)
		switch n.Typeflag {
		case tar.TypeDir:
			folders = append(folders, n)
			if err := root.Mkdir(name, 0o700); n.Name != "." && !errors.Is(err, fs.ErrExist) {
				return err
			}
			return nil
		case tar.TypeSymlink:
			return replaceBy(root, name, func() error { return root.Symlink(n.Linkname, name) })
		case tar.TypeLink:
			return replaceBy(root, name, func() error { return root.Link(filepath.FromSlash(n.Linkname), name) })
		}
		sink := localSink{root: root}
		if err := sink.file(n.Name, j.observeContent(n.body), mode); err != nil {
			return err
		}
		return root.Chtimes(name, n.ModTime, n.ModTime)
	})
	for _, n := range slices.Backward(folders) { // last: a folder must be writable until its content is there
		if err != nil {
			break
		}
		name := filepath.FromSlash(n.Name)
		err = errors.Join(root.Chmod(name, fs.FileMode(n.Mode).Perm()), root.Chtimes(name, n.ModTime, n.ModTime))
	}
	return err
}
