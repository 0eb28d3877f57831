// Package sbom writes bills of materials of sprites' images: their Debian packages, and the Go modules that are linked into
// spritekit.
//
// Start with Read, which takes the files of an image that describe it, and Bill.SPDX, which writes SPDX 2.3 as JSON. Equal
// inputs give equal bytes. Each package is named by its purl; its licence is given only where the image names it: in
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
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spritekit/lattice/spritekit/protocol"
)

// Subject is the image that a bill describes.
type Subject struct {
	Platform string    // such as linux/amd64
	Digest   string    // of its manifest
	Created  time.Time // of image and bill
	Tool     string    // version of lattice, which writes the bill
}

// Bill lists the packages of an image.
type Bill struct {
	Subject
	Distro   Distro
	Binary   Package   // spritekit itself
	Debian   []Package // in the order of their names
	Modules  []Package // linked into Binary and its second file, Go's standard library first
	licences map[string]string
}

// Distro is the distribution, as its os-release names it.
type Distro struct{ ID, Version, Name string }

// Package is a package or a module in the image.
type Package struct {
	Name, Version string
	PURL          string
	Supplier      string // "Name <address>", "" when unknown
	Homepage      string
	Licence       string // an SPDX expression, "" when unknown
	SHA256        string // of the file, for Binary
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
	if err := b.readBinary(spritekit); err != nil {
		return b, err
	}
	return b, b.readExtra(protocol.ExtraOf(spritekit))
}

// readExtra adds the modules that are linked into the second file, if it exists.
func (b *Bill) readExtra(file string) error {
	info, err := buildinfo.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read what %s was built from: %w", file, err)
	}
	b.addModules(info.Deps)
	return nil
}

// addModules adds modules that are not listed yet.
func (b *Bill) addModules(deps []*debug.Module) {
	for _, m := range deps {
		if m.Replace != nil {
			m = m.Replace
		}
		b.Modules = append(b.Modules, modulePackage(m))
	}
	slices.SortFunc(b.Modules[1:], func(x, y Package) int { return cmp.Compare(x.PURL, y.PURL) })
	b.Modules = slices.CompactFunc(b.Modules, func(x, y Package) bool { return x.PURL == y.PURL })
}

// readBinary reads the modules that are linked into spritekit.
func (b *Bill) readBinary(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read spritekit: %w", err)
	}
	info, err := buildinfo.Read(bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("read what %s was built from: %w", file, err)
	}
	digest := sha256.Sum256(data)
	b.Binary = modulePackage(&info.Main)
	b.Binary.Name, b.Binary.SHA256, b.Binary.Licence = "spritekit", hex.EncodeToString(digest[:]), "Apache-2.0"
	b.Binary.PURL += "#spritekit" // the program of that module
	goVersion := strings.TrimPrefix(strings.Fields(info.GoVersion + " -")[0], "go")
	b.Modules = []Package{{Name: "stdlib", Version: goVersion, PURL: "pkg:golang/stdlib@" + escapePURL(goVersion), Licence: "BSD-3-Clause", Homepage: "https://go.dev"}}
	b.addModules(info.Deps)
	return nil
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

// imageName returns the name of the image in a bill.
func (b Bill) imageName() string { return "sprite-" + strings.ReplaceAll(b.Platform, "/", "-") }

// imagePackages returns the packages that are files of the image, without linked modules.
func (b Bill) imagePackages() []Package { return append(slices.Clone(b.Debian), b.Binary) }

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
