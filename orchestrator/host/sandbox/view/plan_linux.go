package view

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
)

// NewPlan plans the box of c from this host's folders.
func NewPlan(c spec.Config) (Plan, error) {
	p := Plan{Level: c.Level, Hostname: c.Hostname, Limits: c.Limits, Without: c.Without}
	p.Root = p.Tree("", c.Root, false)
	size := fmt.Sprintf(",size=%d,nr_inodes=%d", c.Limits.TmpBytes, c.Limits.TmpBytes/perFile)
	if !c.Defended(spec.DefenceTmpSize) {
		size = ""
	}
	p.Steps = append(p.Steps, Step{Kind: stepTmp, Path: "dev", Source: fmt.Sprintf("mode=0755,size=%d", spec.DevSize)})
	p.addTexts(c)
	show := p.ownSystem
	if c.Root.Host {
		show = p.addSystem
	}
	if err := show(c); err != nil {
		return p, err
	}
	p.addLink("var/tmp", "/tmp")
	p.addLink("var/run", "/run")
	for _, path := range []string{"opt", "srv", "mnt", "var/local"} { // where programs expect to install and to keep data
		p.Steps = append(p.Steps, Step{Kind: stepDir, Path: path, Mode: 0o755})
	}
	p.Steps = append(p.Steps,
		Step{Kind: stepDir, Path: "workspace", Mode: 0o755}, Step{Kind: stepDir, Path: "home/sprite", Mode: 0o755}, Step{Kind: stepDir, Path: "tmp", Mode: 0o1777})
	p.Steps = append(p.Steps, Step{Kind: stepTmp, Path: "run", Source: "mode=0755" + size})
	if c.Skills != "" {
		p.addBind(c.Skills, "skills")
	}
	p.addBind(c.Run, ".sprite")
	if p.AsRoot, p.LoneRoot = c.Rooted(), c.LoneRoot(); p.AsRoot || p.LoneRoot {
		p.Steps = append(p.Steps, Step{Kind: StepBind, Path: ".sprite/sbin/init", Source: c.Self, File: true, ReadOnly: true})
	}
	for _, point := range c.Points {
		p.Steps = append(p.Steps, p.Tree(spec.PointPath(point.ID), point.Root, true))
	}
	p.Steps = append(p.Steps, Step{Kind: StepBind, Path: "var/cache/sprite", Source: c.Cache, Own: true})
	if c.Shared != "" {
		p.addBind(c.Shared, strings.TrimPrefix(spec.SharedDir, "/"))
	}
	if err := p.addTools(c.Tools); err != nil {
		return p, err
	}
	terminals := "newinstance,ptmxmode=0666,mode=0620"
	if c.Defended(spec.DefenceShares) {
		terminals += fmt.Sprintf(",max=%d", maxTerminals)
	}
	p.addDevices("mode=1777"+size, terminals)
	if !c.Defended(spec.DefencePidNamespace) { // whose /proc is then the host's
		p.Steps = append(p.Steps, Step{Kind: StepBind, Path: "proc", Source: "/proc"})
		return p.liftRestrictions(c), nil
	}
	p.Steps = append(p.Steps, Step{Kind: stepProc, Path: "proc"})
	if c.Defended(spec.DefenceUserns) {
		// Nested user namespaces would give back capabilities, and with them much of the kernel.
		p.Steps = append(p.Steps, Step{Kind: stepKnob, Path: "proc/sys/user/max_user_namespaces", Content: "0", Late: p.LoneRoot})
	}
	if c.Defended(spec.DefenceShares) {
		p.shareWatches()
	}
	if c.FewPids {
		p.Steps = append(p.Steps, Step{Kind: stepKnob, Path: "proc/sys/kernel/pid_max", Content: strconv.Itoa(c.Limits.Pids + spec.SpareThreads + reservedPids)})
	}
	if c.Defended(spec.DefenceMaskedProc) {
		p.maskProc()
	}
	return p.liftRestrictions(c), nil
}

