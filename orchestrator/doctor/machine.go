package doctor

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

	"github.com/spritekit/lattice/orchestrator/equip"
	"github.com/spritekit/lattice/orchestrator/leader/skillset"
	"github.com/spritekit/lattice/orchestrator/settings"
	"github.com/spritekit/lattice/orchestrator/setup"
	"github.com/spritekit/lattice/spritekit/durable"
	"github.com/spritekit/lattice/spritekit/fault"
	"github.com/spritekit/lattice/spritekit/protocol"
)

func newCheck(name string, status Status, remedy, format string, args ...any) Check {
	return Check{Name: name, Status: status, Detail: fmt.Sprintf(format, args...), Remedy: remedy}
}

// lookAtState tries the state directory: a file is written, made durable and removed.
func lookAtState(_ context.Context, env *setup.Env) []Check {
	const remedy = "set LATTICE_HOME to a directory that you can write to"
	if err := os.MkdirAll(env.Home, 0o700); err != nil {
		return []Check{newCheck("state", Fail, remedy, "%v", err)}
	}
	if err := tryWriting(env.Home); err != nil {
		if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
			return []Check{newCheck("state", Fail, "free some space, or remove sprites: lattice sprite prune", "%s: the disk is full", env.Home)}
		}
		return []Check{newCheck("state", Fail, remedy, "write to %s: %v", env.Home, err)}
	}
	var st unix.Statfs_t
	if err := unix.Statfs(env.Home, &st); err != nil {
		return []Check{newCheck("state", Fail, remedy, "look at %s: %v", env.Home, err)}
	}
	kind := fileSystemKind(st)
	c := newCheck("state", OK, "", "%s is writable and durable (%s)", env.Home, kind)
	c.Status, c.Remedy = FileSystem(kind)
	if info, err := os.Stat(env.Home); err == nil && info.Mode().Perm()&0o077 != 0 {
		c.Status, c.Remedy = Warn, "chmod 700 "+env.Home
		c.Detail += ", and other users can read it"
	}
	block := uint64(st.Bsize)
	return []Check{c, Disk(env.Home, Space{
		Free: uint64(st.Bavail) * block, Total: uint64(st.Blocks) * block, FreeInodes: uint64(st.Ffree), AllInodes: uint64(st.Files), Kind: kind,
	})}
}

// tryWriting tries the steps of a durable write: a write, an fsync of the file, a rename, an fsync of the folder.
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
	return durable.SyncDir(dir)
}

func lookAtKernel(context.Context) []Check {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return []Check{newCheck("kernel", Warn, "none known", "uname failed: %v", err)}
	}
	text := func(field []byte) string { return unix.ByteSliceToString(field) }
	return []Check{Kernel(text(u.Sysname[:]), text(u.Release[:]), text(u.Machine[:])), controlGroups()}
}

// lookAtStorage finds out whether checkpoints share bytes with the sprite where they cannot be stacked, or copy them.
func lookAtStorage(_ context.Context, env *setup.Env) []Check {
	if err := os.MkdirAll(env.Home, 0o700); err != nil {
		return []Check{newCheck("storage", Fail, "set LATTICE_HOME to a directory that you can write to", "%v", err)}
	}
	how := "checkpoints stack layers (snapshots on btrfs) and copy files where they cannot; a file system with reflinks, such as btrfs or xfs, would share them"
	if hasReflinks(env.Home) {
		how = "checkpoints stack layers (snapshots on btrfs), and share the bytes of files where they cannot (reflinks)"
	}
	return []Check{newCheck("storage", OK, "", "%s; overlayfs: %s", how, findOverlay())}
}

// lookAtURLs finds out whether programs of this machine find the names of sprites' URLs, by the C library's way where there is
// getent.
func lookAtURLs(ctx context.Context) []Check {
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
		return []Check{newCheck("urls", Warn, "use lattice sprite url NAME --address, whose URL works with every program, or install libnss-myhostname",
			"browsers and curl resolve NAME.localhost, other programs here do not")}
	}
	return []Check{newCheck("urls", OK, "", "every program resolves NAME.localhost")}
}

func lookAtGit(ctx context.Context) []Check {
	path, err := exec.LookPath("git")
	if err != nil {
		return []Check{newCheck("git", Fail, "install git 2.32 or newer", "git is not on PATH")}
	}
	out, err := exec.CommandContext(ctx, path, "version").Output()
	if err != nil {
		return []Check{newCheck("git", Fail, "install git 2.32 or newer", "%s version: %v", path, err)}
	}
	return []Check{Git(path, string(out))}
}

