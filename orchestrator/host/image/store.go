package image

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/spritekit/lattice/orchestrator/host/tree"
	"github.com/spritekit/lattice/spritekit/durable"
)

// Options of a store.
type Options struct {
	// Shift is added to the ids of files unpacked from then on; 0 gives all files to the caller. Nil is 0.
	Shift func() int
	// Architecture is that of sprites, as Go calls it; "" is this machine's.
	Architecture string
	Limits       Limits
	Now          func() time.Time // nil = the clock
}

// Store keeps images in a folder. It is safe for concurrent use in one process, which must be the only one.
type Store struct {
	dir string
	o   Options

	busy keyed // imports of one source, and of one digest, go one at a time

	step func(string) // called between steps that a crash could separate; tests end there

	mu sync.RWMutex // guards the records; held alone while images come and go, together while a sprite takes one
}

// rootfs and record are the entries of an image's folder.
const (
	rootfs    = "rootfs"
	record    = "image.json"
	namesFile = "names.json"
	staging   = "tmp"
)

// Open opens or makes a store and removes the remains of a crash.
func Open(dir string, o Options) (*Store, error) {
	if o.Shift == nil {
		o.Shift = func() int { return 0 }
	}
	if o.Now == nil {
		o.Now = func() time.Time { return time.Now().UTC() }
	}
	o.Architecture = cmp.Or(o.Architecture, runtime.GOARCH)
	s := &Store{dir: dir, o: o, step: func(string) {}}
	if err := tree.Remove(s.pathOf(staging)); err != nil {
		return nil, fmt.Errorf("open images: %w", err)
	}
	if err := os.MkdirAll(s.pathOf(staging), 0o700); err != nil {
		return nil, fmt.Errorf("open images: %w", err)
	}
	return s, nil
}

func (s *Store) pathOf(parts ...string) string {
	return filepath.Join(append([]string{s.dir}, parts...)...)
}

// folderOf is where an image lies.
func (s *Store) folderOf(digest string) string {
	return s.pathOf(strings.TrimPrefix(digest, "sha256:"))
}

// Dir is the root filesystem of an image. It must not be written to.
func (s *Store) Dir(digest string) string { return filepath.Join(s.folderOf(digest), rootfs) }

