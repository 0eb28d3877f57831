// Package image keeps the root filesystems that sprites start from.
//
// Start with Open and Store.Import. An image comes as an OCI layout (a folder or a tar of one), as a docker-archive, as
// a tar of a root filesystem (plain, gzip, zstd) or as a folder that holds one. It is unpacked once into
//
//	<dir>/<digest>/rootfs       the files that sprites see; never changed
//	<dir>/<digest>/image.json   the record: an [Image]
//	<dir>/names.json            name → digest
//	<dir>/tmp/                  images that are being unpacked or removed; emptied by Open
//
// The digest of an image with a manifest is the manifest's; that of a docker-archive its config's; that of a root
// filesystem is the sha256 of its uncompressed tar, for which a folder counts as a tar in the order of its names.
//
// # Limits of an archive
//
// An archive is hostile until proven otherwise. Every blob and every layer is checked against its digest. Names with ".." are
// refused. Links, absolute ones too, are resolved inside the image, as in a sprite; an entry behind a broken link is
// refused. Hard links reach only files unpacked before. Devices are left out and counted, and so are extended attributes
// other than user.*, and those of overlay filesystems. The number of
// entries, their bytes and the length of names are bounded, and an image is there whole or not at all.
//
// # Whose the files are
//
// With a shift (a host that runs as root), id n of the image becomes shift+n for n below 65536; above, it becomes
// "nobody". Modes are kept as they are, setuid included: the ids mean nothing outside sprites. Without one (an ordinary
// user) everything belongs to the caller; setuid and setgid bits are cleared, because they would lend the caller's own
// id, and modes are widened until the owner can read files and use folders.
//
// Images are made elsewhere: orchestrator/oci builds layouts. Nothing is ever fetched from a registry, and no daemon is
// asked.
package image

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"time"
)

// Kind is the kind of source that an image was imported from.
type Kind string

// The kinds of images.
const (
	KindOCI    Kind = "oci"            // an OCI layout
	KindDocker Kind = "docker-archive" // the output of docker save
	KindRootfs Kind = "rootfs"         // a root filesystem, as a tar or a folder
)

// Image is the record of an imported image.
type Image struct {
	Digest       string    `json:"digest"` // "sha256:" and 64 hexadecimal digits
	Names        []string  `json:"names,omitempty"`
	Kind         Kind      `json:"kind"`
	Source       string    `json:"source"` // path that it was last imported from
	Architecture string    `json:"architecture,omitempty"`
	ImportedAt   time.Time `json:"imported_at"`
	Entries      int       `json:"entries"`
	Size         int64     `json:"size"` // bytes of all files, holes included
	LeftOut      LeftOut   `json:"left_out"`
	Config       Config    `json:"config"`

	// Shift was added to the ids; an image serves only hosts with the same shift.
	Shift int `json:"shift"`
	// Stamp tells whether the file at Source is still the same, so that it need not be read again; of single files only.
	Stamp *stamp `json:"stamp,omitempty"`
}

// Config holds an image's settings for its programs.
type Config struct {
	Env        []string          `json:"env,omitempty"`         // KEY=VALUE
	WorkingDir string            `json:"working_dir,omitempty"` // noted only: commands start where the API says
	User       string            `json:"user,omitempty"`        // noted only: commands of sprites run as the user sprite
	Labels     map[string]string `json:"labels,omitempty"`
}

// LeftOut counts the entries of an archive that are not in the image.
type LeftOut struct {
	Devices    int `json:"devices,omitempty"`    // block and character devices, and sockets
	Attributes int `json:"attributes,omitempty"` // extended attributes
	Setid      int `json:"setid,omitempty"`      // setuid and setgid bits that were cleared
	Owners     int `json:"owners,omitempty"`     // ids of 65536 and more, replaced by the overflow id
}

// Progress is told while an image is imported.
type Progress struct {
	Step    string `json:"step"`            // the current step, for people
	Layer   int    `json:"layer,omitempty"` // from 1
	Layers  int    `json:"layers,omitempty"`
	Entries int    `json:"entries,omitempty"` // unpacked so far
	Bytes   int64  `json:"bytes,omitempty"`   // unpacked so far
	Done    int64  `json:"done,omitempty"`    // bytes that were read of the files that hold the image
	Of      int64  `json:"of,omitempty"`      // bytes of these files, 0 if that is not known
}

// Limits bound one import. The zero value of a member is its default.
type Limits struct {
	Entries int   // of all layers; 2,000,000
	Bytes   int64 // unpacked, holes included; 64 GiB
}

func (l Limits) withDefaults() Limits {
	l.Entries = cmp.Or(l.Entries, 2_000_000)
	l.Bytes = cmp.Or(l.Bytes, 64<<30)
	return l
}

var (
	// ErrNotFound is returned by Get and Remove for an image that was never imported.
	ErrNotFound = errors.New("image not found")
	// errChanged means that another process wrote to a source while it was read.
	errChanged = errors.New("it changed while it was read")
)

// Refusal says why a source is not a usable image, and names the remedy.
type Refusal struct {
	Reason string
	Remedy string // may be ""
}

func (r *Refusal) Error() string { return r.Reason }

// refuseImage makes a Refusal without a remedy.
func refuseImage(format string, args ...any) error {
	return &Refusal{Reason: fmt.Sprintf(format, args...)}
}

// InUseError says which sprites keep an image from being removed.
type InUseError struct{ Sprites []string }

func (e *InUseError) Error() string {
	return "sprites use it: " + strings.Join(e.Sprites, ", ")
}

// stamp tells one state of a file from another.
type stamp struct {
	Size  int64  `json:"size"`
	MTime int64  `json:"mtime"` // nanoseconds
	Inode uint64 `json:"inode"`
}
