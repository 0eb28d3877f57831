package image

import (
	"archive/tar"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// found is an image at a path that can be unpacked.
type found struct {
	kind   Kind
	digest string
	arch   string // as the image says, "" when it does not
	config Config
	layers []layer // lowest first
	stamp  *stamp
	close  func() error // when it has been unpacked
}

// layer is one tar of an image.
type layer struct {
	open      func() (io.ReadCloser, error)
	digest    string // of the bytes that open returns; "" if unknown
	diffID    string // of the uncompressed tar
	claimed   bool   // the diffID comes from the image; else it was computed a moment ago
	whiteouts bool
}

func stampOf(info fs.FileInfo) *stamp {
	s := &stamp{Size: info.Size(), MTime: info.ModTime().UnixNano()}
	if st, ok := info.Sys().(*syscall.Stat_t); ok {
		s.Inode = st.Ino
	}
	return s
}

// splitChoice takes PATH#NAME apart: NAME chooses one of several images in one place.
func splitChoice(ref string) (path, choice string) {
	if i := strings.LastIndexByte(ref, '#'); i > 0 {
		if _, err := os.Lstat(ref); err != nil {
			return ref[:i], ref[i+1:]
		}
	}
	return ref, ""
}

// findSource examines the file or folder at a path. scratch is an empty folder for archives that must be unpacked for that.
func (s *Store) findSource(ctx context.Context, path, choice, scratch string, tell func(Progress)) (*found, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, &Refusal{err.Error(), "an image is an OCI layout, a docker-archive, or a root filesystem as a tar or a folder"}
	}
	switch {
	case info.IsDir():
		if _, err := os.Stat(filepath.Join(path, layoutFile)); err == nil {
			return s.findLayout(path, choice)
		}
		if choice != "" {
			return nil, refuseImage("#%s chooses an image of an OCI layout, and there is none", choice)
		}
		tell(Progress{Step: "read the folder"})
		return findFolder(ctx, path)
	case !info.Mode().IsRegular():
		return nil, refuseImage("it is neither a file nor a folder")
	}
	look, err := s.surveyTar(ctx, path, func(done int64) { tell(Progress{Step: "read the archive", Done: done, Of: info.Size()}) })
	if err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) { return os.Open(path) }
	if look.kind == KindRootfs {
		if choice != "" {
			return nil, refuseImage("#%s chooses an image of an archive, and it holds a root filesystem", choice)
		}
		return &found{kind: KindRootfs, digest: look.digest, layers: []layer{{open: open, diffID: look.digest}}, stamp: stampOf(info), close: func() error { return nil }}, nil
	}
	if err := s.unpackArchive(ctx, open, look.digest, scratch, tell); err != nil {
		return nil, err
	}
	if look.kind == KindDocker {
		return s.findDocker(scratch, choice)
	}
	return s.findLayout(scratch, choice)
}

// surveyed is the result of one pass over a tar.
type surveyed struct {
	kind   Kind
	digest string
}

// telling are the top-level names of a tar that show its kind.
var telling = []string{"etc", "usr", "bin", layoutFile, indexFile, dockerManifest}

// surveyTar reads a whole tar and summarises its contents. It tells how many bytes of the file were read.
func (s *Store) surveyTar(ctx context.Context, path string, tell func(done int64)) (surveyed, error) {
	f, err := os.Open(path)
	if err != nil {
		return surveyed{}, err
	}
	defer f.Close()
	x := &extraction{limits: s.o.Limits.withDefaults()}
	x.progress = func(int, int64) { tell(x.blobs.N) }
	x.progress(0, 0)
	plain, err := openDecompressed(io.TeeReader(f, &x.blobs))
	if err != nil {
		return surveyed{}, err
	}
	defer plain.Close()
	sum := sha256.New()
	stream := io.TeeReader(&meter{ctx: ctx, r: plain, x: x}, sum)
	t := tar.NewReader(stream)
	top := map[string]bool{}
	for {
		h, err := t.Next()
		if err == io.EOF {
			break
		}
		if errors.Is(err, tar.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF) {
			return surveyed{}, &Refusal{fmt.Sprintf("it is no tar, or damaged: %v", err), "an image is an OCI layout, a docker-archive, or a root filesystem as a tar or a folder"}
		}
		if err != nil {
			return surveyed{}, err
		}
		if x.entries++; x.entries > x.limits.Entries {
			return surveyed{}, refuseImage("the image has more than %d entries", x.limits.Entries)
		}
		name := strings.Trim(strings.TrimPrefix(h.Name, "./"), "/")
		if first, _, _ := strings.Cut(name, "/"); slices.Contains(telling, first) {
			top[first] = true
		}
	}
	if _, err := io.Copy(io.Discard, stream); err != nil {
		return surveyed{}, err
	}
	system := top["etc"] || top["usr"] || top["bin"]
	look := surveyed{KindRootfs, digestName(sum)}
	switch {
	case x.entries == 0:
		return look, refuseImage("it holds no files")
	case !system && top[layoutFile] && top[indexFile]:
		look.kind = KindOCI
	case !system && top[dockerManifest]:
		look.kind = KindDocker
	}
	return look, nil
}

