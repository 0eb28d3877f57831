package sandbox

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// newPlan draws the box of c from what this host has.
func newPlan(c Config) (plan, error) {
	p := plan{Hostname: c.Hostname, Network: c.Network && c.defended(DefenceNetns)}
	if err := p.system(); err != nil {
		return p, err
	}
	p.dir("run", "srv", "mnt", "root", "var", "var/log")
	p.link("var/tmp", "/tmp")
	p.link("var/run", "/run")
	for _, f := range c.folders() {
		readOnly := f.seen == "/skills" && c.Skills != "" || f.seen == "/.sprite"
		p.bind(f.host, strings.TrimPrefix(f.seen, "/"), readOnly)
	}
	if c.Shared != "" {
		p.bind(c.Shared, strings.TrimPrefix(SharedDir, "/"), true)
	}
	if err := p.tools(c.Tools); err != nil {
		return p, err
	}
	p.devices()
	p.Steps = append(p.Steps, step{Kind: stepProc, Path: "proc"})
	return p, nil
}

func (p *plan) dir(paths ...string) {
	for _, path := range paths {
		p.Steps = append(p.Steps, step{Kind: stepDir, Path: path})
	}
}

func (p *plan) link(path, target string) {
	p.Steps = append(p.Steps, step{Kind: stepLink, Path: path, Source: target})
}

func (p *plan) bind(source, path string, readOnly bool) {
	p.Steps = append(p.Steps, step{Kind: stepBind, Path: path, Source: source, ReadOnly: readOnly})
}

// system shows the host's programs and libraries read-only, and of /etc what the list names.
func (p *plan) system() error {
	entries, err := os.ReadDir("/")
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := e.Name()
		if name != "usr" && name != "bin" && name != "sbin" && !strings.HasPrefix(name, "lib") {
			continue
		}
		switch {
		case e.Type() == fs.ModeSymlink:
			target, err := os.Readlink("/" + name)
			if err != nil {
				return err
			}
			p.link(name, target)
		case e.IsDir():
			p.bind("/"+name, name, true)
		}
	}
	p.Steps = append(p.Steps,
		step{Kind: stepFile, Path: "etc/passwd", Content: passwd},
		step{Kind: stepFile, Path: "etc/group", Content: group},
		step{Kind: stepFile, Path: "etc/hostname", Content: p.Hostname + "\n"},
		step{Kind: stepLink, Path: "etc/mtab", Source: "/proc/mounts"})
	own := map[string]string{}
	if p.Network {
		own = networkFiles(p.Hostname)
	}
	for _, path := range slices.Sorted(maps.Keys(own)) {
		p.Steps = append(p.Steps, step{Kind: stepFile, Path: path, Content: own[path]})
	}
	for _, name := range etc {
		if own["etc/"+name] != "" {
			continue
		}
		if err := p.show("/etc/" + name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// show binds a host file or folder read-only at its own path. A link is followed: the box sees what it points to.
func (p *plan) show(path string) error {
	st, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !st.IsDir() && !st.Mode().IsRegular() {
		return &fs.PathError{Op: "show", Path: path, Err: errors.New("neither a file nor a folder")}
	}
	p.Steps = append(p.Steps, step{Kind: stepBind, Path: strings.TrimPrefix(path, "/"), Source: path, File: !st.IsDir(), ReadOnly: true})
	return nil
}

// tools shows what the system folders do not show already.
func (p *plan) tools(paths []string) error {
	for _, path := range paths {
		path = filepath.Clean(path)
		if p.shown(path) || p.linked(path) {
			continue
		}
		if err := p.show(path); err != nil {
			return err
		}
	}
	return nil
}

func (p *plan) shown(path string) bool {
	for _, s := range p.Steps {
		if s.Kind == stepBind && within(path, "/"+s.Path) {
			return true
		}
	}
	return false
}

// linked reports that path leads through one of the box's own links, such as /bin, into what the system folders show.
// Nothing can be made there: it would be made where the link leads on the host.
func (p *plan) linked(path string) bool {
	for _, s := range p.Steps {
		if s.Kind == stepLink && within(path, "/"+s.Path) {
			return true
		}
	}
	return false
}

// devices makes a /dev with what programs expect and a terminal multiplexer of its own.
func (p *plan) devices() {
	for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
		p.Steps = append(p.Steps, step{Kind: stepBind, Path: "dev/" + name, Source: "/dev/" + name, File: true, Device: true})
	}
	p.link("dev/fd", "/proc/self/fd")
	p.link("dev/stdin", "/proc/self/fd/0")
	p.link("dev/stdout", "/proc/self/fd/1")
	p.link("dev/stderr", "/proc/self/fd/2")
	p.link("dev/ptmx", "pts/ptmx")
	p.Steps = append(p.Steps,
		step{Kind: stepPts, Path: "dev/pts"},
		step{Kind: stepTmp, Path: "dev/shm", Source: "mode=1777,size=256m"})
}