// liftRestrictions takes the restrictions of mounts back that c leaves out.
func (p Plan) liftRestrictions(c spec.Config) Plan {
	for i, s := range p.Steps {
		if s.OfHost() {
			p.Steps[i].ReadOnly = s.ReadOnly && c.Defended(spec.DefenceReadOnly)
			p.Steps[i].Suid = !c.Defended(spec.DefenceNosuid)
		}
	}
	p.Root.Suid = !c.Defended(spec.DefenceNosuid)
	return p
}

// Tree shows a root at path.
func (p *Plan) Tree(path string, r spec.Root, readOnly bool) Step {
	switch {
	case r.Dir != "":
		return Step{Kind: StepBind, Path: path, Source: r.Dir, ReadOnly: readOnly, Own: true}
	case r.Upper == "" && len(r.Lower) == 1:
		return Step{Kind: StepBind, Path: path, Source: r.Lower[0], ReadOnly: true, Own: true}
	default:
		return Step{Kind: StepOverlay, Path: path, Tree: &r, ReadOnly: readOnly, Own: true}
	}
}

func (p *Plan) addLink(path, target string) {
	p.Steps = append(p.Steps, Step{Kind: stepLink, Path: path, Source: target})
}

func (p *Plan) addText(path, content string) {
	p.Steps = append(p.Steps, Step{Kind: stepText, Path: path, Content: content})
}

// addBind shows a folder read-only.
func (p *Plan) addBind(source, path string) {
	p.Steps = append(p.Steps, Step{Kind: StepBind, Path: path, Source: source, ReadOnly: true})
}

// addTexts makes the files that say who and where the box is. A tree with programs of its own has its own users.
func (p *Plan) addTexts(c spec.Config) {
	p.addText("etc/hostname", c.Hostname+"\n")
	if c.OwnNetwork() {
		own := spec.NetworkFiles(c.Hostname)
		for _, path := range slices.Sorted(maps.Keys(own)) {
			p.addText(path, own[path])
		}
	}
	if c.Root.Host {
		p.addText("etc/passwd", passwdText)
		p.addText("etc/group", groupText)
	}
}

