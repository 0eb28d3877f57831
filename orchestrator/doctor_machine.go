package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/spritekit/lattice/orchestrator/doctor"
	"github.com/spritekit/lattice/orchestrator/leader"
	"github.com/spritekit/lattice/orchestrator/settings"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

// This file looks at the machine around lattice; package doctor judges what is found.

func check(name string, status doctor.Status, remedy, format string, args ...any) doctor.Check {
	return doctor.Check{Name: name, Status: status, Detail: fmt.Sprintf(format, args...), Remedy: remedy}
}

// lookAtState tries the state directory: a file is written, made durable and removed.
func (d *deps) lookAtState(context.Context) []doctor.Check {
	const remedy = "set LATTICE_HOME to a directory that you may write"
	if err := os.MkdirAll(d.home, 0o700); err != nil {
		return []doctor.Check{check("state", doctor.Fail, remedy, "%v", err)}
	}
	if err := tryWriting(d.home); err != nil {
		if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
			return []doctor.Check{check("state", doctor.Fail, "free some space, or remove sprites: lattice sprite prune", "%s: the disk is full", d.home)}
		}
		return []doctor.Check{check("state", doctor.Fail, remedy, "write to %s: %v", d.home, err)}
	}
	var st unix.Statfs_t
	if err := unix.Statfs(d.home, &st); err != nil {
		return []doctor.Check{check("state", doctor.Fail, remedy, "look at %s: %v", d.home, err)}
	}
	kind := fileSystemKind(st)
	c := check("state", doctor.OK, "", "%s is writable and durable (%s)", d.home, kind)
	c.Status, c.Remedy = doctor.FileSystem(kind)
	if info, err := os.Stat(d.home); err == nil && info.Mode().Perm()&0o077 != 0 {
		c.Status, c.Remedy = doctor.Warn, "chmod 700 "+d.home
		c.Detail += ", and others may look into it"
	}
	block := uint64(st.Bsize)
	return []doctor.Check{c, doctor.Disk(d.home, doctor.Space{
		Free: uint64(st.Bavail) * block, Total: uint64(st.Blocks) * block, FreeInodes: uint64(st.Ffree), AllInodes: uint64(st.Files), Kind: kind,
	})}
}

// tryWriting does what durable records need: a write, an fsync of the file, a rename, an fsync of the folder.
func tryWriting(dir string) error {
	f, err := os.CreateTemp(dir, ".doctor-")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.WriteString("does writing work?\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	moved := f.Name() + "-moved"
	if err := os.Rename(f.Name(), moved); err != nil {
		return err
	}
	defer os.Remove(moved)
	folder, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

func (d *deps) lookAtKernel(context.Context) []doctor.Check {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return []doctor.Check{check("kernel", doctor.Warn, "none known", "it does not say what it is: %v", err)}
	}
	text := func(field []byte) string { return unix.ByteSliceToString(field) }
	return []doctor.Check{doctor.Kernel(text(u.Sysname[:]), text(u.Release[:]), text(u.Machine[:])), controlGroups()}
}

// lookAtStorage finds out whether checkpoints share bytes with the sprite where they cannot be stacked, or copy them.
func (d *deps) lookAtStorage(context.Context) []doctor.Check {
	if err := os.MkdirAll(d.home, 0o700); err != nil {
		return []doctor.Check{check("storage", doctor.Fail, "set LATTICE_HOME to a directory that you may write", "%v", err)}
	}
	how := "checkpoints stack layers (snapshots on btrfs) and copy files where they cannot; a file system with reflinks, such as btrfs or xfs, would share them"
	if reflinks(d.home) {
		how = "checkpoints stack layers (snapshots on btrfs), and share the bytes of files where they cannot (reflinks)"
	}
	return []doctor.Check{check("storage", doctor.OK, "", "%s; overlayfs: %s", how, overlay())}
}

// lookAtURLs finds out whether programs of this machine find the names of sprites' URLs, by the C library's way where there is
// getent.
func lookAtURLs(ctx context.Context) []doctor.Check {
	const name = "lattice-doctor.localhost"
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second) // a name server may be silent
	defer cancel()
	var found bool
	if getent, err := exec.LookPath("getent"); err == nil {
		out, err := exec.CommandContext(ctx, getent, "ahosts", name).Output()
		first, _, _ := strings.Cut(string(out), " ")
		addr := net.ParseIP(first)
		found = err == nil && addr != nil && addr.IsLoopback()
	} else {
		addrs, err := net.DefaultResolver.LookupNetIP(ctx, "ip", name)
		found = err == nil && len(addrs) > 0 && addrs[0].IsLoopback()
	}
	if !found {
		return []doctor.Check{check("urls", doctor.Warn, "lattice sprite url NAME --address, whose URL every program understands; or install libnss-myhostname",
			"browsers and curl find NAME.localhost, other programs here do not")}
	}
	return []doctor.Check{check("urls", doctor.OK, "", "every program finds NAME.localhost")}
}

