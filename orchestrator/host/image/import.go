package image

import (
	"context"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/oklog/ulid/v2"

	"github.com/spritekit/lattice/orchestrator/host/tree"
	"github.com/spritekit/lattice/spritekit/durable"
)

// Request describes an import.
type Request struct {
	// Ref is an absolute path of an OCI layout, a docker-archive, a root filesystem's tar or folder; PATH#NAME chooses one
	// of several images there. Anything else means an image that is imported already.
	Ref string
	// Name is the image's name from then on; "" takes the name of the file or folder, if that is a valid name.
	Name string
}

// Import brings an image in, unless it is there already. Imports of the same image at the same time do the work once.
// It returns a *Refusal for a source that cannot be used. progress, which may be nil, is called by the caller's goroutine.
func (s *Store) Import(ctx context.Context, req Request, progress func(Progress)) (Image, error) {
	if progress == nil {
		progress = func(Progress) {}
	}
	if req.Name != "" && !ValidName(req.Name) {
		return Image{}, &Refusal{fmt.Sprintf("%q is no name for an image", req.Name), "use letters, digits, dots and dashes, and nothing that looks like a digest"}
	}
	if !filepath.IsAbs(req.Ref) {
		img, err := s.Get(req.Ref)
		if err == nil && req.Name != "" {
			err = s.nameImage(img.Digest, req.Name)
			img.Names = append(img.Names, req.Name)
		}
		return img, err
	}
	img, err := s.importPath(ctx, req, progress)
	if err != nil {
		return Image{}, fmt.Errorf("import image %s: %w", req.Ref, err)
	}
	return img, nil
}

func (s *Store) importPath(ctx context.Context, req Request, progress func(Progress)) (Image, error) {
	path, choice := splitChoice(req.Ref)
	name := req.Name
	if name == "" {
		name = nameOf(path)
	}
	free, err := s.busy.lockKey(ctx, req.Ref)
	if err != nil {
		return Image{}, err
	}
	defer free()
	if img, ok := s.findUnchanged(path, choice); ok {
		return s.findKnown(img.Digest, name)
	}
	work := s.pathOf(staging, ulid.Make().String())
	scratch := filepath.Join(work, "archive")
	if err := os.MkdirAll(scratch, 0o700); err != nil {
		return Image{}, err
	}
	s.step("begun")
	img, err := s.importFrom(ctx, path, choice, name, req.Ref, work, progress)
	return img, errors.Join(err, tree.Remove(work))
}

// findUnchanged finds the image that a file was imported as, if nothing of it has changed since.
func (s *Store) findUnchanged(path, choice string) (Image, bool) {
	info, err := os.Stat(path)
	if err != nil || choice != "" || !info.Mode().IsRegular() {
		return Image{}, false
	}
	img, err := s.Get(path)
	if err != nil || img.Stamp == nil || *img.Stamp != *stampOf(info) || s.Usable(img) != nil {
		return Image{}, false
	}
	return img, true
}

// importFrom finds the kind of the source at path and unpacks it below work.
func (s *Store) importFrom(ctx context.Context, path, choice, name, source, work string, progress func(Progress)) (Image, error) {
	f, err := s.findSource(ctx, path, choice, filepath.Join(work, "archive"), progress)
	if err != nil {
		return Image{}, err
	}
	img, err := s.importFound(ctx, f, name, source, work, progress)
	return img, errors.Join(err, f.close())
}

func (s *Store) importFound(ctx context.Context, f *found, name, source, work string, progress func(Progress)) (Image, error) {
	free, err := s.busy.lockKey(ctx, f.digest)
	if err != nil {
		return Image{}, err
	}
	defer free()
	if img, err := s.findKnown(f.digest, name); !errors.Is(err, ErrNotFound) {
		if err == nil {
			err = s.Usable(img)
		}
		if err == nil {
			err = s.cameFrom(img, source, f.stamp)
		}
		return img, err
	}
	place := filepath.Join(work, "image")
	img, err := s.unpackLayers(ctx, f, filepath.Join(place, rootfs), progress)
	if err != nil {
		return Image{}, err
	}
	s.step("unpacked")
	img.Digest, img.Kind, img.Source, img.Config, img.Stamp, img.ImportedAt = f.digest, f.kind, source, f.config, f.stamp, s.o.Now()
	if err := s.replaceFile(filepath.Join(place, record), img); err != nil {
		return Image{}, err
	}
	s.step("recorded")
	progress(Progress{Step: "write to disk", Entries: img.Entries})
	if err := tree.Sync(place); err != nil {
		return Image{}, err
	}
	s.step("synced")
	s.mu.Lock()
	err = os.Rename(place, s.folderOf(f.digest)) // the image is there from here on
	s.mu.Unlock()
	if err != nil {
		return Image{}, err
	}
	s.step("placed")
	if err := durable.SyncDir(s.dir); err != nil {
		return Image{}, err
	}
	return s.findKnown(f.digest, name)
}

// findKnown finds an image that is there, and calls it by name unless that is "".
func (s *Store) findKnown(digest, name string) (Image, error) {
	img, err := s.Get(digest)
	if err != nil {
		return img, err
	}
	if name != "" {
		if err := s.nameImage(digest, name); err != nil {
			return img, err
		}
	}
	return s.Get(digest)
}

