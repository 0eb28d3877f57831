// Package subids finds the subordinate user and group ids of the user who runs the host (/etc/subuid, /etc/subgid), and maps
// them into user namespaces with newuidmap and newgidmap. With them the sprites of an ordinary user have all users, as those of
// root have.
//
// Start at [Find]. [Range.MapBox] maps a sandbox: its users 0 to 65535 are the range, except the sprite's own, which stays the user
// who runs the host. So the files of that one belong to this user, with sub-ids or without. [Range.Start] starts a program of the
// host that may change the files of the range; it sees the same numbers as the host.
//
// The kernel cannot translate owners of files for an ordinary user, as it does for root (package idrange). So all sprites of a
// user share one range.
package subids

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"os/user"
	"slices"
	"strconv"
	"strings"
)

// Size is how many ids a sandbox has.
const Size = 65536

// Range is the ids of the host that sandboxes may have besides the user's own: Size of each kind. The zero value is none.
type Range struct {
	UID int `json:"uid"` // the first
	GID int `json:"gid"`
}

// Valid reports whether r is a range.
func (r Range) Valid() bool { return r.UID > 0 && r.GID > 0 }

// Has reports whether a user or a group is of the range.
func (r Range) Has(uid, gid uint32) bool {
	within := func(id uint32, first int) bool { return int64(id) >= int64(first) && int64(id) < int64(first)+Size }
	return r.Valid() && (within(uid, r.UID) || within(gid, r.GID))
}

// Missing says why a user has no range, and how to get one.
type Missing struct {
	Cause  string
	Remedy string
}

func (m *Missing) Error() string { return fmt.Sprintf("%s (%s)", m.Cause, m.Remedy) }

// The files that give ids to users; see subuid(5).
const (
	userFile  = "/etc/subuid"
	groupFile = "/etc/subgid"
)

// Find returns the range of the user of this process, or an error that is a *Missing. Whether the kernel and newuidmap accept it, only
// a namespace can tell.
func Find() (Range, error) {
	if os.Getuid() == 0 {
		return Range{}, &Missing{"only an ordinary user has sub-ids", "root needs none"}
	}
	if _, err := findHelper("newuidmap"); err != nil {
		return Range{}, &Missing{"newuidmap is not installed", "install the package uidmap (Debian, Ubuntu) or shadow-utils (Fedora)"}
	}
	names := []string{strconv.Itoa(os.Getuid())}
	if u, err := user.LookupId(names[0]); err == nil {
		names = append(names, u.Username)
	}
	var r Range
	var next int
	for _, file := range []struct {
		path  string
		first *int
	}{{userFile, &r.UID}, {groupFile, &r.GID}} {
		f, err := os.Open(file.path)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return Range{}, &Missing{err.Error(), "make it readable"}
		}
		var own, end int
		if err == nil {
			own, end = scanRanges(f, names)
			f.Close()
		}
		*file.first, next = own, max(next, end)
	}
	if !r.Valid() {
		return Range{}, missingIDs(names[len(names)-1], next)
	}
	return r, nil
}

// State changes with all that Find looks at, and with the programs that map a range.
func State() string {
	ids, err := Find()
	state := fmt.Sprintf("%v %v", ids, err)
	for _, name := range []string{"newuidmap", "newgidmap"} {
		if path, err := findHelper(name); err == nil {
			if st, err := os.Stat(path); err == nil {
				state += fmt.Sprintf(" %s %v %d %d", path, st.Mode(), st.Size(), st.ModTime().UnixNano())
			}
		}
	}
	return state
}

// missingIDs names the command that gives a user ids from next on.
func missingIDs(name string, next int) *Missing {
	return &Missing{
		Cause:  fmt.Sprintf("%s and %s give user %s no %d ids in a row", userFile, groupFile, name, Size),
		Remedy: fmt.Sprintf("run `usermod --add-subuids %d-%d --add-subgids %[1]d-%[2]d %s` as root", next, next+Size-1, name),
	}
}

// firstFree is where ranges begin that useradd gives; see login.defs(5).
const firstFree = 100000

// scanRanges reads a file of ranges. It returns the first id of the first range of Size or more that one of names has, 0 without one, and
// an id from which on none is given to anyone.
func scanRanges(r io.Reader, names []string) (own, free int) {
	free = firstFree
	for sc := bufio.NewScanner(r); sc.Scan(); {
		fields := strings.Split(sc.Text(), ":")
		if len(fields) != 3 {
			continue
		}
		first, err := strconv.Atoi(fields[1])
		count, countErr := strconv.Atoi(fields[2])
		if err != nil || countErr != nil || first < 1 || count < 1 || first > maxID-count {
			continue
		}
		free = max(free, first+count)
		if count >= Size && slices.Contains(names, fields[0]) {
			own = cmp.Or(own, first)
		}
	}
	return own, free
}

// maxID is above every id that the kernel takes.
const maxID = 1<<32 - 1

// extent is a line of a map: count ids from inside on, in a namespace, are those from outside on.
type extent struct{ inside, outside, count int }

// sandboxMap maps the ids of a sandbox: the range from first on, and own for the id me.
func sandboxMap(first, own, me int) []extent {
	return []extent{{0, first, me}, {me, own, 1}, {me + 1, first + me + 1, Size - me - 1}}
}

// identityMap maps the range from first on, and own, to themselves.
func identityMap(first, own int) []extent { return []extent{{own, own, 1}, {first, first, Size}} }

// commandLine is a command line of newuidmap or newgidmap.
func commandLine(pid int, extents []extent) []string {
	args := []string{strconv.Itoa(pid)}
	for _, e := range extents {
		if e.count > 0 {
			args = append(args, strconv.Itoa(e.inside), strconv.Itoa(e.outside), strconv.Itoa(e.count))
		}
	}
	return args
}
