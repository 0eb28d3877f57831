package forge

import "slices"

// Role is the authority of a user in a repository.
type Role string

// The values of Role, least first.
const (
	NoRole   Role = "none"
	Read     Role = "read"
	Triage   Role = "triage"
	Write    Role = "write"
	Maintain Role = "maintain"
	Admin    Role = "admin"
)

// Roles lists the values of Role, least first.
func Roles() []Role { return []Role{NoRole, Read, Triage, Write, Maintain, Admin} }

// AtLeast reports whether r includes the authority of least. A role that is not listed includes nothing.
func (r Role) AtLeast(least Role) bool {
	have, want := slices.Index(Roles(), r), slices.Index(Roles(), least)
	return want >= 0 && have >= want
}

// ParseRole reads the two fields of a code host that describe the permission of a user: the permission, which knows
// few values, and the name of the role, which may be one of an organization's own. A role of that kind has the authority
// of its permission. Gitea calls the owner of a repository "owner".
func ParseRole(permission, name string) Role {
	known := func(s string) (Role, bool) {
		switch s {
		case "owner":
			return Admin, true
		case "pull":
			return Read, true
		case "push":
			return Write, true
		}
		return Role(s), slices.Contains(Roles(), Role(s))
	}
	least, ok := known(permission)
	if !ok {
		return NoRole
	}
	named, ok := known(name)
	switch {
	case !ok:
		return least
	// GitHub reports the permission of triage as read, and that of maintain as write. No other name raises the authority.
	case named == Triage && least == Read, named == Maintain && least == Write:
		return named
	case least.AtLeast(named):
		return named
	}
	return least
}
