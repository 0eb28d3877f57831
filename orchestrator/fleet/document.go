// Package fleet compares the sprites that a file declares with the sprites that exist. Start with Parse, which reads the file,
// and Compare, which returns the changes.
//
// The package is pure: package upkeep of the leader observes sprites and makes the changes. A sprite of a fleet has the label
// [LabelOf], so that it can be told from sprites of people, of runs and of other fleets. Compare never proposes the removal of
// such a sprite of others, and reports it instead.
package fleet

import (
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/spritekit/lattice/orchestrator/settings"
	"github.com/spritekit/lattice/orchestrator/sprites"
)

// Document holds the members of fleet.toml.
//
//	name = "site"
//
//	[sprites.web]
//	labels = ["purpose=repo-work"]
//	network = { include = ["defaults"], allow = ["db.example.com"] }
//
//	[sprites.web.services.app]
//	cmd = "npm"
//	args = ["start"]
//	http_port = 3000
type Document struct {
	// Schema may name this file's JSON schema, for editors.
	Schema string `json:"$schema,omitempty"`
	// Name is the name of the fleet, which its sprites have as a label.
	Name string `json:"name"`
	// Sprites are the declared sprites, by name.
	Sprites map[string]Sprite `json:"sprites,omitempty"`
}

// Sprite is the desired state of a sprite. A member that is left out is not compared.
type Sprite struct {
	// Exists is false if the sprite must not exist; by default it must.
	Exists *bool `json:"exists,omitempty"`
	// Warm wakes the sprite if it is cold.
	Warm bool `json:"warm,omitempty"`
	// Labels are labels that the sprite has. It may have others.
	Labels []string `json:"labels,omitempty"`
	// URL says who may open the sprite's URL: sprite (everyone with a token) or public.
	URL string `json:"url,omitempty"`
	// Network is all that the sprite may reach.
	Network *Network `json:"network,omitempty"`
	// Services are all services of the sprite, by name.
	Services map[string]Service `json:"services,omitzero"`
	// Image is the image of a new sprite: a name or a digest. It does not change a sprite that exists; a difference is reported.
	Image string `json:"image,omitempty"`
	// RAM, CPUs and Pids limit a new sprite. They do not change a sprite that exists; a difference is reported.
	RAM  int `json:"ram_mb,omitempty"`
	CPUs int `json:"cpus,omitempty"`
	Pids int `json:"pids,omitempty"`
}

// Network holds the rules of a network policy; lattice sprite policy --help describes them.
type Network struct {
	// Include names sets of rules, such as defaults.
	Include []string `json:"include,omitempty"`
	// Allow and Deny are names, addresses and networks. The sprite reaches nothing that no rule allows.
	Allow []string `json:"allow,omitempty"`
	Deny  []string `json:"deny,omitempty"`
}

// Service is a program that the sprite keeps running.
type Service struct {
	// Cmd is the program alone.
	Cmd  string   `json:"cmd"`
	Args []string `json:"args,omitempty"`
	// Env holds variables on top of the sprite's own. Credentials do not belong there.
	Env map[string]string `json:"env,omitempty"`
	// Dir is the working directory, an absolute path; by default /home/sprite.
	Dir string `json:"dir,omitempty"`
	// Needs are services that must run before it.
	Needs []string `json:"needs,omitempty"`
	// HTTPPort is the port on which it serves the sprite's URL; only one service of a sprite can have one.
	HTTPPort int `json:"http_port,omitempty"`
}

// labelPrefix and the name of a fleet mark the sprites of the fleet.
const labelPrefix = "lattice-fleet="

// LabelOf returns the label of the sprites of a fleet.
func LabelOf(fleet string) string { return labelPrefix + fleet }

// Of returns the fleet of a sprite with some labels, "" if there is none.
func Of(labels []string) string {
	for _, l := range labels {
		if name, ok := strings.CutPrefix(l, labelPrefix); ok {
			return name
		}
	}
	return ""
}

