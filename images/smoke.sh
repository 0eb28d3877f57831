# What the smoke scripts of recipes share; they source it from the top of the tree:
#
#   skip REASON          ends the script: well, or in CI (where $CI is set) badly
#   state                makes a state directory of lattice's that is gone at the end, with the sprites in it
#   families COMMAND…    runs images/families where COMMAND leads: lattice sprite exec NAME --
#   say TEXT             a heading
#
# LATTICE is the lattice to try, by default bin/lattice; its spritekit lies beside it.
set -euo pipefail
umask 022
LATTICE=${LATTICE:-$PWD/bin/lattice}
[ -x "$LATTICE" ] || { echo "missing: $LATTICE; make build" >&2; exit 1; }
lattice() { "$LATTICE" "$@"; }
say() { printf '\n%s\n' "$*"; }
skip() {
	[ -z "${CI:-}" ] || { echo "failed: $*" >&2; exit 1; }
	echo "skipped: $*"
	exit 0
}
state() {
	LATTICE_HOME=$(mktemp -d "${TMPDIR:-/tmp}/smoke-XXXXXX")
	export LATTICE_HOME
	unset SPRITES_API_URL SPRITES_TOKEN
	trap 'rm -rf "$LATTICE_HOME"' EXIT
}
families() { "$@" sh -s <images/families; }
# rootfs prints the path of a Debian root filesystem of this recipe, built now or before.
rootfs() {
	local path code=0
	path=$(images/rootfs/cached) || code=$?
	case $code in
	0) echo "$path" ;;
	5) echo "the Debian mirror of this machine's apt cannot be reached" >&2; return 5 ;;
	8) echo "this machine lacks what the recipe needs, see above" >&2; return 8 ;;
	*) return "$code" ;;
	esac
}
# need_rootfs sets $debian, or skips where nobody could build it here.
need_rootfs() {
	local code=0
	debian=$(rootfs) || code=$?
	case $code in
	0) ;;
	5 | 8) skip "no Debian root filesystem" ;;
	*) exit "$code" ;;
	esac
}
