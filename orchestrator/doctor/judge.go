package doctor

import (
	"fmt"
	"strconv"
	"strings"
)

// Space is how full a file system is.
type Space struct {
	Free, Total           uint64 // bytes that this user may write
	FreeInodes, AllInodes uint64 // 0 of 0 where the file system does not count them
	Kind                  string // such as "ext4"
}

const (
	mib = 1 << 20
	gib = 1 << 30
)

// Disk judges the room for sprites and checkpoints.
func Disk(dir string, s Space) Check {
	c := Check{Name: "disk", Status: OK, Detail: fmt.Sprintf("%s free of %s on %s (%s)", Bytes(s.Free), Bytes(s.Total), dir, s.Kind)}
	if s.AllInodes > 0 {
		c.Detail += fmt.Sprintf(", %d inodes free", s.FreeInodes)
	}
	const remedy = "free some space, or remove sprites: lattice sprite prune"
	switch {
	case s.Free < 64*mib || s.AllInodes > 0 && s.FreeInodes < 1000:
		c.Status, c.Remedy = Fail, remedy
	case s.Free < gib || s.AllInodes > 0 && s.FreeInodes < 20_000:
		c.Status, c.Remedy = Warn, remedy
	}
	return c
}

// FileSystem judges the kind of file system that the state directory lies on.
func FileSystem(kind string) (Status, string) {
	switch kind {
	case "nfs", "smb", "cifs", "9p", "fuse", "afs", "ceph":
		return Warn, "locks and durable writes are not reliable on " + kind + ": set LATTICE_HOME to a directory on a local disk"
	case "tmpfs", "ramfs":
		return Warn, "all runs and sprites are lost at the next reboot: set LATTICE_HOME to a directory on a disk"
	}
	return OK, ""
}

// Bytes writes a size for people.
func Bytes(n uint64) string {
	switch {
	case n >= 10*gib:
		return fmt.Sprintf("%d GiB", n/gib)
	case n >= gib:
		return fmt.Sprintf("%.1f GiB", float64(n)/gib)
	}
	return fmt.Sprintf("%d MiB", n/mib)
}

// parseVersion reads the first dotted numbers of text.
func parseVersion(text string) (major, minor int, ok bool) {
	start := strings.IndexFunc(text, func(r rune) bool { return r >= '0' && r <= '9' })
	if start < 0 {
		return 0, 0, false
	}
	fields := strings.FieldsFunc(text[start:], func(r rune) bool { return r < '0' || r > '9' })
	if len(fields) < 2 {
		return 0, 0, false
	}
	major, err := strconv.Atoi(fields[0])
	if err != nil {
		return 0, 0, false
	}
	minor, err = strconv.Atoi(fields[1])
	return major, minor, err == nil
}

func atLeast(major, minor, wantMajor, wantMinor int) bool {
	return major > wantMajor || major == wantMajor && minor >= wantMinor
}

// Git judges the output of `git version`.
func Git(path, printed string) Check {
	c := Check{Name: "git", Status: OK, Detail: strings.TrimSpace(printed) + " (" + path + ")"}
	major, minor, ok := parseVersion(printed)
	if !ok || !atLeast(major, minor, 2, 32) {
		c.Status, c.Remedy = Fail, "install git 2.32 or newer"
	}
	return c
}

// Kernel judges a system by its release.
func Kernel(system, release, machine string) Check {
	c := Check{Name: "kernel", Status: OK, Detail: system + " " + release + " " + machine}
	major, minor, ok := parseVersion(release)
	switch {
	case system != "Linux":
		c.Status, c.Remedy = Warn, "sprites are isolated by namespaces on Linux only: use a Linux machine or remote sprites (SPRITES_API_URL)"
	case !ok || !atLeast(major, minor, 5, 12):
		c.Status, c.Remedy = Warn, "namespaces need Linux 5.12 or newer"
	}
	return c
}

// Program holds the findings about a program, here and in a sprite.
type Program struct {
	Kind string // "agent" or "tool"
	Name string
	Path string // here
	Note string // a peculiarity
	// Inside is where a sprite finds it, "" when it does not; Said is the first line that it printed there, Exit its code.
	Inside, Said string
	Exit         int
	// Show is the paths that would show it, as tried in a sprite; Tried is Exit of that.
	Show  []string
	Tried int
	// Trial says why it could not be looked for in a sprite.
	Trial error
}

// Judge says whether sprites can use a program.
func (p Program) Judge() Check {
	c := Check{Name: p.Kind + " " + p.Name, Status: OK}
	switch {
	case p.Trial != nil:
		c.Status, c.Detail = Warn, p.Path+"; could not find out whether sprites see it: "+p.Trial.Error()
	case p.Inside != "" && p.Exit == 0:
		c.Detail = p.Said + " (" + p.Inside + ")"
		if p.Said == "" {
			c.Detail = p.Inside
		}
	case p.Inside != "":
		c.Status, c.Detail = Warn, fmt.Sprintf("%s is in sprites, but ends with %d: %s", p.Inside, p.Exit, p.Said)
		c.Remedy = "try it: lattice skill call exec.run, or lattice sprite exec NAME -- " + p.Name
	default:
		c.Status, c.Detail = Warn, p.Path+" is not visible in sprites"
		if p.Note != "" {
			c.Detail = p.Path + " (" + p.Note + ") is not visible in sprites"
		}
		c.Remedy = p.remedyText()
	}
	return c
}

func (p Program) remedyText() string {
	if len(p.Show) == 0 {
		return "install it in /usr/local or /opt, or in the sprite itself"
	}
	flags := "--tool " + strings.Join(p.Show, " --tool ")
	if p.Tried != 0 {
		return flags + " shows it, but it ends with an error there: other users may not be able to read it (chmod -R o+rX), or it needs more files"
	}
	return flags + " (with lattice run, sprite create or sprite serve), or tools in the settings"
}