// lookAtSpritekit finds the binary that sprites get and asks it for its version. A binary that runs here runs in sprites
// of this machine, too.
func lookAtSpritekit(ctx context.Context, env *setup.Env, told string) []Check {
	path, err := skillset.FindSpritekit(env.Spritekit(told), env.Exe, env.Getenv("PATH"))
	if err != nil {
		return []Check{problemCheck("spritekit", err)}
	}
	const remedy = "run make build, or give one for this machine with --spritekit PATH"
	out, err := exec.CommandContext(ctx, path, "version", "--json").Output()
	var v struct{ Version, Protocol, OS, Arch string }
	if err == nil {
		err = json.Unmarshal(out, &v)
	}
	switch {
	case err != nil:
		return []Check{newCheck("spritekit", Fail, remedy, "%s does not run: %v", path, err)}
	case v.Protocol != protocol.Version:
		return []Check{newCheck("spritekit", Fail, remedy, "%s speaks protocol %s, not %s", path, v.Protocol, protocol.Version)}
	case v.OS != runtime.GOOS || v.Arch != runtime.GOARCH:
		return []Check{newCheck("spritekit", Warn, remedy, "%s is for %s/%s, which this %s/%s machine only emulates", path, v.OS, v.Arch, runtime.GOOS, runtime.GOARCH)}
	}
	if skillset.FindExtra(path) == "" {
		return []Check{newCheck("spritekit", Warn, "run make build, which creates both files",
			"%s exists, but %s next to it is missing: sprites have no spritekit mcp, and no git if their image has none", path, protocol.Extra)}
	}
	return []Check{newCheck("spritekit", OK, "", "%s (%s, protocol %s, %s/%s)", path, v.Version, v.Protocol, v.OS, v.Arch)}
}

// problemCheck is a failure in the words of an error that has a remedy of its own.
func problemCheck(name string, err error) Check {
	c := newCheck(name, Fail, "see the other findings, or report this with the output of lattice doctor --json", "%v", err)
	if p, ok := errors.AsType[*fault.Error](err); ok && p.Fault.Hint != "" {
		c.Remedy = p.Fault.Hint
	}
	return c
}

// lookAtSettings reads the settings once more, because doctor works even with settings that are wrong.
func lookAtSettings(_ context.Context, env *setup.Env) []Check {
	file, named := setup.SettingsPath(env.Getenv)
	text, err := setup.ReadBounded(file)
	switch {
	case errors.Is(err, fs.ErrNotExist) && !named:
		return []Check{newCheck("settings", OK, "", "none (%s)", file)}
	case err != nil:
		return []Check{newCheck("settings", Fail, "make it a file that you can read, or unset LATTICE_CONFIG", "%v", err)}
	}
	s, findings := settings.Parse(text)
	var checks []Check
	for _, f := range findings {
		checks = append(checks, newCheck("settings", Fail, cmp.Or(f.Hint, "correct it"), "%s: %s", file, f.Text()))
	}
	for _, tool := range s.Tools {
		if _, err := equip.CheckTool(env, tool); err != nil {
			c := problemCheck("settings", err)
			c.Status = Warn
			checks = append(checks, c)
		}
	}
	if _, _, err := env.SpritesAPI(); err != nil {
		checks = append(checks, problemCheck("settings", err))
	}
	if checks == nil {
		checks = []Check{newCheck("settings", OK, "", "%s", file)}
	}
	return checks
}

// lookAtRemote asks the remote Sprites API for its sprites, when one is set.
func lookAtRemote(ctx context.Context, env *setup.Env) []Check {
	client := env.RemoteSprites()
	if client == nil {
		return nil
	}
	url := env.SpritesURL
	all, err := client.List(ctx, "")
	if err == nil {
		return []Check{newCheck("remote", OK, "", "%s answers and accepts the token; %d sprites", url, len(all))}
	}
	remedy := "check SPRITES_API_URL and the network"
	if text := err.Error(); strings.Contains(text, "401") || strings.Contains(text, "403") || strings.Contains(text, "authentication") {
		remedy = "check SPRITES_TOKEN: the API answers, but does not accept it"
	}
	if p, ok := errors.AsType[*fault.Error](setup.ExplainSprite(err)); ok && p.Fault.Hint != "" {
		remedy = p.Fault.Hint
	}
	return []Check{newCheck("remote", Fail, remedy, "%s: %v", url, err)}
}
