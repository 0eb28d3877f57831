package sbom

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// stanza is one paragraph of a control file: values by field, with continuation lines after newlines.
type stanza map[string]string

// parseStanzas parses a control file. It skips malformed lines, as dpkg's own readers do.
func parseStanzas(data []byte) []stanza {
	var all []stanza
	var now stanza
	field := ""
	for line := range strings.Lines(string(data)) {
		line = strings.TrimRight(line, "\r\n")
		name, value, isField := strings.Cut(line, ":")
		switch {
		case strings.TrimSpace(line) == "":
			now = nil
		case strings.HasPrefix(line, "#"):
		case line[0] == ' ' || line[0] == '\t':
			if now != nil && field != "" {
				now[field] += "\n" + strings.TrimSpace(line)
			}
		case isField:
			if now == nil {
				now = stanza{}
				all = append(all, now)
			}
			field = strings.ToLower(name)
			now[field] = strings.TrimSpace(value)
		}
	}
	return all
}

// readStatus lists the packages that are installed.
func (b *Bill) readStatus(data []byte, files map[string][]byte) ([]Package, error) {
	var all []Package
	for _, s := range parseStanzas(data) {
		name, version, arch := s["package"], s["version"], s["architecture"]
		if state := strings.Fields(s["status"]); len(state) == 3 && state[2] != "installed" {
			continue
		}
		if name == "" || version == "" {
			return nil, fmt.Errorf("a package has no name or no version: %q %q", name, version)
		}
		vendor := cmp.Or(b.Distro.ID, "debian")
		p := Package{Name: name, Version: version, Supplier: s["maintainer"], Homepage: s["homepage"]}
		p.PURL = "pkg:deb/" + escapePURL(vendor) + "/" + escapePURL(name) + "@" + escapePURL(version)
		var qualifiers []string
		if arch != "" {
			qualifiers = append(qualifiers, "arch="+escapePURL(arch))
		}
		if b.Distro.Version != "" {
			qualifiers = append(qualifiers, "distro="+escapePURL(vendor+"-"+b.Distro.Version))
		}
		if len(qualifiers) > 0 {
			p.PURL += "?" + strings.Join(qualifiers, "&")
		}
		p.Licence = b.parseLicence(files["usr/share/doc/"+name+"/copyright"])
		all = append(all, p)
	}
	return all, nil
}

// parseLicence reads a copyright file in the machine-readable format (DEP-5); it returns "" for any other.
func (b *Bill) parseLicence(copyright []byte) string {
	all := parseStanzas(copyright)
	if len(all) == 0 || !strings.Contains(all[0]["format"], "copyright-format") && !strings.Contains(all[0]["format"], "dep5") {
		return ""
	}
	var said []string
	for _, s := range all {
		synopsis, _, _ := strings.Cut(s["license"], "\n")
		if _, about := s["files"]; about && strings.TrimSpace(synopsis) != "" {
			said = append(said, b.spdxExpression(synopsis))
		}
	}
	slices.Sort(said)
	said = slices.Compact(said)
	if len(said) > 1 {
		for i, e := range said {
			if strings.Contains(e, " OR ") {
				said[i] = "(" + e + ")"
			}
		}
	}
	return strings.Join(said, " AND ")
}

var operator = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?i)\s+(and|or)\s+`) })

// spdxExpression converts a DEP-5 synopsis to an SPDX expression. A synopsis with an exception or a comma becomes one
// reference of its own.
func (b *Bill) spdxExpression(synopsis string) string {
	synopsis = strings.Join(strings.Fields(strings.ReplaceAll(synopsis, "|", " or ")), " ")
	if strings.Contains(strings.ToLower(synopsis), " with ") || strings.Contains(synopsis, ",") {
		return b.spdxName(synopsis)
	}
	var out strings.Builder
	rest := 0
	for _, at := range operator().FindAllStringSubmatchIndex(synopsis, -1) {
		out.WriteString(b.spdxName(synopsis[rest:at[0]]) + " " + strings.ToUpper(synopsis[at[2]:at[3]]) + " ")
		rest = at[1]
	}
	return out.String() + b.spdxName(synopsis[rest:])
}

var unfit = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[^A-Za-z0-9.-]+`) })

// spdxName returns the SPDX identifier of a licence of Debian's, or a reference of its own.
func (b *Bill) spdxName(debian string) string {
	if id, ok := spdxNames[strings.ToLower(debian)]; ok {
		return id
	}
	spelled := cmp.Or(strings.Trim(unfit().ReplaceAllString(strings.ReplaceAll(debian, "+", "-or-later"), "-"), "-."), "unnamed")
	ref := "LicenseRef-debian-" + spelled
	b.licences[ref] = debian
	return ref
}

// spdxNames maps the short names of DEP-5 files, in lower case, to SPDX identifiers.
var spdxNames = map[string]string{
	"apache-2.0": "Apache-2.0", "artistic": "Artistic-1.0-Perl", "artistic-1.0": "Artistic-1.0", "artistic-2.0": "Artistic-2.0",
	"bsd-2-clause": "BSD-2-Clause", "bsd-3-clause": "BSD-3-Clause", "bsd-4-clause": "BSD-4-Clause", "bsl-1.0": "BSL-1.0", "0bsd": "0BSD",
	"cc0": "CC0-1.0", "cc0-1.0": "CC0-1.0", "cc-by-3.0": "CC-BY-3.0", "cc-by-4.0": "CC-BY-4.0", "cc-by-sa-3.0": "CC-BY-SA-3.0",
	"cddl-1.0": "CDDL-1.0", "curl": "curl", "expat": "MIT", "mit": "MIT", "ftl": "FTL",
	"gpl-1": "GPL-1.0-only", "gpl-1+": "GPL-1.0-or-later", "gpl-2": "GPL-2.0-only", "gpl-2.0": "GPL-2.0-only", "gpl-2+": "GPL-2.0-or-later", "gpl-2.0+": "GPL-2.0-or-later",
	"gpl-3": "GPL-3.0-only", "gpl-3.0": "GPL-3.0-only", "gpl-3+": "GPL-3.0-or-later", "gpl-3.0+": "GPL-3.0-or-later",
	"lgpl-2": "LGPL-2.0-only", "lgpl-2+": "LGPL-2.0-or-later", "lgpl-2.0+": "LGPL-2.0-or-later", "lgpl-2.1": "LGPL-2.1-only", "lgpl-2.1+": "LGPL-2.1-or-later",
	"lgpl-3": "LGPL-3.0-only", "lgpl-3+": "LGPL-3.0-or-later", "agpl-3": "AGPL-3.0-only", "agpl-3+": "AGPL-3.0-or-later",
	"gfdl-1.2": "GFDL-1.2-only", "gfdl-1.2+": "GFDL-1.2-or-later", "gfdl-1.3": "GFDL-1.3-only", "gfdl-1.3+": "GFDL-1.3-or-later",
	"isc": "ISC", "mpl-1.1": "MPL-1.1", "mpl-2.0": "MPL-2.0", "openldap-2.8": "OLDAP-2.8", "openssl": "OpenSSL", "psf-2": "PSF-2.0",
	"unicode": "Unicode-DFS-2016", "unlicense": "Unlicense", "x11": "X11", "zlib": "Zlib", "zlib/libpng": "zlib-acknowledgement",
}
