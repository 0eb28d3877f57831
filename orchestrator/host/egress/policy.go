// Package egress decides which addresses a sprite may reach, and carries its connections.
//
// Start with Compile, which makes a Policy of rules, and Gateway, which applies one to the connections and DNS questions
// of a box. The policy is pure: values in, verdicts out.
//
// How a connection goes: a program asks for the address of a name; the gateway answers from its own table, with an address
// of 198.18.0.0/15 that stands for that name in this sprite and nowhere else, or refuses. The program connects to it; the
// kernel of the box leads the connection here and tells which address was meant; the table tells the name. So a name is
// never taken from what the program says in TLS or HTTP. Only now the real name is looked up, by the host, and the
// addresses that come back are judged, too: private ones, the host's own, and metadata services are never dialled, no
// matter what a rule says. An address that was not given out is reached only when a rule names it or its network.
//
// Where connections cannot be redirected, ServeProxy offers the same policy as an HTTP and SOCKS5 proxy. Programs that do
// not ask it are not judged: that is advice, and the host says so.
//
// Goroutines end with the context that Serve or ServeProxy was given, and both wait for all of theirs.
package egress

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/spritekit/lattice/spritekit/exact"
)

// Action is the decision of a rule.
type Action string

// The actions.
const (
	Allow Action = "allow"
	Deny  Action = "deny"
)

// Rule is one rule of the API: either a domain with an action, or the inclusion of a list that the host brings along.
// Domain is a name, "*.name" for all names below it, "*" for all names, an IP address or a network such as 203.0.113.0/24.
type Rule struct {
	Domain  string `json:"domain,omitempty"`
	Action  Action `json:"action,omitempty"`
	Include string `json:"include,omitempty"`
}

// maxRules bounds a policy.
const maxRules = 2000

// Parse reads the policy document of the API, {"rules":[…]}. It refuses members that it does not know, and those given twice.
func Parse(data []byte) ([]Rule, error) {
	var doc map[string]json.RawMessage
	d := json.NewDecoder(bytes.NewReader(data))
	if err := d.Decode(&doc); err != nil {
		return nil, fmt.Errorf("the policy is no JSON object: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the policy's JSON object")
	}
	if twice := exact.Duplicates(data); len(twice) > 0 {
		return nil, fmt.Errorf("%s is given twice", twice[0])
	}
	for key := range maps.Keys(doc) {
		if key != "rules" {
			return nil, fmt.Errorf("unknown key %q: a policy has rules and nothing else", key)
		}
	}
	var list []map[string]json.RawMessage
	if err := json.Unmarshal(doc["rules"], &list); err != nil || list == nil {
		return nil, errors.New(`the policy needs "rules", a list of objects`)
	}
	rules := make([]Rule, len(list))
	for i, members := range list {
		for key, value := range members {
			to := map[string]any{"domain": &rules[i].Domain, "action": &rules[i].Action, "include": &rules[i].Include}[key]
			if to == nil {
				return nil, fmt.Errorf("rule %d: unknown key %q; a rule has domain and action, or include", i+1, key)
			}
			if err := json.Unmarshal(value, to); err != nil {
				return nil, fmt.Errorf("rule %d: %s must be a text", i+1, key)
			}
		}
	}
	return rules, nil
}

// Preset is a policy by name, for sprites that have none of their own.
type Preset string

// The presets.
const (
	Defaults Preset = "defaults" // the list that the host brings along
	None     Preset = "none"     // nothing
	Open     Preset = "open"     // every public address
)

// Presets lists the presets.
func Presets() []Preset { return []Preset{Defaults, None, Open} }

// Valid reports whether p is one of Presets.
func (p Preset) Valid() bool { return slices.Contains(Presets(), p) }

// Rules are the rules that p stands for. No rules at all mean: everything that is public.
func (p Preset) Rules() []Rule {
	switch p {
	case Open:
		return []Rule{}
	case Defaults:
		return []Rule{{Include: string(Defaults)}}
	default:
		return []Rule{{Domain: "*", Action: Deny}}
	}
}

// Policy says which names and addresses may be reached. Make it with Compile. It never changes and may be used by many.
type Policy struct {
	open     bool // no rules
	own      names
	included names
	all      Action // of "*", "" when there is no such rule
	nets     []netRule
}

// names are rules about names. Keys are normal (see normalName).
type names struct {
	exact map[string]Action
	below map[string]Action // key "x" is the rule of "*.x"
}

