// Package sbom writes bills of materials: of sprites' images, with their Debian packages, and of releases. Both list the Go
// modules that are linked into the programs.
//
// Start with Read, which takes the files of an image that describe it, or ReadPrograms, and Bill.SPDX, which writes SPDX 2.3
// as JSON. Equal inputs give equal bytes. Each package is named by its purl; its licence is given only where the image names it: in
// Debian's machine-readable copyright files, and for our own module. The package fetches nothing and runs nothing.
package sbom

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spritekit/lattice/spritekit/protocol"
)

// Subject is the image or the archive that a bill describes.
type Subject struct {
	Name     string    // of an archive; an image is named after its platform
	Platform string    // such as linux/amd64
	Digest   string    // of an image's manifest, or of the archive
	Created  time.Time // of the subject and of the bill
	Tool     string    // version of lattice, which writes the bill
}

// Bill lists the packages of a subject.
type Bill struct {
	Subject
	Distro   Distro
	Programs []Program // of this module
	Debian   []Package // in the order of their names
	licences map[string]string
}

// Program is a program of this module with the modules that are linked into it, Go's standard library first.
type Program struct {
	Package
	Modules []Package
}

// Distro is the distribution, as its os-release names it.
type Distro struct{ ID, Version, Name string }

// Package is a package, a program or a module.
type Package struct {
	Name, Version string
	PURL          string
	Supplier      string // "Name <address>", "" when unknown
	Homepage      string
	Licence       string // an SPDX expression, "" when unknown
	SHA256        string // of the file, for a program
}

// Read lists the packages of an image. files are those of oci.Contents; spritekit is the path of the binary in /skills.
func Read(s Subject, files map[string][]byte, spritekit string) (Bill, error) {
	b := Bill{Subject: s, licences: map[string]string{}}
	b.Distro = readDistro(files)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if name != "var/lib/dpkg/status" && path.Dir(name) != "var/lib/dpkg/status.d" {
			continue
		}
		found, err := b.readStatus(files[name], files)
		if err != nil {
			return b, fmt.Errorf("read %s of the image: %w", name, err)
		}
		b.Debian = append(b.Debian, found...)
	}
	slices.SortFunc(b.Debian, func(x, y Package) int { return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.PURL, y.PURL)) })
	b.Debian = slices.CompactFunc(b.Debian, func(x, y Package) bool { return x.PURL == y.PURL })
	return b, b.addProgram(spritekit, "spritekit")
}

// ReadPrograms lists programs of this module, by the paths of their binaries, whose last elements name the programs.
func ReadPrograms(s Subject, files ...string) (Bill, error) {
	b := Bill{Subject: s}
	for _, file := range files {
		if err := b.addProgram(file, filepath.Base(file)); err != nil {
			return b, err
		}
	}
	return b, nil
}

// addProgram adds a program. The modules of its second file, if it has one, belong to it.
func (b *Bill) addProgram(file, name string) error {
	p, err := readProgram(file, name)
	if err != nil {
		return err
	}
	info, err := buildinfo.ReadFile(protocol.ExtraOf(file))
	switch {
	case err == nil:
		p.addModules(info.Deps)
	case !errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("read what %s was built from: %w", protocol.ExtraOf(file), err)
	}
	b.Programs = append(b.Programs, p)
	return nil
}

// addModules adds modules that are not listed yet.
func (p *Program) addModules(deps []*debug.Module) {
	for _, m := range deps {
		if m.Replace != nil {
			m = m.Replace
		}
		p.Modules = append(p.Modules, modulePackage(m))
	}
	slices.SortFunc(p.Modules[1:], func(x, y Package) int { return cmp.Compare(x.PURL, y.PURL) })
	p.Modules = slices.CompactFunc(p.Modules, func(x, y Package) bool { return x.PURL == y.PURL })
}

// readProgram reads the build information in a binary.
func readProgram(file, name string) (p Program, err error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return p, fmt.Errorf("read %s: %w", name, err)
	}
	info, err := buildinfo.Read(bytes.NewReader(data))
	if err != nil {
		return p, fmt.Errorf("read what %s was built from: %w", file, err)
	}
	digest := sha256.Sum256(data)
	p.Package = modulePackage(&info.Main)
	p.Name, p.SHA256, p.Licence = name, hex.EncodeToString(digest[:]), "Apache-2.0"
	p.PURL += "#" + escapePURL(name) // the program of that module
	goVersion := strings.TrimPrefix(strings.Fields(info.GoVersion + " -")[0], "go")
	p.Modules = []Package{{Name: "stdlib", Version: goVersion, PURL: "pkg:golang/stdlib@" + escapePURL(goVersion), Licence: "BSD-3-Clause", Homepage: "https://go.dev"}}
	p.addModules(info.Deps)
	return p, nil
}

func modulePackage(m *debug.Module) Package {
	p := Package{Name: m.Path, Version: m.Version}
	if p.Version == "(devel)" {
		p.Version = ""
	}
	parts := strings.Split(strings.ToLower(m.Path), "/")
	for i := range parts {
		parts[i] = escapePURL(parts[i])
	}
	p.PURL = "pkg:golang/" + strings.Join(parts, "/")
	if p.Version != "" {
		p.PURL += "@" + escapePURL(p.Version)
	}
	return p
}

// escapePURL percent-encodes one part of a purl: all but letters, digits and ".-_~:".
func escapePURL(s string) string {
	return strings.NewReplacer("+", "%20", "%3A", ":").Replace(url.QueryEscape(s))
}

func readDistro(files map[string][]byte) Distro {
	data := cmp.Or(string(files["etc/os-release"]), string(files["usr/lib/os-release"]))
	said := map[string]string{}
	for line := range strings.Lines(data) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			said[k] = strings.Trim(v, `"'`)
		}
	}
	return Distro{ID: said["ID"], Version: said["VERSION_ID"], Name: said["PRETTY_NAME"]}
}

// subjectName returns the name of the subject in a bill.
func (b Bill) subjectName() string {
	return cmp.Or(b.Name, "sprite-"+strings.ReplaceAll(b.Platform, "/", "-"))
}

func (b Bill) createdAt() string { return b.Created.UTC().Format(time.RFC3339) }

// encode writes indented JSON.
func encode(v any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", " ")
	err := e.Encode(v)
	return out.Bytes(), err
}
