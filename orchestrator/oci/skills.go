package oci

import (
	"archive/tar"
	"bytes"
	"cmp"
	"debug/buildinfo"
	"debug/elf"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"time"

	"github.com/spritekit/lattice/spritekit/protocol"
)

// Skills is the contents of /skills: the files that "spritekit install /skills" writes, for any architecture and without
// running a program, and third-party skills.
type Skills struct {
	Architectures []string
	// Spritekit finds the binary for an architecture of Linux.
	Spritekit func(arch string) (path string, err error)
	Manifests map[string][]byte // skill.json of every skill in that binary
	DropIns   map[string]string // skill → folder with skill.json and its program, checked by the caller
}

// maxSpritekit bounds the binary, in bytes; ours have at most 8 MiB.
const maxSpritekit = 256 << 20

// kit is a spritekit that has been read.
type kit struct {
	Skills
	binary []byte
	extra  []byte               // the second file, nil if it is not next to the binary
	info   *buildinfo.BuildInfo // nil when the binary does not say
}

func (s Skills) findSpritekit(arch string) (string, error) {
	path, err := s.Spritekit(arch)
	if err != nil {
		return "", fmt.Errorf("find spritekit for linux/%s: %w", arch, err)
	}
	return path, nil
}

// loadKit loads a spritekit. It must be a static program for arch and hold the manifests that are written next to it.
func (s Skills) loadKit(arch string) (*kit, error) {
	file, err := s.findSpritekit(arch)
	if err != nil {
		return nil, err
	}
	info, err := os.Stat(file)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxSpritekit) {
		return nil, inputError("make build, or --spritekit PATH", "%s is no spritekit", file)
	}
	if err != nil {
		return nil, err
	}
	k := &kit{Skills: s}
	if k.binary, err = os.ReadFile(file); err != nil {
		return nil, err
	}
	program, err := elf.NewFile(bytes.NewReader(k.binary))
	if err != nil || goArch(program.Machine) != arch {
		return nil, inputError("make remote builds it for both architectures", "%s is no program for linux/%s", file, arch)
	}
	if slices.ContainsFunc(program.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		return nil, inputError("build it with CGO_ENABLED=0; make remote does", "%s needs a dynamic loader, which an image need not have", file)
	}
	// A Go binary holds embedded files byte for byte, so a manifest that is not in it is of another version. This check
	// needs no machine of that architecture.
	for _, name := range slices.Sorted(maps.Keys(s.Manifests)) {
		if !bytes.Contains(k.binary, s.Manifests[name]) {
			return nil, inputError("build both together: make build remote", "%s is of another version than this lattice: its %s is another one", file, name)
		}
	}
	extra := protocol.ExtraOf(file)
	if k.extra, err = os.ReadFile(extra); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if k.extra != nil && !isStatic(k.extra, arch) {
		return nil, inputError("make remote builds it for both architectures", "%s is no static program for linux/%s", extra, arch)
	}
	k.info, err = buildinfo.Read(bytes.NewReader(k.binary))
	if err != nil {
		k.info = nil
	}
	return k, nil
}

// isStatic reports whether a program is for arch and needs no dynamic loader.
func isStatic(data []byte, arch string) bool {
	program, err := elf.NewFile(bytes.NewReader(data))
	return err == nil && goArch(program.Machine) == arch &&
		!slices.ContainsFunc(program.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP })
}

// makeLabels returns the labels that the OCI defines. They follow from the spritekit alone.
func (k *kit) makeLabels(at time.Time) map[string]string {
	l := map[string]string{
		"org.opencontainers.image.created":     formatTime(at),
		"org.opencontainers.image.title":       "sprite",
		"org.opencontainers.image.description": "A sandbox for Lattice, with its skills in /skills",
		"org.opencontainers.image.licenses":    "Apache-2.0",
		"org.opencontainers.image.source":      "https://github.com/spritekit/lattice",
	}
	if k.info == nil {
		return l
	}
	if v := k.info.Main.Version; v != "" && v != "(devel)" {
		l["org.opencontainers.image.version"] = v
	}
	for _, s := range k.info.Settings {
		if s.Key == "vcs.revision" {
			l["org.opencontainers.image.revision"] = s.Value
		}
	}
	return l
}

func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// entry is one entry of a layer.
type entry struct {
	tar.Header
	data []byte
}

// writeTar writes /skills: parents first, names in order, everything root's.
func (k *kit) writeTar(at time.Time) func(io.Writer) error {
	return func(to io.Writer) error {
		w := tar.NewWriter(to)
		for _, e := range k.listEntries() {
			e.ModTime, e.Size = at, int64(len(e.data))
			if err := w.WriteHeader(&e.Header); err != nil {
				return err
			}
			if _, err := w.Write(e.data); err != nil {
				return err
			}
		}
		for _, name := range slices.Sorted(maps.Keys(k.DropIns)) {
			if err := writeFolder(w, k.DropIns[name], "skills/"+name, at, nil); err != nil {
				return err
			}
		}
		return w.Close()
	}
}

// listEntries lists the files that an install of this spritekit makes, its record included.
func (k *kit) listEntries() []entry {
	all := []entry{
		{Header: tar.Header{Typeflag: tar.TypeDir, Name: "skills/", Mode: 0o755}},
		{Header: tar.Header{Typeflag: tar.TypeReg, Name: "skills/spritekit", Mode: 0o555}, data: k.binary},
		{Header: tar.Header{Typeflag: tar.TypeDir, Name: "skills/manifests/", Mode: 0o755}},
	}
	record := struct {
		Files []string `json:"files"`
	}{[]string{"spritekit"}}
	if k.extra != nil {
		record.Files = append(record.Files, protocol.Extra)
		all = append(all, entry{Header: tar.Header{Typeflag: tar.TypeReg, Name: "skills/" + protocol.Extra, Mode: 0o555}, data: k.extra})
	}
	for name, manifest := range k.Manifests {
		file := path.Join("manifests", name, "skill.json")
		record.Files = append(record.Files, name, file)
		all = append(all,
			entry{Header: tar.Header{Typeflag: tar.TypeSymlink, Name: "skills/" + name, Linkname: "spritekit", Mode: 0o777}},
			entry{Header: tar.Header{Typeflag: tar.TypeDir, Name: "skills/manifests/" + name + "/", Mode: 0o755}},
			entry{Header: tar.Header{Typeflag: tar.TypeReg, Name: "skills/" + file, Mode: 0o444}, data: manifest})
	}
	slices.Sort(record.Files)
	data, err := json.Marshal(record)
	if err != nil {
		panic(err) // of a list of strings
	}
	all = append(all, entry{Header: tar.Header{Typeflag: tar.TypeReg, Name: "skills/manifests/installed.json", Mode: 0o444}, data: data})
	slices.SortFunc(all, func(a, b entry) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// goArch returns Go's name for a machine of Linux; "" for one that spritekit is not built for.
func goArch(m elf.Machine) string {
	switch m {
	case elf.EM_X86_64:
		return "amd64"
	case elf.EM_AARCH64:
		return "arm64"
	}
	return ""
}
