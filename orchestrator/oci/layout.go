package oci

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"hash"
	"io"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/gzip"
)

const (
	layoutFile = "oci-layout"
	indexFile  = "index.json"

	// annotationName is the annotation of an index that holds an image's name.
	annotationName = "org.opencontainers.image.ref.name"
)

// layout is an OCI layout that is being written. Modes are set, not left to the umask.
type layout struct{ dir string }

// newLayout begins a layout in a folder next to its final one.
func newLayout(out string) (*layout, error) {
	parent := filepath.Dir(out)
	if err := os.MkdirAll(parent, 0o755); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp(parent, "."+filepath.Base(out)+".new-")
	if err != nil {
		return nil, err
	}
	l := &layout{dir: dir}
	for _, sub := range []string{"", "blobs", "blobs/sha256"} {
		path := filepath.Join(dir, sub)
		if err := errors.Join(os.MkdirAll(path, 0o755), os.Chmod(path, 0o755)); err != nil {
			return nil, errors.Join(err, l.removeUnpublished())
		}
	}
	return l, nil
}

// removeUnpublished removes a layout that was not published.
func (l *layout) removeUnpublished() error {
	if l.dir == "" {
		return nil
	}
	return os.RemoveAll(l.dir)
}

// publishTo moves the layout to its place. One that is there is gone only when this one is there.
func (l *layout) publishTo(out string) error {
	if _, err := os.Stat(filepath.Join(out, layoutFile)); err != nil {
		if err := os.Remove(out); err != nil && !errors.Is(err, os.ErrNotExist) { // an empty folder
			return err
		}
		if err := os.Rename(l.dir, out); err != nil {
			return err
		}
		l.dir = ""
		return nil
	}
	old := l.dir + ".old"
	if err := os.Rename(out, old); err != nil {
		return err
	}
	if err := os.Rename(l.dir, out); err != nil {
		return errors.Join(err, os.Rename(old, out))
	}
	l.dir = old // which discard removes
	return nil
}

// writeIndex writes the files that make the folder a layout.
func (l *layout) writeIndex(manifests []v1.Descriptor) error {
	data, err := json.Marshal(v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex, Manifests: manifests})
	if err != nil {
		return err
	}
	return errors.Join(l.writeFile(indexFile, data), l.writeFile(layoutFile, []byte(`{"imageLayoutVersion":"1.0.0"}`)))
}

func (l *layout) writeFile(name string, data []byte) error {
	path := filepath.Join(l.dir, name)
	return errors.Join(os.WriteFile(path, data, 0o644), os.Chmod(path, 0o644))
}

// writeDocument writes a value as a JSON blob.
func (l *layout) writeDocument(media types.MediaType, v any) (v1.Descriptor, error) {
	data, err := json.Marshal(v)
	if err != nil {
		return v1.Descriptor{}, err
	}
	return l.writeBytes(media, data)
}

func (l *layout) writeBytes(media types.MediaType, data []byte) (v1.Descriptor, error) {
	sum := sha256.Sum256(data)
	d := v1.Descriptor{MediaType: media, Size: int64(len(data)), Digest: v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(sum[:])}}
	return d, l.writeFile(blobPath(d.Digest), data)
}

func blobPath(h v1.Hash) string { return filepath.Join("blobs", h.Algorithm, h.Hex) }

// writeLayer writes a layer and returns it with the digest of its uncompressed tar.
//
// Compression is that of one library at one level, pinned like every dependency, in one goroutine: equal tars give equal
// blobs.
func (l *layout) writeLayer(ctx context.Context, tar func(io.Writer) error) (v1.Descriptor, v1.Hash, error) {
	plain := sha256.New()
	d, err := l.writeBlob(types.OCILayer, func(w io.Writer) error {
		z, err := gzip.NewWriterLevel(w, gzip.DefaultCompression)
		if err != nil {
			return err
		}
		if err := tar(&bound{ctx: ctx, w: io.MultiWriter(plain, z)}); err != nil {
			return err
		}
		return z.Close()
	})
	return d, digestOf(plain), err
}

// writeBlob stores the output of write under its digest.
func (l *layout) writeBlob(media types.MediaType, write func(io.Writer) error) (v1.Descriptor, error) {
	f, err := os.CreateTemp(l.dir, "blob-")
	if err != nil {
		return v1.Descriptor{}, err
	}
	digest := sha256.New()
	err = errors.Join(write(io.MultiWriter(digest, f)), f.Chmod(0o644))
	info, statErr := f.Stat()
	if err := errors.Join(err, statErr, f.Close()); err != nil {
		return v1.Descriptor{}, err // the whole layout is discarded
	}
	d := v1.Descriptor{MediaType: media, Size: info.Size(), Digest: digestOf(digest)}
	return d, os.Rename(f.Name(), filepath.Join(l.dir, blobPath(d.Digest)))
}

func digestOf(h hash.Hash) v1.Hash {
	return v1.Hash{Algorithm: "sha256", Hex: hex.EncodeToString(h.Sum(nil))}
}

// bound stops a writer with its context.
type bound struct {
	ctx context.Context
	w   io.Writer
}

func (b *bound) Write(p []byte) (int, error) {
	if err := b.ctx.Err(); err != nil {
		return 0, err
	}
	return b.w.Write(p)
}

// artifactConfig is the config of an artifact that is not an image: an empty object.
var artifactConfig = []byte("{}")

const emptyJSON types.MediaType = "application/vnd.oci.empty.v1+json"
