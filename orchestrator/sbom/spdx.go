package sbom

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// SPDXMediaType is the media type of a bill as SPDX.
const SPDXMediaType = "application/spdx+json"

const unknown = "NOASSERTION"

type spdxDocument struct {
	Version       string             `json:"spdxVersion"`
	DataLicense   string             `json:"dataLicense"`
	ID            string             `json:"SPDXID"`
	Name          string             `json:"name"`
	Namespace     string             `json:"documentNamespace"`
	Creation      spdxCreation       `json:"creationInfo"`
	Packages      []spdxPackage      `json:"packages"`
	Relationships []spdxRelationship `json:"relationships"`
	Licences      []spdxLicence      `json:"hasExtractedLicensingInfos,omitempty"`
}

type spdxCreation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type spdxPackage struct {
	ID               string         `json:"SPDXID"`
	Name             string         `json:"name"`
	Version          string         `json:"versionInfo,omitempty"`
	Purpose          string         `json:"primaryPackagePurpose"`
	Supplier         string         `json:"supplier"`
	DownloadLocation string         `json:"downloadLocation"`
	FilesAnalyzed    bool           `json:"filesAnalyzed"`
	Homepage         string         `json:"homepage,omitempty"`
	Checksums        []spdxChecksum `json:"checksums,omitempty"`
	Concluded        string         `json:"licenseConcluded"`
	Declared         string         `json:"licenseDeclared"`
	Copyright        string         `json:"copyrightText"`
	Refs             []spdxRef      `json:"externalRefs,omitempty"`
}

type spdxChecksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type spdxRef struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type spdxRelationship struct {
	From string `json:"spdxElementId"`
	Type string `json:"relationshipType"`
	To   string `json:"relatedSpdxElement"`
}

type spdxLicence struct {
	ID   string `json:"licenseId"`
	Name string `json:"name"`
	Text string `json:"extractedText"`
}

// SPDX writes the bill as SPDX 2.3.
func (b Bill) SPDX() ([]byte, error) {
	const document = "SPDXRef-DOCUMENT"
	subject, purpose := "SPDXRef-image", "CONTAINER"
	if b.Name != "" {
		subject, purpose = "SPDXRef-archive", "ARCHIVE"
	}
	d := spdxDocument{
		Version: "SPDX-2.3", DataLicense: "CC0-1.0", ID: document, Name: b.subjectName(),
		// A namespace must be unique; it need not resolve.
		Namespace: "https://github.com/spritekit/lattice/spdx/" + strings.ReplaceAll(b.Digest, ":", "-"),
		Creation:  spdxCreation{Created: b.createdAt(), Creators: []string{"Tool: lattice-" + b.Tool}},
		Packages: []spdxPackage{{
			ID: subject, Name: b.subjectName(), Version: b.Digest, Purpose: purpose, Supplier: unknown, DownloadLocation: unknown,
			Checksums: []spdxChecksum{{"SHA256", strings.TrimPrefix(b.Digest, "sha256:")}}, Concluded: unknown, Declared: unknown, Copyright: unknown,
		}},
		Relationships: []spdxRelationship{{document, "DESCRIBES", subject}},
	}
	for _, p := range b.Debian {
		d.Packages = append(d.Packages, spdxOf(p, "LIBRARY"))
		d.Relationships = append(d.Relationships, spdxRelationship{subject, "CONTAINS", spdxID(p)})
	}
	listed := map[string]bool{}
	for _, p := range b.Programs {
		d.Packages = append(d.Packages, spdxOf(p.Package, "APPLICATION"))
		d.Relationships = append(d.Relationships, spdxRelationship{subject, "CONTAINS", spdxID(p.Package)})
		for _, m := range p.Modules {
			if id := spdxID(m); !listed[id] {
				listed[id] = true
				d.Packages = append(d.Packages, spdxOf(m, "LIBRARY"))
			}
			d.Relationships = append(d.Relationships, spdxRelationship{spdxID(p.Package), "STATIC_LINK", spdxID(m)})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(b.licences)) {
		d.Licences = append(d.Licences, spdxLicence{ID: id, Name: b.licences[id], Text: "The licence that files /usr/share/doc/*/copyright of the image call " + b.licences[id]})
	}
	return encode(d)
}

func spdxOf(p Package, purpose string) spdxPackage {
	s := spdxPackage{
		ID: spdxID(p), Name: p.Name, Version: p.Version, Purpose: purpose, Supplier: unknown, DownloadLocation: unknown, Homepage: p.Homepage,
		Concluded: unknown, Declared: cmp.Or(p.Licence, unknown), Copyright: unknown,
		Refs: []spdxRef{{"PACKAGE-MANAGER", "purl", p.PURL}},
	}
	if name, address, ok := strings.Cut(p.Supplier, " <"); ok {
		s.Supplier = "Organization: " + name + " (" + strings.TrimSuffix(address, ">") + ")"
	}
	if p.SHA256 != "" {
		s.Checksums = []spdxChecksum{{"SHA256", p.SHA256}}
	}
	return s
}

var unfitID = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[^A-Za-z0-9.-]`) })

// spdxID returns a readable id of a package, made unique by a digest of its purl.
func spdxID(p Package) string {
	sum := sha256.Sum256([]byte(p.PURL))
	return "SPDXRef-" + unfitID().ReplaceAllString(p.Name, "-") + "-" + hex.EncodeToString(sum[:6])
}