// unpackArchive unpacks a tar of blobs. The files belong to the caller, regardless of the owners in the tar.
func (s *Store) unpackArchive(ctx context.Context, open func() (io.ReadCloser, error), digest, to string, tell func(Progress)) error {
	x, err := newExtraction(to, 0, s.o.Limits, nil)
	if err != nil {
		return err
	}
	size := measureFile(open)
	x.progress = func(entries int, bytes int64) {
		tell(Progress{Step: "unpack the archive", Entries: entries, Bytes: bytes, Done: x.blobs.N, Of: size})
	}
	return errors.Join(x.unpackVerified(ctx, layer{open: open, diffID: digest}), x.close())
}

// measureFile returns the size of the file that open opens, 0 if it is not one.
func measureFile(open func() (io.ReadCloser, error)) int64 {
	f, err := open()
	if err != nil {
		return 0
	}
	defer f.Close()
	if file, ok := f.(*os.File); ok {
		if info, err := file.Stat(); err == nil {
			return info.Size()
		}
	}
	return 0
}

// unpackVerified unpacks a layer and holds it against its digests.
func (x *extraction) unpackVerified(ctx context.Context, l layer) error {
	f, err := l.open()
	if err != nil {
		return err
	}
	defer f.Close()
	squeezed, plain := sha256.New(), sha256.New()
	blob := io.TeeReader(f, io.MultiWriter(&x.blobs, squeezed))
	tarball, err := openDecompressed(blob)
	if err == nil {
		err = x.unpackLayer(ctx, io.TeeReader(tarball, plain), l.whiteouts)
		err = errors.Join(err, tarball.Close())
	}
	if refused := (*Refusal)(nil); err != nil && !errors.As(err, &refused) {
		return err
	}
	// A wrong digest is the better reason.
	if l.digest != "" {
		if _, drained := io.Copy(io.Discard, blob); drained != nil {
			return errors.Join(err, drained)
		}
		if got := digestName(squeezed); got != l.digest {
			return refuseImage("the blob %s is damaged or was changed: its digest is %s", l.digest, got)
		}
	}
	if got := digestName(plain); err == nil && got != l.diffID {
		if !l.claimed {
			return errChanged
		}
		return refuseImage("a layer unpacks to %s, where the image's config says %s", got, l.diffID)
	}
	return err
}

func digestName(sum hash.Hash) string { return "sha256:" + hex.EncodeToString(sum.Sum(nil)) }

// nameOf returns the default name of an image at a path.
func nameOf(path string) string {
	name := filepath.Base(path)
	for _, end := range []string{".gz", ".zst", ".tgz", ".tar", ".oci"} {
		name = strings.TrimSuffix(name, end)
	}
	if !ValidName(name) {
		return ""
	}
	return name
}

// findFolder takes a folder as a root filesystem. It is read twice: for its digest, and to be copied.
func findFolder(ctx context.Context, dir string) (*found, error) {
	sum := sha256.New()
	if err := writeFolder(ctx, sum, dir); err != nil {
		return nil, err
	}
	open := func() (io.ReadCloser, error) {
		r, w := io.Pipe()
		p := &pipedFolder{PipeReader: r, done: make(chan struct{})}
		go func() { // awaited by Close
			defer close(p.done)
			w.CloseWithError(writeFolder(ctx, w, dir))
		}()
		return p, nil
	}
	digest := digestName(sum)
	return &found{kind: KindRootfs, digest: digest, layers: []layer{{open: open, diffID: digest}}, close: func() error { return nil }}, nil
}