var (
	fullDigest = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^sha256:[0-9a-f]{64}$`) })
	someDigest = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(sha256:)?[0-9a-f]{6,64}$`) })
	validName  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}$`) })
)

// None stands for no image. No image can have this name.
const None = "none"

// ValidName reports whether an image can be called that: letters, digits, dots, dashes, underscores and colons, and
// nothing that could be a digest.
func ValidName(name string) bool {
	return name != None && validName().MatchString(name) && !someDigest().MatchString(name) && !strings.HasPrefix(name, "sha256:")
}

// Get finds an image by digest, the first digits of one (at least 6), name, or the path that it was imported from.
// Without such an image the error is ErrNotFound.
func (s *Store) Get(ref string) (Image, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.getImage(ref)
}

func (s *Store) getImage(ref string) (Image, error) {
	names, err := s.readNames()
	if err != nil {
		return Image{}, err
	}
	if digest, ok := names[ref]; ok {
		ref = digest
	}
	if fullDigest().MatchString(ref) {
		return s.loadRecord(ref, names)
	}
	all, err := s.listImages(names)
	if err != nil {
		return Image{}, err
	}
	var hits []Image
	for _, img := range all {
		if filepath.IsAbs(ref) && img.Source == ref ||
			someDigest().MatchString(ref) && strings.HasPrefix(img.Digest, "sha256:"+strings.TrimPrefix(ref, "sha256:")) {
			hits = append(hits, img)
		}
	}
	switch {
	case len(hits) == 0:
		return Image{}, fmt.Errorf("%w: %s", ErrNotFound, ref)
	case len(hits) == 1:
		return hits[0], nil
	case filepath.IsAbs(ref): // the file or folder has changed in between
		return slices.MaxFunc(hits, func(a, b Image) int { return a.ImportedAt.Compare(b.ImportedAt) }), nil
	}
	return Image{}, refuseImage("%d images are meant by %s", len(hits), ref)
}

// loadRecord reads the record of an image.
func (s *Store) loadRecord(digest string, names map[string]string) (img Image, err error) {
	data, err := os.ReadFile(filepath.Join(s.folderOf(digest), record))
	if errors.Is(err, fs.ErrNotExist) {
		return img, fmt.Errorf("%w: %s", ErrNotFound, digest)
	}
	if err != nil {
		return img, fmt.Errorf("read image: %w", err)
	}
	if err := json.Unmarshal(data, &img); err != nil {
		return img, fmt.Errorf("read image %s: %w", digest, err)
	}
	for name, d := range names {
		if d == digest {
			img.Names = append(img.Names, name)
		}
	}
	slices.Sort(img.Names)
	return img, nil
}

// List returns all images, the newest first.
func (s *Store) List() ([]Image, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	names, err := s.readNames()
	if err != nil {
		return nil, err
	}
	return s.listImages(names)
}

func (s *Store) listImages(names map[string]string) ([]Image, error) {
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	all := []Image{}
	for _, e := range entries {
		digest := "sha256:" + e.Name()
		if !e.IsDir() || !fullDigest().MatchString(digest) {
			continue
		}
		img, err := s.loadRecord(digest, names)
		if err != nil {
			return nil, err
		}
		all = append(all, img)
	}
	slices.SortFunc(all, func(a, b Image) int {
		return cmp.Or(b.ImportedAt.Compare(a.ImportedAt), strings.Compare(a.Digest, b.Digest))
	})
	return all, nil
}

// Usable reports why an image cannot serve this host's sprites, nil when it can.
func (s *Store) Usable(img Image) error {
	if shift := s.o.Shift(); img.Shift != shift {
		return &Refusal{fmt.Sprintf("the image %s was imported for another isolation level (ids shifted by %d, here by %d)", img.Short(), img.Shift, shift),
			"remove it and import it again: lattice image rm " + img.Short()}
	}
	if img.Architecture != "" && img.Architecture != s.o.Architecture {
		return &Refusal{fmt.Sprintf("the programs of the image %s are for %s, and sprites run %s", img.Short(), img.Architecture, s.o.Architecture), "get the image for that architecture"}
	}
	return nil
}

// Short is the image's first name, or the first digits of its digest.
func (i Image) Short() string {
	if len(i.Names) > 0 {
		return i.Names[0]
	}
	return strings.TrimPrefix(i.Digest, "sha256:")[:12]
}

// Use finds an image and calls do, during which it cannot be removed. do records that a sprite uses it.
func (s *Store) Use(ref string, do func(Image) error) error {
	s.mu.RLock()
	defer s.mu.RUnlock()
	img, err := s.getImage(ref)
	if err != nil {
		return err
	}
	return do(img)
}

// Remove removes an image with its names. users says which sprites need it; as long as there are any the image stays
// and the error is an *InUseError.
func (s *Store) Remove(ref string, users func(digest string) ([]string, error)) (Image, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	img, err := s.getImage(ref)
	if err != nil {
		return img, err
	}
	sprites, err := users(img.Digest)
	if err != nil {
		return img, fmt.Errorf("remove image %s: %w", img.Short(), err)
	}
	if len(sprites) > 0 {
		return img, &InUseError{sprites}
	}
	gone := s.pathOf(staging, ulid.Make().String())
	if err := os.Rename(s.folderOf(img.Digest), gone); err != nil { // from here on there is no such image
		return img, fmt.Errorf("remove image %s: %w", img.Short(), err)
	}
	s.step("moved away")
	err = errors.Join(durable.SyncDir(s.dir), s.changeNames(func(names map[string]string) {
		for _, name := range img.Names {
			delete(names, name)
		}
	}))
	s.step("forgotten")
	err = errors.Join(err, tree.Remove(gone))
	if err != nil {
		return img, fmt.Errorf("remove image %s: %w", img.Short(), err)
	}
	return img, nil
}

// readNames reads which name means which digest. Names of images that are gone mean nothing.
func (s *Store) readNames() (map[string]string, error) {
	data, err := os.ReadFile(s.pathOf(namesFile))
	if errors.Is(err, fs.ErrNotExist) {
		return map[string]string{}, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read names of images: %w", err)
	}
	names := map[string]string{}
	if err := json.Unmarshal(data, &names); err != nil {
		return nil, fmt.Errorf("read names of images: %w", err)
	}
	return names, nil
}

// changeNames changes the names. The caller holds mu alone.
func (s *Store) changeNames(change func(map[string]string)) error {
	names, err := s.readNames()
	if err != nil {
		return err
	}
	change(names)
	return s.replaceFile(s.pathOf(namesFile), names)
}

// replaceFile replaces a small file as a whole.
func (s *Store) replaceFile(to string, v any) error {
	data, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	tmp := s.pathOf(staging, ulid.Make().String())
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(data, '\n'))
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	if err := os.Rename(tmp, to); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return durable.SyncDir(filepath.Dir(to))
}
