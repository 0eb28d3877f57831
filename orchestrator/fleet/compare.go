package fleet

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spritekit/lattice/orchestrator/sprites"
)

// Observed is a sprite as the host describes it. Rules and Services are those of declared sprites alone.
type Observed struct {
	sprites.Sprite
	Wanted   string // the digest of the image that the file names, or sprites.NoImage; "" if the host does not tell it
	Run      string // for which it was created, "" if it was not created for one
	Rules    []sprites.NetworkRule
	Services []sprites.Service
}

// Step is the effect of a change.
type Step string

const (
	Create        Step = "create"
	SetLabels     Step = "set_labels"
	SetURL        Step = "set_url"
	SetPolicy     Step = "set_policy"
	RemoveService Step = "remove_service"
	PutService    Step = "put_service" // define it, or define it again
	StartService  Step = "start_service"
	Wake          Step = "wake"
	Remove        Step = "remove"
	// Differs and Unmanaged change nothing: a difference that only a new sprite removes, and a sprite that no fleet has.
	Differs   Step = "differs"
	Unmanaged Step = "unmanaged"
)

// Change is one step towards the desired state.
type Change struct {
	Sprite  string `json:"sprite"`
	Step    Step   `json:"step"`
	Service string `json:"service,omitempty"`
	Reason  string `json:"reason,omitempty"`
}

// Acts reports whether the change changes something.
func (c Change) Acts() bool { return c.Step != Differs && c.Step != Unmanaged }

// Removes reports whether the change removes something, which a person must confirm.
func (c Change) Removes() bool { return c.Step == Remove || c.Step == RemoveService }

