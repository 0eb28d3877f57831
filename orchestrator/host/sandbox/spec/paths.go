package spec

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// ownFolders are the folders that the box itself provides, and those below which it has links of its own; no tool may be
// shown over, under or around them.
var ownFolders = []string{
	"/proc", "/sys", "/dev", "/etc", "/workspace", "/home/sprite", "/tmp", "/skills", "/.sprite", "/var/cache/sprite", SharedDir, "/var/tmp", "/var/run", "/run",
}

// OwnFolders lists the folders in which Config.Tools may show nothing.
func OwnFolders() []string { return slices.Clone(ownFolders) }

// Within reports whether path is dir or lies below it, by name.
func Within(path, dir string) bool {
	path, dir = filepath.Clean(path), filepath.Clean(dir)
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// folderPairs pairs the folders of a box with their paths on the host.
func (c Config) folderPairs() []struct{ seen, host string } {
	skills := c.Skills
	if skills == "" {
		skills = c.Root.hostDir("skills")
	}
	return []struct{ seen, host string }{
		{"/workspace", c.Root.hostDir("workspace")},
		{"/home/sprite", c.Root.hostDir("home/sprite")},
		{"/tmp", c.Root.hostDir("tmp")},
		{"/skills", skills},
		{"/.sprite", c.Run},
		{"/var/cache/sprite", c.Cache},
	}
}

// HostPath gives the host's name for a path of the box, in either mode: /workspace/x is workspace/x in Root. It works on
// names alone; a caller that opens the result must not follow links that the sprite made. Other paths come back cleaned.
func (c Config) HostPath(p string) string {
	p = filepath.Clean(p)
	for _, f := range c.folderPairs() {
		if Within(p, f.seen) {
			return f.host + strings.TrimPrefix(p, f.seen)
		}
	}
	return p
}

// TranslatePath leaves alone paths other than the box's, and those that already are host paths of it (the state directory may
// itself lie below /tmp).
func (c Config) TranslatePath(p string) string {
	if !strings.HasPrefix(p, "/") {
		return p
	}
	for _, f := range c.folderPairs() {
		if Within(p, f.host) {
			return p
		}
	}
	for _, f := range c.folderPairs() {
		if p == f.seen || strings.HasPrefix(p, f.seen+"/") {
			return f.host + strings.TrimPrefix(p, f.seen)
		}
	}
	return p
}

// BaseEnv is the environment that every command of the box starts from. Tool caches lie below /var/cache/sprite, so that
// they are never part of a checkpoint. Values are in the box's own paths; Exec translates them where it must. Config.Env goes
// on top of it, as far as it tells of programs and not of who and where the sprite is; its PATH follows the box's own folders.
func (c Config) BaseEnv() []string {
	dirs := []string{"/skills", "/.sprite/sbin"}
	for _, t := range c.Tools {
		if dir := toolDir(t); !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	programs := "/usr/local/go/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	for _, kv := range c.Env {
		if own, is := strings.CutPrefix(kv, "PATH="); is && own != "" {
			programs = own
		}
	}
	path := strings.Join(dirs, ":") + ":" + programs + ":/.sprite/bin"
	env := []string{
		"HOME=/home/sprite",
		"USER=sprite",
		"LOGNAME=sprite",
		"SHELL=/bin/sh",
		"PATH=" + path,
		"LANG=C.UTF-8",
		"TERM=xterm-256color",
		"TMPDIR=/tmp",
		"XDG_CACHE_HOME=/var/cache/sprite",
		"GOPATH=/var/cache/sprite/go",
		"GOCACHE=/var/cache/sprite/go-build",
		"GOMODCACHE=/var/cache/sprite/go-mod",
		"GOFLAGS=-modcacherw",
		"GOTOOLCHAIN=local",
		"npm_config_cache=/var/cache/sprite/npm",
		"PIP_CACHE_DIR=/var/cache/sprite/pip",
	}
	for _, t := range c.Tools {
		// The part of Go's module cache that is laid out as a proxy: modules that are there need no network, others come
		// from where they are kept. The go command checks them all against go.sum.
		if strings.HasSuffix(t, "/cache/download") {
			env = append(env, "GOPROXY=file://"+t+",direct")
		}
	}
	for _, kv := range c.Env {
		env = setOwn(env, kv)
	}
	return env
}

// setOwn sets a variable that a tree with programs of its own asks for, unless it is one of those that say who and where
// the sprite is.
func setOwn(env []string, kv string) []string {
	name, _, ok := strings.Cut(kv, "=")
	switch {
	case !ok || name == "" || strings.ContainsRune(kv, 0) || strings.HasPrefix(name, "LATTICE_"):
		return env
	case slices.Contains([]string{"PATH", "HOME", "USER", "LOGNAME", "TMPDIR", "HOSTNAME", "PWD", "OLDPWD"}, name):
		return env
	}
	i := slices.IndexFunc(env, func(old string) bool { return strings.HasPrefix(old, name+"=") })
	if i < 0 {
		return append(env, kv)
	}
	env[i] = kv
	return env
}

// toolDir is the folder of a tool path in which a shell looks for programs.
func toolDir(t string) string {
	if bin := filepath.Join(t, "bin"); isDir(bin) {
		return bin
	}
	if isDir(t) {
		return t
	}
	return filepath.Dir(t)
}

func isDir(p string) bool {
	st, err := os.Stat(p)
	return err == nil && st.IsDir()
}