// Parse reads the text of a fleet file. If there are findings, the document must not be used.
func Parse(text []byte) (Document, []settings.Finding) {
	return settings.Decode(text, Document.Check)
}

var validName = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,62}$`) })

// Check returns the values that cannot be meant.
func (d Document) Check() (found []settings.Finding) {
	report := func(key, message, hint string) {
		found = append(found, settings.Finding{Code: settings.CodeValue, Key: key, Message: message, Hint: hint})
	}
	if !validName().MatchString(d.Name) {
		report("name", "the fleet needs a name of letters, digits, dots and hyphens", `name = "site", at the beginning of the file`)
	}
	for _, name := range slices.Sorted(maps.Keys(d.Sprites)) {
		d.Sprites[name].checkMembers("sprites."+name, report)
	}
	return found
}

func (s Sprite) checkMembers(key string, report func(key, message, hint string)) {
	if s.URL != "" && s.URL != "sprite" && s.URL != "public" {
		report(key+".url", "it must be sprite or public", "")
	}
	if n := s.Network; n != nil && len(n.Rules()) == 0 {
		report(key+".network", "it has no rules", `allow = ["*"] allows everything public, deny = ["*"] denies everything`)
	}
	if s.RAM < 0 || s.CPUs < 0 || s.Pids < 0 {
		report(key, "a limit is below 0", "leave it out for the host's default")
	}
	for _, l := range s.Labels {
		if strings.HasPrefix(l, labelPrefix) {
			report(key+".labels", "labels that begin with "+labelPrefix+" are set by lattice", "name at the beginning of the file names the fleet")
		}
	}
	ports := 0
	for _, name := range slices.Sorted(maps.Keys(s.Services)) {
		v, at := s.Services[name], key+".services."+name
		switch {
		case v.Cmd == "":
			report(at, "a service needs cmd, the program", `cmd = "npm" and args = ["start"]`)
		case v.Dir != "" && !path.IsAbs(v.Dir):
			report(at+".dir", "it must be an absolute path", "/home/sprite is the default")
		case v.HTTPPort < 0 || v.HTTPPort > 65535:
			report(at+".http_port", "a port is a number from 1 to 65535", "")
		}
		for _, other := range v.Needs {
			if _, ok := s.Services[other]; !ok {
				report(at+".needs", "the sprite has no service "+other, "")
			}
		}
		if v.HTTPPort != 0 {
			ports++
		}
	}
	if ports > 1 {
		report(key+".services", "more than one service has http_port", "one service serves the sprite's URL")
	}
	if names, ok := s.sortServices(); !ok {
		report(key+".services", "services need each other in a circle: "+strings.Join(names, ", "), "")
	}
}

// sortServices returns the names of the services, each behind those that it needs. If that is impossible it returns those of a circle.
func (s Sprite) sortServices() (names []string, ok bool) {
	left := slices.Sorted(maps.Keys(s.Services))
	for len(left) > 0 {
		i := slices.IndexFunc(left, func(name string) bool {
			return !slices.ContainsFunc(s.Services[name].Needs, func(n string) bool { return slices.Contains(left, n) })
		})
		if i < 0 {
			return left, false
		}
		names = append(names, left[i])
		left = slices.Delete(left, i, i+1)
	}
	return names, true
}

// Rules returns the rules as the Sprites API has them.
func (n Network) Rules() []sprites.NetworkRule {
	var rules []sprites.NetworkRule
	for _, name := range n.Include {
		rules = append(rules, sprites.NetworkRule{Include: name})
	}
	for _, name := range n.Allow {
		rules = append(rules, sprites.NetworkRule{Domain: name, Action: "allow"})
	}
	for _, name := range n.Deny {
		rules = append(rules, sprites.NetworkRule{Domain: name, Action: "deny"})
	}
	return rules
}

// Definition returns a service as the Sprites API has it.
func (v Service) Definition(name string) sprites.Service {
	return sprites.Service{Name: name, Cmd: v.Cmd, Args: v.Args, Env: v.Env, Dir: v.Dir, Needs: v.Needs, HTTPPort: v.HTTPPort}
}
