package sbom

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const status = `Package: git
Status: install ok installed
Maintainer: Jonathan Nieder <jrnieder@gmail.com>
Architecture: amd64
Version: 1:2.39.5-0+deb12u2~x
Description: fast
 Version: not this one
Homepage: https://git-scm.com/

Package: libstdc++6
Status: install ok installed
Architecture: amd64
Version: 12.2.0-14

Package: gone
Status: deinstall ok config-files
Architecture: all
Version: 1
`

const copyright = `Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: git

Files: *
Copyright: 2005 Linus
License: GPL-2

Files: a
License: Expat or GPL-2+ and Odd-License

Files: c
License: GPL-2+ with OpenSSL exception

License: GPL-2
 The text, which is no statement of files.
`

func bill(t *testing.T) Bill {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := Read(Subject{Platform: "linux/amd64", Digest: "sha256:" + strings.Repeat("ab", 32), Created: time.Unix(0, 0), Tool: "1.0"}, map[string][]byte{
		"var/lib/dpkg/status": []byte(status), "usr/lib/os-release": []byte("ID=debian\nVERSION_ID=\"12\"\nPRETTY_NAME='Debian 12'\n"),
		"usr/share/doc/git/copyright": []byte(copyright), "usr/share/doc/libstdc++6/copyright": []byte("This is free.\n"),
	}, self)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestRead(t *testing.T) {
	t.Parallel()
	b := bill(t)
	want := []Package{
		{Name: "git", Version: "1:2.39.5-0+deb12u2~x", PURL: "pkg:deb/debian/git@1:2.39.5-0%2Bdeb12u2~x?arch=amd64&distro=debian-12",
			Supplier: "Jonathan Nieder <jrnieder@gmail.com>", Homepage: "https://git-scm.com/",
			Licence: "GPL-2.0-only AND LicenseRef-debian-GPL-2-or-later-with-OpenSSL-exception AND (MIT OR GPL-2.0-or-later AND LicenseRef-debian-Odd-License)"},
		{Name: "libstdc++6", Version: "12.2.0-14", PURL: "pkg:deb/debian/libstdc%2B%2B6@12.2.0-14?arch=amd64&distro=debian-12"},
	}
	if diff := cmp.Diff(want, b.Debian); diff != "" {
		t.Errorf("packages (-want +got):\n%s", diff)
	}
	if p := b.Programs[0]; p.SHA256 == "" || p.PURL == "" || p.Modules[0].Name != "stdlib" {
		t.Errorf("program = %+v, first module %+v", p.Package, p.Modules[0])
	}
}

func TestModule(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		path, version, want string
	}{
		{"github.com/BurntSushi/toml", "v1.6.0", "pkg:golang/github.com/burntsushi/toml@v1.6.0"},
		{"example.com/a", "v2.0.0+incompatible", "pkg:golang/example.com/a@v2.0.0%2Bincompatible"},
		{"github.com/spritekit/lattice", "(devel)", "pkg:golang/github.com/spritekit/lattice"},
	} {
		if got := modulePackage(&debug.Module{Path: tt.path, Version: tt.version}).PURL; got != tt.want {
			t.Errorf("module %s %s is %s, want %s", tt.path, tt.version, got, tt.want)
		}
	}
}

func TestExpression(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ debian, want string }{
		{"Expat", "MIT"},
		{"GPL-2+", "GPL-2.0-or-later"},
		{"GPL-1+ or Artistic", "GPL-1.0-or-later OR Artistic-1.0-Perl"},
		{"BSD-3-clause  and   ISC", "BSD-3-Clause AND ISC"},
		{"GPL-2 | Expat", "GPL-2.0-only OR MIT"},
		{"public-domain", "LicenseRef-debian-public-domain"},
		{"GPL-2+ with OpenSSL exception", "LicenseRef-debian-GPL-2-or-later-with-OpenSSL-exception"},
		{"GPL-2, and Expat", "LicenseRef-debian-GPL-2-and-Expat"},
		{"/?!", "LicenseRef-debian-unnamed"},
	} {
		b := Bill{licences: map[string]string{}}
		if got := b.spdxExpression(tt.debian); got != tt.want {
			t.Errorf("expression(%q) = %q, want %q", tt.debian, got, tt.want)
		}
	}
}

// Whatever a copyright file says, what comes of it is an expression, and all that is named by us is told.
func FuzzLicence(f *testing.F) {
	f.Add([]byte(copyright))
	f.Add([]byte("Format: copyright-format\n\nFiles: *\nLicense: and or | ,\n\nFiles: x\nLicense: (GPL-2+)\n"))
	id := regexp.MustCompile(`^[A-Za-z0-9.-]+$`)
	f.Fuzz(func(t *testing.T, data []byte) {
		b := Bill{licences: map[string]string{}}
		got := b.parseLicence(data)
		if got == "" {
			return
		}
		operand := true // is due
		for _, word := range strings.Fields(strings.NewReplacer("(", " ", ")", " ").Replace(got)) {
			isOperator := word == "AND" || word == "OR"
			if isOperator == operand || !id.MatchString(word) {
				t.Fatalf("licence %q is no expression, at %q", got, word)
			}
			if _, told := b.licences[word]; strings.HasPrefix(word, "LicenseRef-") && !told {
				t.Fatalf("%s of %q is not told", word, got)
			}
			operand = isOperator
		}
		if operand || strings.Count(got, "(") != strings.Count(got, ")") {
			t.Fatalf("licence %q is not whole", got)
		}
	})
}