// addSystem shows the host's programs and libraries read-only, and the listed files of /etc. Where the host has a link, such
// as /bin, the box has a mount: its owner cannot take that away.
func (p *Plan) addSystem(c spec.Config) error {
	entries, err := os.ReadDir("/")
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		if name != "usr" && name != "bin" && name != "sbin" && !strings.HasPrefix(name, "lib") {
			continue
		}
		if st, err := os.Stat("/" + name); err == nil && st.IsDir() {
			p.addBind("/"+name, name)
		}
	}
	p.showLocal(c)
	for _, name := range etc {
		if p.isShown("/etc/" + name) {
			continue // a text of the box's own
		}
		if err := p.showPath("/etc/" + name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	p.addLink("etc/mtab", "/proc/mounts")
	return nil
}

// ownSystem shows a tree with programs of its own who its users are, and how the host, if its network is that, finds names.
func (p *Plan) ownSystem(c spec.Config) error {
	for path, text := range map[string]string{"etc/passwd": c.Passwd, "etc/group": c.Group} {
		switch {
		case text == "":
		case c.Rooted():
			p.Steps = append(p.Steps, Step{Kind: stepUsers, Path: path, Content: text})
		default:
			p.addText(path, text)
		}
	}
	if c.OwnNetwork() {
		return nil
	}
	for _, path := range []string{"/etc/resolv.conf", "/etc/hosts"} {
		if err := p.showPath(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// showPath binds a host file or folder read-only at its own path. A link is followed: the box sees its target.
func (p *Plan) showPath(path string) error {
	st, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !st.IsDir() && !st.Mode().IsRegular() {
		return &fs.PathError{Op: "show", Path: path, Err: errors.New("neither a file nor a folder")}
	}
	p.Steps = append(p.Steps, Step{Kind: StepBind, Path: strings.TrimPrefix(path, "/"), Source: path, File: !st.IsDir(), ReadOnly: true})
	return nil
}

// addTools shows the tools outside of the system folders.
func (p *Plan) addTools(paths []string) error {
	for _, path := range paths {
		path = filepath.Clean(path)
		if p.isShown(path) {
			continue
		}
		if err := p.showPath(path); err != nil {
			return err
		}
	}
	return nil
}

func (p *Plan) isShown(path string) bool {
	return slices.ContainsFunc(p.Steps, func(s Step) bool { return (s.Kind == StepBind || s.Kind == stepText) && spec.Within(path, "/"+s.Path) })
}

// reservedPids are process ids that the kernel gives only once.
const reservedPids = 300

const (
	maxTerminals = 256     // a box's part of the 4096 that the kernel has for all
	perFile      = 4 << 10 // bytes of a memory file system for which it may have one file
)

// addDevices fills /dev with the usual devices and a terminal multiplexer of its own.
func (p *Plan) addDevices(shm, terminals string) {
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		p.Steps = append(p.Steps, Step{Kind: StepBind, Path: "dev/" + name, Source: "/dev/" + name, File: true, Device: true})
	}
	p.addLink("dev/fd", "/proc/self/fd")
	p.addLink("dev/stdin", "/proc/self/fd/0")
	p.addLink("dev/stdout", "/proc/self/fd/1")
	p.addLink("dev/stderr", "/proc/self/fd/2")
	p.addLink("dev/ptmx", "pts/ptmx")
	p.Steps = append(p.Steps,
		Step{Kind: stepPts, Path: "dev/pts", Source: terminals},
		Step{Kind: stepTmp, Path: "dev/shm", Source: shm},
		Step{Kind: stepSeal, Path: "dev"})
}

// shareWatches leaves the box a quarter of a user's inotify watches: for the kernel, all boxes and the user who made them are
// one user.
func (p *Plan) shareWatches() {
	for _, name := range []string{"max_inotify_instances", "max_inotify_watches"} {
		if all, err := strconv.Atoi(spec.ReadKnob("user/" + name)); err == nil {
			p.Steps = append(p.Steps, Step{Kind: stepKnob, Path: "proc/sys/user/" + name, Content: strconv.Itoa(all / 4)})
		}
	}
}

// Parts of /proc that tell of the host or of its kernel, and those that would change them.
var (
	hiddenProc = []string{
		"kcore", "keys", "key-users", "kallsyms", "kmsg", "kpagecount", "kpageflags", "kpagecgroup", "latency_stats", "timer_list", "timer_stats",
		"sched_debug", "slabinfo", "vmallocinfo", "modules", "sysrq-trigger", "interrupts", "config.gz",
	}
	hiddenProcDirs = []string{"acpi", "asound", "scsi"}
	sealedProc     = []string{"sys", "irq", "bus", "fs", "driver", "tty", "dynamic_debug", "mtrr"}
)

// maskProc hides and seals the listed files that exist in this host's /proc.
func (p *Plan) maskProc() {
	has := func(name string) bool { _, err := os.Lstat("/proc/" + name); return err == nil }
	for _, name := range hiddenProc {
		if has(name) {
			p.Steps = append(p.Steps, Step{Kind: stepAgain, Path: "proc/" + name, Source: "dev/null", File: true})
		}
	}
	for _, name := range hiddenProcDirs {
		if has(name) {
			p.Steps = append(p.Steps, Step{Kind: stepTmp, Path: "proc/" + name, Source: "mode=0555,size=4k"}, Step{Kind: stepSeal, Path: "proc/" + name})
		}
	}
	for _, name := range sealedProc {
		if st, err := os.Lstat("/proc/" + name); err == nil {
			p.Steps = append(p.Steps,
				Step{Kind: stepAgain, Path: "proc/" + name, Source: "proc/" + name, File: !st.IsDir()}, Step{Kind: stepSeal, Path: "proc/" + name, File: !st.IsDir()})
		}
	}
}