type netRule struct {
	net    netip.Prefix
	action Action
}

// Compile checks rules and makes a policy of them. A rule of the sprite's own about a name goes before those of an
// included list; among the one and the other, an exact name goes before "*.name", a longer one of these before a
// shorter one; "*" comes last. Of two rules about the same thing the one that denies holds. With no rules at all everything
// public is allowed; else everything that no rule allows is denied.
func Compile(rules []Rule) (*Policy, error) {
	if len(rules) > maxRules {
		return nil, fmt.Errorf("%d rules are more than %d", len(rules), maxRules)
	}
	p := &Policy{
		open:     len(rules) == 0,
		own:      names{map[string]Action{}, map[string]Action{}},
		included: names{map[string]Action{}, map[string]Action{}},
	}
	for i, r := range rules {
		if err := p.addRule(r); err != nil {
			return nil, fmt.Errorf("rule %d: %w", i+1, err)
		}
	}
	slices.SortStableFunc(p.nets, func(a, b netRule) int {
		if d := b.net.Bits() - a.net.Bits(); d != 0 {
			return d
		}
		return strings.Compare(string(b.action), string(a.action)) // deny first
	})
	return p, nil
}

func (p *Policy) addRule(r Rule) error {
	switch {
	case r.Include != "" && (r.Domain != "" || r.Action != ""):
		return errors.New("include stands alone, without domain and action")
	case r.Include == string(Defaults):
		for _, d := range defaultDomains() {
			p.included.putRule(d, Allow)
		}
		return nil
	case r.Include != "":
		return fmt.Errorf("there is no list %q to include; there is %q", r.Include, Defaults)
	case r.Action != Allow && r.Action != Deny:
		return fmt.Errorf("action must be %q or %q, not %q", Allow, Deny, r.Action)
	case r.Domain == "*":
		if p.all != Deny {
			p.all = r.Action
		}
		return nil
	}
	if net, ok, err := parseNetwork(r.Domain); err != nil {
		return err
	} else if ok {
		if r.Action == Allow && blockedNet(net) {
			return fmt.Errorf("%s is private, or no address of another machine: sprites never reach it; a port of this machine can be listed by its operator (host_ports)", r.Domain)
		}
		p.nets = append(p.nets, netRule{net, r.Action})
		return nil
	}
	name, err := ruleName(r.Domain)
	if err != nil {
		return err
	}
	p.own.putRule(name, r.Action)
	return nil
}

// putRule keeps a normal name or "*.name". A denial stays.
func (n names) putRule(domain string, a Action) {
	to, key := n.exact, domain
	if below, ok := strings.CutPrefix(domain, "*."); ok {
		to, key = n.below, below
	}
	if to[key] != Deny {
		to[key] = a
	}
}

// findRule returns the most specific rule about a normal name.
func (n names) findRule(name string) (domain string, a Action) {
	if a := n.exact[name]; a != "" {
		return name, a
	}
	for rest := name; ; {
		_, parent, ok := strings.Cut(rest, ".")
		if !ok {
			return "", ""
		}
		if a := n.below[parent]; a != "" {
			return "*." + parent, a
		}
		rest = parent
	}
}

// Verdict is the decision of a policy about one name or address. Rule is the rule that decided, "" when none did.
type Verdict struct {
	Allowed bool
	Rule    string
}

// Name judges a name, in any spelling.
func (p *Policy) Name(name string) Verdict {
	name, err := normalName(name)
	switch {
	case err != nil:
		return Verdict{}
	case p.open:
		return Verdict{Allowed: true}
	}
	for _, list := range []names{p.own, p.included} {
		if rule, a := list.findRule(name); a != "" {
			return Verdict{a == Allow, rule}
		}
	}
	if p.all != "" {
		return Verdict{p.all == Allow, "*"}
	}
	return Verdict{}
}

// Addr judges an address that a program named itself. The rules about names do not allow addresses, not even "*".
func (p *Policy) Addr(a netip.Addr) Verdict {
	a = a.Unmap()
	for _, r := range p.nets {
		if r.net.Contains(a) {
			return Verdict{r.action == Allow, r.net.String()}
		}
	}
	return Verdict{Allowed: p.open}
}

// findForbidding returns the rule by which an address may not be reached even under an allowed name, "" when there is none.
func (p *Policy) findForbidding(a netip.Addr) string {
	if v := p.Addr(a); !v.Allowed {
		return v.Rule
	}
	return ""
}
