package sbom

import (
	"crypto/sha256"
	"fmt"
	"strings"
)

// CycloneDXMediaType is that of a bill as CycloneDX.
const CycloneDXMediaType = "application/vnd.cyclonedx+json"

type cdxDocument struct {
	Schema       string          `json:"$schema"`
	Format       string          `json:"bomFormat"`
	Spec         string          `json:"specVersion"`
	Serial       string          `json:"serialNumber"`
	Version      int             `json:"version"`
	Metadata     cdxMetadata     `json:"metadata"`
	Components   []cdxComponent  `json:"components"`
	Dependencies []cdxDependency `json:"dependencies"`
}

type cdxMetadata struct {
	Timestamp string       `json:"timestamp"`
	Tools     cdxTools     `json:"tools"`
	Component cdxComponent `json:"component"`
}

type cdxTools struct {
	Components []cdxComponent `json:"components"`
}

type cdxComponent struct {
	Type     string         `json:"type"`
	Ref      string         `json:"bom-ref,omitempty"`
	Supplier *cdxSupplier   `json:"supplier,omitempty"`
	Name     string         `json:"name"`
	Version  string         `json:"version,omitempty"`
	Hashes   []cdxHash      `json:"hashes,omitempty"`
	Licences []cdxLicence   `json:"licenses,omitempty"`
	PURL     string         `json:"purl,omitempty"`
	External []cdxReference `json:"externalReferences,omitempty"`
}

type cdxSupplier struct {
	Name string `json:"name"`
}

type cdxHash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type cdxLicence struct {
	Expression string `json:"expression"`
}

type cdxReference struct {
	Type string `json:"type"`
	URL  string `json:"url"`
}

type cdxDependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn,omitempty"`
}

// CycloneDX writes the bill as CycloneDX 1.6.
func (b Bill) CycloneDX() ([]byte, error) {
	hex := strings.TrimPrefix(b.Digest, "sha256:")
	image := cdxComponent{Type: "container", Ref: "image", Name: b.imageName(), Version: b.Digest, Hashes: []cdxHash{{"SHA-256", hex}}}
	d := cdxDocument{
		Schema: "http://cyclonedx.org/schema/bom-1.6.schema.json", Format: "CycloneDX", Spec: "1.6", Serial: serialNumber(b.Digest), Version: 1,
		Metadata: cdxMetadata{Timestamp: b.createdAt(), Component: image,
			Tools: cdxTools{[]cdxComponent{{Type: "application", Name: "lattice", Version: b.Tool}}}},
		Components: []cdxComponent{},
	}
	inImage, linked := cdxDependency{Ref: image.Ref}, cdxDependency{Ref: b.Binary.PURL}
	if b.Distro.ID != "" {
		d.Components = append(d.Components, cdxComponent{Type: "operating-system", Ref: "distribution", Name: b.Distro.ID, Version: b.Distro.Version})
		inImage.DependsOn = append(inImage.DependsOn, "distribution")
	}
	for _, p := range b.imagePackages() {
		kind := "library"
		if p.PURL == b.Binary.PURL {
			kind = "application"
		}
		d.Components = append(d.Components, cdxOf(p, kind))
		inImage.DependsOn = append(inImage.DependsOn, p.PURL)
	}
	for _, m := range b.Modules {
		d.Components = append(d.Components, cdxOf(m, "library"))
		linked.DependsOn = append(linked.DependsOn, m.PURL)
	}
	d.Dependencies = []cdxDependency{inImage, linked}
	return encode(d)
}

func cdxOf(p Package, kind string) cdxComponent {
	c := cdxComponent{Type: kind, Ref: p.PURL, Name: p.Name, Version: p.Version, PURL: p.PURL}
	if name, _, ok := strings.Cut(p.Supplier, " <"); ok {
		c.Supplier = &cdxSupplier{Name: name}
	}
	if p.SHA256 != "" {
		c.Hashes = []cdxHash{{"SHA-256", p.SHA256}}
	}
	if p.Licence != "" {
		c.Licences = []cdxLicence{{p.Licence}}
	}
	if p.Homepage != "" {
		c.External = []cdxReference{{"website", p.Homepage}}
	}
	return c
}

// serialNumber is the number of the bill about one image: the image's digest, as a UUID.
func serialNumber(digest string) string {
	u := sha256.Sum256([]byte("bill of materials of " + digest))
	u[6], u[8] = u[6]&0x0f|0x80, u[8]&0x3f|0x80 // version 8: of one's own making
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", u[0:4], u[4:6], u[6:8], u[8:10], u[10:16])
}
