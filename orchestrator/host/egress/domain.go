package egress

import (
	_ "embed"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"golang.org/x/net/idna"
)

// HostName stands, inside a sprite, for the machine of the host: its loopback ports that the operator listed.
const HostName = "host.lattice.internal"

// ModelName leads, inside a sprite, to the host's own way to models, at ModelURL: requests there are answered by the host
// itself, and no policy but a rule about this very name is asked.
const (
	ModelName = "models.lattice.internal"
	ModelURL  = "http://" + ModelName
	modelPort = 80
)

//go:embed defaults.txt
var defaultsFile string

// defaultDomains lists the names that `include: "defaults"` allows; defaults.txt says why each is there.
func defaultDomains() (domains []string) {
	for line := range strings.Lines(defaultsFile) {
		line, _, _ = strings.Cut(line, "#")
		domains = append(domains, strings.Fields(line)...)
	}
	return domains
}

// parseNetwork reads an address or a network; ok is false if the text is neither.
func parseNetwork(text string) (net netip.Prefix, ok bool, err error) {
	if a, err := netip.ParseAddr(strings.Trim(text, "[]")); err == nil {
		if a.Zone() != "" {
			return net, false, fmt.Errorf("%q names an interface of one machine", text)
		}
		a = a.Unmap()
		return netip.PrefixFrom(a, a.BitLen()), true, nil
	}
	if !strings.Contains(text, "/") || strings.Contains(text, "://") {
		return net, false, nil
	}
	p, err := netip.ParsePrefix(text)
	if err != nil {
		return net, false, fmt.Errorf("%q is no network such as 203.0.113.0/24, and no domain: leave paths out", text)
	}
	if p.Addr().Is4In6() {
		if p.Bits() < 96 {
			return net, false, fmt.Errorf("%q mixes IPv4 and IPv6", text)
		}
		p = netip.PrefixFrom(p.Addr().Unmap(), p.Bits()-96)
	}
	return p.Masked(), true, nil
}

// ruleName normalises the domain of a rule, which may begin with "*.".
func ruleName(domain string) (string, error) {
	rest, wild := strings.CutPrefix(domain, "*.")
	switch {
	case domain == "":
		return "", errors.New("a rule needs a domain, or include")
	case strings.Contains(domain, "://"):
		return "", fmt.Errorf("%q is a URL: give the name alone, such as example.com", domain)
	case strings.Contains(rest, "*"):
		return "", fmt.Errorf("%q: * stands only at the beginning, followed by a dot: *.example.com", domain)
	case strings.Contains(domain, ":"):
		return "", fmt.Errorf("%q: rules are about names, all of their ports; leave the port out", domain)
	}
	name, err := normalName(rest)
	if err != nil {
		return "", fmt.Errorf("%q is no domain: %w", domain, err)
	}
	if wild {
		return "*." + name, nil
	}
	return name, nil
}

// normalName returns the canonical spelling of a name: ASCII, lower case, without a dot at the end. It refuses names that
// resolvers could take for an address (2130706433, 0x7f.1).
func normalName(name string) (string, error) {
	name = strings.TrimSuffix(name, ".")
	if !isASCII(name) {
		converted, err := idna.Lookup.ToASCII(name)
		if err != nil {
			return "", fmt.Errorf("it cannot be written in ASCII: %w", err)
		}
		name = converted
	}
	name = strings.ToLower(name)
	if name == "" || len(name) > 253 {
		return "", errors.New("a name has 1 to 253 letters")
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 {
			return "", errors.New("between dots stand 1 to 63 letters")
		}
		if label[0] == '-' || label[len(label)-1] == '-' {
			return "", errors.New("no part begins or ends with a dash")
		}
		if i := strings.IndexFunc(label, isUnusual); i >= 0 {
			return "", fmt.Errorf("%q cannot stand in a name", label[i])
		}
	}
	last := name[strings.LastIndexByte(name, '.')+1:]
	if strings.Trim(last, "0123456789") == "" || strings.HasPrefix(last, "0x") {
		return "", errors.New("it looks like an address; write addresses as 203.0.113.7")
	}
	return name, nil
}

func isUnusual(r rune) bool {
	return !(r >= 'a' && r <= 'z' || r >= '0' && r <= '9' || r == '-' || r == '_')
}

func isASCII(s string) bool {
	for i := range len(s) {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}