func TestStatusWithoutAVersionIsRefused(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	_, err = Read(Subject{}, map[string][]byte{"var/lib/dpkg/status": []byte("Package: a\nStatus: install ok installed\n")}, self)
	if err == nil || !strings.Contains(err.Error(), "no name or no version") {
		t.Errorf("Read = %v", err)
	}
}

func TestBillsAreReproducible(t *testing.T) {
	t.Parallel()
	a, err := bill(t).SPDX()
	if err != nil {
		t.Fatal(err)
	}
	if b, err := bill(t).SPDX(); err != nil || string(a) != string(b) {
		t.Errorf("the bill differs the second time, %v", err)
	}
}

// The members that SPDX 2.3 requires, the forms of its ids, and that all relationships lead to what is there.
func TestSPDXIsComplete(t *testing.T) {
	t.Parallel()
	t.Run("image", func(t *testing.T) { checkSPDX(t, bill(t)) })
	t.Run("archive", func(t *testing.T) {
		self, err := os.Executable()
		if err != nil {
			t.Fatal(err)
		}
		second := filepath.Join(t.TempDir(), "second") // a program with the same modules
		if err := os.Symlink(self, second); err != nil {
			t.Fatal(err)
		}
		b, err := ReadPrograms(Subject{Name: "lattice.tar.gz", Digest: "sha256:" + strings.Repeat("ab", 32), Created: time.Unix(0, 0), Tool: "1.0"}, self, second)
		if err != nil || len(b.Programs) != 2 || b.Programs[1].Name != "second" {
			t.Fatalf("programs %+v, error %v", b.Programs, err)
		}
		checkSPDX(t, b)
	})
}

func checkSPDX(t *testing.T, b Bill) {
	data, err := b.SPDX()
	if err != nil {
		t.Fatal(err)
	}
	var d map[string]any
	if err := json.Unmarshal(data, &d); err != nil {
		t.Fatal(err)
	}
	id := regexp.MustCompile(`^SPDXRef-[A-Za-z0-9.-]+$`)
	ids := map[string]bool{"SPDXRef-DOCUMENT": true}
	require := func(what string, o map[string]any, members ...string) {
		for _, m := range members {
			if o[m] == nil || o[m] == "" {
				t.Errorf("%s has no %s: %v", what, m, o)
			}
		}
	}
	require("the document", d, "spdxVersion", "dataLicense", "SPDXID", "name", "documentNamespace", "creationInfo", "packages", "relationships")
	require("creationInfo", d["creationInfo"].(map[string]any), "created", "creators")
	used := map[string]bool{}
	for _, p := range d["packages"].([]any) {
		p := p.(map[string]any)
		require("a package", p, "SPDXID", "name", "downloadLocation", "licenseConcluded", "licenseDeclared", "copyrightText")
		name := p["SPDXID"].(string)
		if !id.MatchString(name) || ids[name] {
			t.Errorf("%s is no id, or is there twice", name)
		}
		ids[name] = true
		for _, ref := range regexp.MustCompile(`LicenseRef-[A-Za-z0-9.-]+`).FindAllString(p["licenseDeclared"].(string), -1) {
			used[ref] = true
		}
	}
	for _, r := range d["relationships"].([]any) {
		r := r.(map[string]any)
		if !ids[r["spdxElementId"].(string)] || !ids[r["relatedSpdxElement"].(string)] {
			t.Errorf("a relationship leads nowhere: %v", r)
		}
	}
	licences, _ := d["hasExtractedLicensingInfos"].([]any)
	for _, l := range licences {
		l := l.(map[string]any)
		require("a licence", l, "licenseId", "extractedText")
		delete(used, l["licenseId"].(string))
	}
	if len(used) > 0 {
		t.Errorf("licences are named and not told: %v", used)
	}
}

func TestLicencesAreKnownToSPDX(t *testing.T) {
	t.Parallel()
	list := filepath.Join(os.Getenv("LATTICE_NPM_CACHE"), "node_modules/@cyclonedx/cyclonedx-library/res/schema/spdx.SNAPSHOT.schema.json")
	data, err := os.ReadFile(list)
	if err != nil {
		t.Skipf("SPDX's list of licences is not here: %v", err)
	}
	for debian, id := range spdxNames {
		if !strings.Contains(string(data), fmt.Sprintf("%q", id)) {
			t.Errorf("%s, which Debian calls %s, is no licence of SPDX", id, debian)
		}
	}
}
