package skill

import (
	"slices"
	"strings"

	"github.com/spritekit/lattice/spritekit/fault"
)

// pushPermission is the permission that a person at a shell does not have by default.
const pushPermission = "git:push"

// Grants is the set of permissions of a call (DESIGN 16). The zero value grants nothing.
type Grants struct {
	All    bool     // all permissions but Except
	Only   []string // when All is false
	Except []string // when All is true
}

// ParseGrants reads the form of LATTICE_PERMISSIONS: comma-separated names, "*" for all, nothing for none.
func ParseGrants(list string) Grants {
	var g Grants
	for name := range strings.SplitSeq(list, ",") {
		switch name = strings.TrimSpace(name); name {
		case "":
		case "*":
			g.All = true
		default:
			g.Only = append(g.Only, name)
		}
	}
	return g
}

// ShellGrants returns the grants of a shell without LATTICE_PERMISSIONS: all but git:push.
func ShellGrants() Grants { return Grants{All: true, Except: []string{pushPermission}} }

// And returns the permissions that both g and h grant.
func (g Grants) And(h Grants) Grants {
	both := Grants{All: g.All && h.All, Except: slices.Concat(g.Except, h.Except)}
	for _, p := range slices.Concat(g.Only, h.Only) {
		if g.Allows(p) && h.Allows(p) && !slices.Contains(both.Only, p) {
			both.Only = append(both.Only, p)
		}
	}
	return both
}

// Allows reports whether permission p is granted.
func (g Grants) Allows(p string) bool {
	return g.All && !slices.Contains(g.Except, p) || slices.Contains(g.Only, p)
}

// require returns an error that names all missing permissions.
func (g Grants) require(skill string, permissions []string) error {
	var missing []string
	for _, p := range permissions {
		if !g.Allows(p) {
			missing = append(missing, p)
		}
	}
	if missing == nil {
		return nil
	}
	list := strings.Join(missing, ", ")
	return fault.Denied("permission_denied", "%s needs %s, which this call was not granted", skill, list).
		WithDetails(map[string]any{"missing": missing}).
		WithHint("grant it: a skill that calls it names %s in permissions of its skill.json, a run has lattice run --allow, a shell LATTICE_PERMISSIONS=%s",
			list, strings.Join(missing, ","))
}