func (d *deps) lookAtGit(ctx context.Context) []doctor.Check {
	path, err := exec.LookPath("git")
	if err != nil {
		return []doctor.Check{check("git", doctor.Fail, "install git 2.32 or newer", "git is not on PATH")}
	}
	out, err := exec.CommandContext(ctx, path, "version").Output()
	if err != nil {
		return []doctor.Check{check("git", doctor.Fail, "install git 2.32 or newer", "%s version: %v", path, err)}
	}
	return []doctor.Check{doctor.Git(path, string(out))}
}

// lookAtSpritekit finds the binary that sprites get and has it say what it is. That it runs here says that it runs in
// sprites of this machine.
func (d *deps) lookAtSpritekit(ctx context.Context, told string) []doctor.Check {
	path, err := leader.FindSpritekit(d.spritekit(told), d.exe, d.getenv("PATH"))
	if err != nil {
		return []doctor.Check{problemCheck("spritekit", err)}
	}
	const remedy = "make build, or --spritekit PATH of one for this machine"
	out, err := exec.CommandContext(ctx, path, "version", "--json").Output()
	var v struct{ Version, Protocol, OS, Arch string }
	if err == nil {
		err = json.Unmarshal(out, &v)
	}
	switch {
	case err != nil:
		return []doctor.Check{check("spritekit", doctor.Fail, remedy, "%s does not run: %v", path, err)}
	case v.Protocol != protocol.Version:
		return []doctor.Check{check("spritekit", doctor.Fail, remedy, "%s speaks protocol %s, not %s", path, v.Protocol, protocol.Version)}
	case v.OS != runtime.GOOS || v.Arch != runtime.GOARCH:
		return []doctor.Check{check("spritekit", doctor.Warn, remedy, "%s is for %s/%s, which this %s/%s machine only emulates", path, v.OS, v.Arch, runtime.GOOS, runtime.GOARCH)}
	}
	if leader.FindExtra(path) == "" {
		return []doctor.Check{check("spritekit", doctor.Warn, "make build puts both files there",
			"%s is there without %s beside it: sprites have no spritekit mcp, and no git where their image has none", path, protocol.Extra)}
	}
	return []doctor.Check{check("spritekit", doctor.OK, "", "%s (%s, protocol %s, %s/%s)", path, v.Version, v.Protocol, v.OS, v.Arch)}
}

// problemCheck is a failure in the words of an error that has a remedy of its own.
func problemCheck(name string, err error) doctor.Check {
	c := check(name, doctor.Fail, "see the other findings, or report this with the output of lattice doctor --json", "%v", err)
	var p *fault.Error
	if errors.As(err, &p) && p.Fault.Hint != "" {
		c.Remedy = p.Fault.Hint
	}
	return c
}

// lookAtSettings reads the settings once more, because doctor works whatever is wrong with them.
func (d *deps) lookAtSettings(context.Context) []doctor.Check {
	file, named := settingsPath(d.getenv)
	text, err := readBounded(file)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !named:
		return []doctor.Check{check("settings", doctor.OK, "", "none (%s)", file)}
	case err != nil:
		return []doctor.Check{check("settings", doctor.Fail, "make it a file that you may read, or unset LATTICE_CONFIG", "%v", err)}
	}
	s, findings := settings.Parse(text)
	var checks []doctor.Check
	for _, f := range findings {
		checks = append(checks, check("settings", doctor.Fail, cmp.Or(f.Hint, "correct it"), "%s: %s", file, f.Text()))
	}
	for _, tool := range s.Tools {
		if _, err := d.checkTool(tool); err != nil {
			c := problemCheck("settings", err)
			c.Status = doctor.Warn
			checks = append(checks, c)
		}
	}
	if _, _, err := d.spritesAPI(); err != nil {
		checks = append(checks, problemCheck("settings", err))
	}
	if checks == nil {
		checks = []doctor.Check{check("settings", doctor.OK, "", "%s", file)}
	}
	return checks
}

// lookAtRemote asks the remote Sprites API for its sprites, when one is set.
func (d *deps) lookAtRemote(ctx context.Context) []doctor.Check {
	client := d.remoteSprites()
	if client == nil {
		return nil
	}
	url := d.spritesURL
	all, err := client.List(ctx, "")
	if err == nil {
		return []doctor.Check{check("remote", doctor.OK, "", "%s answers and takes the token; %d sprites", url, len(all))}
	}
	remedy := "check SPRITES_API_URL and the network"
	if text := err.Error(); strings.Contains(text, "401") || strings.Contains(text, "403") || strings.Contains(text, "authentication") {
		remedy = "check SPRITES_TOKEN: the API is there, but does not take it"
	}
	var p *fault.Error
	if errors.As(spriteProblem(err), &p) && p.Fault.Hint != "" {
		remedy = p.Fault.Hint
	}
	return []doctor.Check{check("remote", doctor.Fail, remedy, "%s: %v", url, err)}
}
