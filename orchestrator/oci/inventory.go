package oci

import (
	"archive/tar"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
)

// Contents is the subject of a Document.
type Contents struct {
	Platform string // such as linux/amd64
	Digest   string // of the image's manifest
	// Files of the base that describe its contents, by path without a leading slash: dpkg's records, os-release and Debian's
	// copyright files.
	Files     map[string][]byte
	Spritekit string // path of the binary that lies in /skills
	Time      time.Time
}

const (
	maxNoted    = 32 << 20  // bytes of one file of an inventory
	maxAllNoted = 256 << 20 // of all of them
)

// inventory collects facts about a base while its layers are read, lowest first.
type inventory struct {
	files   map[string][]byte
	links   map[string]string // of /usr/share/doc
	noted   map[string]int    // the number of the entry that each of them comes from
	bytes   int
	entries int
	arch    string // of the first program
}

// removals are the paths that a layer removes, each with the number of the first entry that stays.
type removals struct {
	paths   map[string]int // each with everything below
	folders map[string]int // the contents of folders
}

const docs = "usr/share/doc/"

// isInventoryFile reports whether a file describes the contents of an image.
func isInventoryFile(name string) bool {
	switch name {
	case "var/lib/dpkg/status", "etc/os-release", "usr/lib/os-release":
		return true
	}
	if path.Dir(name) == "var/lib/dpkg/status.d" {
		return true
	}
	pkg, ok := strings.CutSuffix(name, "/copyright")
	return ok && path.Dir(pkg)+"/" == docs
}

// holdsInventory reports whether a folder of this name can hold files that describe the contents of an image.
func holdsInventory(name string) bool {
	above := func(dir string) bool { return strings.HasPrefix(dir, name+"/") }
	return path.Dir(name)+"/" == docs || slices.ContainsFunc([]string{docs, "etc/", "usr/lib/", "var/lib/dpkg/status.d/"}, above)
}

// scanLayer reads one layer.
func (inv *inventory) scanLayer(r io.Reader) error {
	if inv.files == nil {
		inv.files, inv.links, inv.noted = map[string][]byte{}, map[string]string{}, map[string]int{}
	}
	first, gone := inv.entries, removals{map[string]int{}, map[string]int{}}
	t := tar.NewReader(r)
	for ; ; inv.entries++ {
		h, err := t.Next()
		switch {
		case err == io.EOF:
			inv.dropRemoved(gone)
			inv.resolveLinks()
			_, err = io.Copy(io.Discard, r) // the digest covers the archive's padding
			return err
		case errors.Is(err, tar.ErrHeader) || errors.Is(err, io.ErrUnexpectedEOF):
			return inputError("a root filesystem is a folder or a tar, plain or by gzip or zstd", "it is no tar, or damaged: %v", err)
		case err != nil:
			return err
		}
		name := strings.TrimPrefix(path.Clean("/"+h.Name), "/")
		dir, base := path.Split(name)
		if rest, ok := strings.CutPrefix(base, ".wh."); ok {
			gone.addWhiteout(path.Clean(dir), rest, first)
			continue
		}
		if h.Typeflag != tar.TypeDir && holdsInventory(name) {
			gone.paths[name] = inv.entries
		}
		if err := inv.scanEntry(name, h, t); err != nil {
			return err
		}
	}
}

func (inv *inventory) scanEntry(name string, h *tar.Header, content io.Reader) error {
	delete(inv.files, name)
	delete(inv.links, name)
	dir := path.Dir(name) + "/"
	switch {
	case h.Typeflag == tar.TypeSymlink && dir == docs:
		inv.links[name], inv.noted[name] = h.Linkname, inv.entries
	case h.Typeflag != tar.TypeReg:
	case isInventoryFile(name):
		if h.Size > maxNoted || inv.bytes > maxAllNoted {
			return inputError("", "%s in it is too large to be read: %d bytes", name, h.Size)
		}
		data, err := io.ReadAll(content)
		if err != nil {
			return err
		}
		inv.files[name], inv.noted[name] = data, inv.entries
		inv.bytes += len(data)
	case inv.arch == "" && (path.Base(dir) == "bin" || path.Base(dir) == "sbin"):
		inv.arch = machineOf(content)
	}
	return nil
}

// addWhiteout adds the entries of lower layers that the whiteout .wh.<rest> removes in a folder: one, or with ".wh..opq" all. Those
// of its own layer, the first of which is first, stay.
func (gone removals) addWhiteout(dir, rest string, first int) {
	if rest == ".wh..opq" {
		gone.folders[dir] = first
		return
	}
	name := path.Join(dir, rest)
	gone.paths[name] = max(gone.paths[name], first)
}

// dropRemoved drops the files and links that a layer removes.
func (inv *inventory) dropRemoved(gone removals) {
	removed := func(name string) bool {
		number := inv.noted[name]
		for at := name; at != "."; at = path.Dir(at) {
			if number < gone.paths[at] || number < gone.folders[path.Dir(at)] {
				return true
			}
		}
		return false
	}
	maps.DeleteFunc(inv.files, func(name string, _ []byte) bool { return removed(name) })
	maps.DeleteFunc(inv.links, func(name, _ string) bool { return removed(name) })
}

// resolveLinks gives packages whose documentation is a link to another's the copyright file that they share.
func (inv *inventory) resolveLinks() {
	for name, target := range inv.links {
		to := path.Join(path.Dir(name), target)
		if data, ok := inv.files[to+"/copyright"]; ok {
			inv.files[name+"/copyright"], inv.noted[name+"/copyright"] = data, inv.noted[name]
		}
	}
}

// machineOf reads the beginning of a program; "" for anything else.
func machineOf(r io.Reader) string {
	head := make([]byte, 20)
	if _, err := io.ReadFull(r, head); err != nil || !bytes.HasPrefix(head, []byte(elf.ELFMAG)) || elf.Data(head[elf.EI_DATA]) != elf.ELFDATA2LSB {
		return ""
	}
	m := elf.Machine(binary.LittleEndian.Uint16(head[18:]))
	if arch := goArch(m); arch != "" {
		return arch
	}
	return strings.ToLower(strings.TrimPrefix(m.String(), "EM_"))
}

// observeTar lets an inventory see a tar while it is written.
func (inv *inventory) observeTar(write func(io.Writer) error) func(io.Writer) error {
	return func(to io.Writer) error {
		r, w := io.Pipe()
		var scan errgroup.Group
		scan.Go(func() error {
			err := inv.scanLayer(r)
			r.CloseWithError(err)
			return err
		})
		err := write(io.MultiWriter(w, to))
		w.CloseWithError(err)
		if seen := scan.Wait(); seen != nil {
			return seen // the cause; err is its echo, or it that of err
		}
		if err != nil {
			return fmt.Errorf("write layer: %w", err)
		}
		return nil
	}
}