// Digest identifies changes, so that only those are made that a person saw.
func Digest(changes []Change) string {
	text, err := json.Marshal(slices.DeleteFunc(slices.Clone(changes), func(c Change) bool { return !c.Acts() }))
	if err != nil {
		panic(err) // texts are always encoded
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Compare returns the changes after which the observed sprites are as the document declares them, in the order in which they
// are made. If all are, none of the changes acts.
func Compare(d Document, observed []Observed) (changes []Change) {
	found := map[string]Observed{}
	for _, o := range observed {
		found[o.Name] = o
	}
	for _, name := range slices.Sorted(maps.Keys(d.Sprites)) {
		want := d.Sprites[name]
		o, exists := found[name]
		switch {
		case exists && o.Run != "":
			changes = append(changes, Change{Sprite: name, Step: Differs, Reason: "it belongs to " + o.Run})
		case exists && Of(o.Labels) != "" && Of(o.Labels) != d.Name:
			changes = append(changes, Change{Sprite: name, Step: Differs, Reason: "it belongs to the fleet " + Of(o.Labels)})
		case want.Exists != nil && !*want.Exists:
			if exists {
				changes = append(changes, Change{Sprite: name, Step: Remove, Reason: "exists is false"})
			}
		case exists:
			changes = append(changes, want.planRepair(d.Name, o)...)
		default:
			changes = append(changes, want.planCreation(name)...)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		o, fleet := found[name], Of(found[name].Labels)
		if _, declared := d.Sprites[name]; declared || o.Run != "" {
			continue
		}
		switch fleet {
		case d.Name:
			changes = append(changes, Change{Sprite: name, Step: Remove, Reason: "the file does not declare it"})
		case "":
			changes = append(changes, Change{Sprite: name, Step: Unmanaged})
		default:
			changes = append(changes, Change{Sprite: name, Step: Unmanaged, Reason: "it belongs to the fleet " + fleet})
		}
	}
	return changes
}

// planCreation returns the changes that make a sprite. The policy comes before the first program.
func (s Sprite) planCreation(name string) []Change {
	changes := []Change{{Sprite: name, Step: Create}}
	if s.Network != nil {
		changes = append(changes, Change{Sprite: name, Step: SetPolicy})
	}
	order, _ := s.sortServices()
	for _, service := range order {
		changes = append(changes, Change{Sprite: name, Step: PutService, Service: service})
	}
	return changes
}

// planRepair returns the changes that repair a sprite.
func (s Sprite) planRepair(fleet string, o Observed) (changes []Change) {
	add := func(step Step, reason string) {
		changes = append(changes, Change{Sprite: o.Name, Step: step, Reason: reason})
	}
	if missing := s.missingLabels(fleet, o.Labels); len(missing) > 0 {
		add(SetLabels, "without "+strings.Join(missing, ", "))
	}
	auth := "sprite"
	if o.URLSettings != nil {
		auth = cmp.Or(o.URLSettings.Auth, auth)
	}
	if s.URL != "" && s.URL != auth {
		add(SetURL, auth+", not "+s.URL)
	}
	if s.Network != nil && !isSameSet(s.Network.Rules(), o.Rules) {
		add(SetPolicy, "it has other rules")
	}
	changes = append(changes, s.compareServices(o)...)
	if s.Warm && o.Status == "cold" {
		add(Wake, "it is cold")
	}
	if image := cmp.Or(o.Image, sprites.NoImage); o.Wanted != "" && o.Wanted != image {
		add(Differs, fmt.Sprintf("the image is %.19s, not %.19s: only a new sprite changes it", image, o.Wanted))
	}
	have := sprites.Config{}
	if o.Config != nil {
		have = *o.Config
	}
	for _, limit := range []struct {
		name       string
		want, have int
	}{{"ram_mb", s.RAM, have.RAMMB}, {"cpus", s.CPUs, have.CPUs}, {"pids", s.Pids, have.Pids}} {
		if limit.want != 0 && limit.want != limit.have {
			add(Differs, fmt.Sprintf("%s is %d, not %d: only a new sprite changes it", limit.name, limit.have, limit.want))
		}
	}
	return changes
}

// WithLabels returns the labels of a sprite together with those that it must have.
func (s Sprite) WithLabels(fleet string, have []string) []string {
	return slices.Concat(have, s.missingLabels(fleet, have))
}

func (s Sprite) missingLabels(fleet string, have []string) (missing []string) {
	for _, l := range append([]string{LabelOf(fleet)}, s.Labels...) {
		if !slices.Contains(have, l) && !slices.Contains(missing, l) {
			missing = append(missing, l)
		}
	}
	return missing
}

func (s Sprite) compareServices(o Observed) (changes []Change) {
	if s.Services == nil {
		return nil
	}
	found := map[string]sprites.Service{}
	for _, v := range o.Services {
		found[v.Name] = v
	}
	add := func(step Step, name, reason string) {
		changes = append(changes, Change{Sprite: o.Name, Step: step, Service: name, Reason: reason})
	}
	remove := func(names []string) {
		for _, name := range names {
			add(RemoveService, name, "the file does not declare it")
		}
	}
	first, last := s.splitRemovals(found)
	remove(first)
	order, _ := s.sortServices()
	for _, name := range order {
		have, exists := found[name]
		switch {
		case !exists:
			add(PutService, name, "it does not exist")
		case !isSameService(s.Services[name].Definition(name), have):
			add(PutService, name, "it has another definition")
		case have.State != nil && have.State.NextRestartAt == nil && (have.State.Status == "stopped" || have.State.Status == "failed"):
			add(StartService, name, "it is "+have.State.Status)
		}
	}
	remove(last)
	return changes
}

// splitRemovals returns the undeclared services, each before those that it needs. The last ones are needed by a service that stays,
// until it is defined again.
func (s Sprite) splitRemovals(found map[string]sprites.Service) (first, last []string) {
	all := Sprite{Services: map[string]Service{}}
	for name, v := range found {
		all.Services[name] = Service{Needs: v.Needs}
	}
	order, _ := all.sortServices()
	slices.Reverse(order)
	later := map[string]bool{} // needed by a service that is not removed first
	for _, name := range order {
		_, stays := s.Services[name]
		switch {
		case stays:
		case later[name]:
			last = append(last, name)
		default:
			first = append(first, name)
		}
		for _, n := range found[name].Needs {
			later[n] = later[n] || stays || later[name]
		}
	}
	return first, last
}

func isSameService(a, b sprites.Service) bool {
	return a.Cmd == b.Cmd && slices.Equal(a.Args, b.Args) && maps.Equal(a.Env, b.Env) && a.Dir == b.Dir && isSameSet(a.Needs, b.Needs) && a.HTTPPort == b.HTTPPort
}

// isSameSet compares lists whose order has no meaning.
func isSameSet[T comparable](a, b []T) bool {
	return !slices.ContainsFunc(a, func(x T) bool { return !slices.Contains(b, x) }) && !slices.ContainsFunc(b, func(x T) bool { return !slices.Contains(a, x) })
}
