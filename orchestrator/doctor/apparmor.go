package doctor

import "strings"

// AnyLattice stands for every program called lattice, in a profile that is shipped and not written for one machine.
const AnyLattice = "/**/lattice"

// AppArmorProfile is the text of a profile that lets one program make user namespaces where AppArmor keeps ordinary users
// from it (Ubuntu 23.10 and newer), and restricts it in nothing. Program is its absolute path, or AnyLattice.
func AppArmorProfile(program string) string {
	path := AnyLattice
	if program != AnyLattice {
		path = `"` + apparmorSpecial.Replace(program) + `"`
	}
	return strings.ReplaceAll(profile, "PROGRAM", path)
}

// apparmorSpecial quotes the characters with a meaning in the path of a profile.
var apparmorSpecial = strings.NewReplacer(
	`\`, `\\`, `"`, `\"`, `*`, `\*`, `?`, `\?`, `[`, `\[`, `]`, `\]`, `{`, `\{`, `}`, `\}`, `^`, `\^`, `,`, `\,`)

const profile = `# AppArmor profile for lattice, on systems that deny user namespaces to ordinary users (Ubuntu 23.10 and newer:
# kernel.apparmor_restrict_unprivileged_userns = 1). It does not restrict lattice: it lets lattice create the
# namespaces of sprites. The restriction still applies to all other programs.
#
#   lattice doctor --apparmor-profile | sudo tee /etc/apparmor.d/lattice >/dev/null
#   sudo apparmor_parser -r /etc/apparmor.d/lattice
#   lattice doctor

abi <abi/4.0>,
include <tunables/global>

profile lattice PROGRAM flags=(unconfined) {
  userns,

  include if exists <local/lattice>
}
`
