package main

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goreleaser/nfpm/v2"
	"github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
)

// writeDeb writes the Debian package of a platform's tree and returns its path. The programs lie together in
// /usr/lib/lattice, since lattice looks for spritekit, and spritekit for its second file, in its own directory; links in
// /usr/bin lead there.
func (r *release) writeDeb(tree, arch string) (string, error) {
	contents, err := r.debContents(tree)
	if err != nil {
		return "", err
	}
	info := nfpm.WithDefaults(&nfpm.Info{
		Name: "lattice", Arch: arch, Platform: "linux", Version: debVersion(r.version), VersionSchema: "none",
		Section: "devel", Priority: "optional", Maintainer: "Lattice <maintainers@lattice.invalid>",
		Homepage: "https://github.com/spritekit/lattice", License: "Apache-2.0", MTime: r.time, DisableGlobbing: true,
		Description: "run coding agents and their tools inside sandboxes\n" +
			"lattice composes skills into flows, runs them in sandboxes of this machine or of\n" +
			"a remote Sprites API, and performs effects outside only after approval.\n" +
			"spritekit holds the skills that run inside a sandbox.",
		Overridables: nfpm.Overridables{
			Contents:   contents,
			Recommends: []string{"git", "uidmap"},
			Suggests:   []string{"bash-completion"},
		},
	})
	file := filepath.Join(r.out, fmt.Sprintf("lattice_%s_%s.deb", info.Version, arch))
	f, err := os.Create(file)
	if err != nil {
		return "", err
	}
	return file, errors.Join(deb.Default.Package(info, f), f.Close())
}

// debVersion writes a version as Debian orders it: what precedes a release is older than the release.
func debVersion(version string) string { return strings.Replace(version, "-", "~", 1) }

// debContents lists the files of the package.
func (r *release) debContents(tree string) (all files.Contents, err error) {
	add := func(from, to string, mode fs.FileMode) {
		kind := files.TypeFile
		if strings.HasPrefix(to, "/etc/") {
			kind = files.TypeConfig
		}
		all = append(all, &files.Content{Source: filepath.Join(tree, from), Destination: to, Type: kind,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: mode, MTime: r.time}})
	}
	for _, name := range []string{"lattice", "spritekit", "spritekit-extra"} {
		add(name, "/usr/lib/lattice/"+name, 0o755)
	}
	for _, name := range []string{"lattice", "spritekit"} {
		all = append(all, &files.Content{Source: "../lib/lattice/" + name, Destination: "/usr/bin/" + name, Type: files.TypeSymlink,
			FileInfo: &files.ContentFileInfo{MTime: r.time}})
	}
	add("completions/"+completions["bash"], "/usr/share/bash-completion/completions/lattice", 0o644)
	add("completions/"+completions["zsh"], "/usr/share/zsh/vendor-completions/_lattice", 0o644)
	add("completions/"+completions["fish"], "/usr/share/fish/vendor_completions.d/lattice.fish", 0o644)
	for _, unit := range slices.Sorted(maps.Keys(units)) {
		add("systemd/"+unit, path.Join(units[unit], unit), 0o644)
	}
	add("apparmor/lattice", "/etc/apparmor.d/lattice", 0o644)
	add("LICENSE", "/usr/share/doc/lattice/copyright", 0o644)
	for _, name := range []string{"README.md", "THREATS.md", "SECURITY.md", "THIRD-PARTY-LICENSES.txt"} {
		add(name, "/usr/share/doc/lattice/"+name, 0o644)
	}
	packed := filepath.Join(r.work, "deb", filepath.Base(tree)) // Debian compresses manual pages and changelogs
	compress := func(from, to string) error {
		data, err := os.ReadFile(filepath.Join(tree, from))
		if err != nil {
			return err
		}
		if data, err = gzipBytes(data); err != nil {
			return err
		}
		source := filepath.Join(packed, from+".gz")
		if err := writeFile(source, data, 0o644); err != nil {
			return err
		}
		all = append(all, &files.Content{Source: source, Destination: to + ".gz", Type: files.TypeFile,
			FileInfo: &files.ContentFileInfo{Owner: "root", Group: "root", Mode: 0o644, MTime: r.time}})
		return nil
	}
	if err := compress("CHANGELOG.md", "/usr/share/doc/lattice/changelog"); err != nil {
		return nil, err
	}
	for dir, to := range map[string]string{"man/man1": "/usr/share/man/man1", "docs": "/usr/share/doc/lattice/docs"} {
		entries, err := os.ReadDir(filepath.Join(tree, dir))
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if dir == "docs" {
				add(path.Join(dir, e.Name()), path.Join(to, e.Name()), 0o644)
			} else if err := compress(path.Join(dir, e.Name()), path.Join(to, e.Name())); err != nil {
				return nil, err
			}
		}
	}
	return all, nil
}

// gzipBytes compresses data without a name and a time.
func gzipBytes(data []byte) ([]byte, error) {
	var out bytes.Buffer
	z, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	_, err = z.Write(data)
	err = errors.Join(err, z.Close())
	return out.Bytes(), err
}