// cameFrom records where an image was last imported from, so that this path means it, too.
func (s *Store) cameFrom(img Image, source string, at *stamp) error {
	if img.Source == source && (at == nil) == (img.Stamp == nil) && (at == nil || *at == *img.Stamp) {
		return nil
	}
	img.Source, img.Stamp, img.Names, img.ImportedAt = source, at, nil, s.o.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.replaceFile(filepath.Join(s.folderOf(img.Digest), record), img)
}

// nameImage gives an image a name, which it takes from any other one.
func (s *Store) nameImage(digest, name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	names, err := s.readNames()
	if err != nil || names[name] == digest {
		return err
	}
	err = s.changeNames(func(names map[string]string) { names[name] = digest })
	s.step("named")
	return err
}

// unpackLayers unpacks all layers into a new folder and returns the image's record.
func (s *Store) unpackLayers(ctx context.Context, f *found, to string, progress func(Progress)) (img Image, err error) {
	if err := os.MkdirAll(to, 0o755); err != nil {
		return img, err
	}
	if err := checkCaseSensitive(to); err != nil {
		return img, err
	}
	now := Progress{Step: "unpack", Layers: len(f.layers)}
	for _, l := range f.layers {
		now.Of += measureFile(l.open)
	}
	x, err := newExtraction(to, s.o.Shift(), s.o.Limits, nil)
	if err != nil {
		return img, err
	}
	x.progress = func(entries int, bytes int64) {
		now.Entries, now.Bytes, now.Done = entries, bytes, x.blobs.N
		progress(now)
	}
	defer func() { err = errors.Join(err, x.close()) }()
	if err := x.giveToRoot(x.root, "."); err != nil {
		return img, err
	}
	for i, l := range f.layers {
		now.Layer = i + 1
		x.progress(x.entries, x.read)
		if err := x.unpackVerified(ctx, l); err != nil {
			return img, err
		}
		s.step("layer unpacked")
	}
	if err := x.setDeferred(); err != nil {
		return img, err
	}
	if f.arch == "" {
		f.arch = architectureOf(x.root)
	}
	if f.arch != "" && f.arch != s.o.Architecture {
		return img, &Refusal{fmt.Sprintf("its programs are for %s, and sprites run %s", f.arch, s.o.Architecture), "get the image for that architecture"}
	}
	return Image{Architecture: f.arch, Entries: x.entries, Size: x.size, LeftOut: x.leftOut, Shift: x.shift}, nil
}

// checkCaseSensitive refuses filesystems on which names that differ in case mean one file: an image's would be mixed up.
func checkCaseSensitive(dir string) error {
	lower, upper := filepath.Join(dir, "case"), filepath.Join(dir, "CASE")
	if err := os.Mkdir(lower, 0o700); err != nil {
		return err
	}
	_, err := os.Lstat(upper)
	if err := os.Remove(lower); err != nil {
		return err
	}
	if err == nil {
		return &Refusal{"the filesystem here does not tell A from a", "keep the state on one that does (LATTICE_HOME)"}
	}
	return nil
}

// machineName returns the name that Go has for an architecture of programs.
func machineName(m elf.Machine) string {
	switch m {
	case elf.EM_X86_64:
		return "amd64"
	case elf.EM_AARCH64:
		return "arm64"
	case elf.EM_386:
		return "386"
	case elf.EM_ARM:
		return "arm"
	case elf.EM_RISCV:
		return "riscv64"
	case elf.EM_PPC64:
		return "ppc64le"
	case elf.EM_S390:
		return "s390x"
	}
	return ""
}

// architectureOf looks at programs that nearly every system has; "" when there are none.
func architectureOf(root *os.Root) string {
	for _, name := range []string{"bin/sh", "bin/busybox", "usr/bin/env", "usr/bin/dpkg", "usr/bin/coreutils", "usr/bin/git"} {
		info, err := root.Stat(name)
		if err != nil || !info.Mode().IsRegular() {
			continue
		}
		f, err := root.OpenFile(name, os.O_RDONLY, 0)
		if err != nil {
			continue
		}
		program, err := elf.NewFile(f)
		_ = f.Close() // nothing was written
		if err == nil {
			return machineName(program.Machine)
		}
	}
	return ""
}

// keyed is a mutex per key.
type keyed struct {
	mu   sync.Mutex
	held map[string]chan struct{} // closed when the key is free again
}

// lockKey waits for the key, or for the end of ctx. The returned function frees it.
func (k *keyed) lockKey(ctx context.Context, key string) (free func(), err error) {
	for {
		k.mu.Lock()
		taken, held := k.held[key]
		if !held {
			mine := make(chan struct{})
			if k.held == nil {
				k.held = map[string]chan struct{}{}
			}
			k.held[key] = mine
			k.mu.Unlock()
			return func() {
				k.mu.Lock()
				defer k.mu.Unlock()
				delete(k.held, key)
				close(mine)
			}, nil
		}
		k.mu.Unlock()
		select {
		case <-taken:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}
