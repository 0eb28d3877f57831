package view

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/spritekit/lattice/orchestrator/host/sandbox/idrange"
	"github.com/spritekit/lattice/orchestrator/host/sandbox/spec"
	"golang.org/x/sys/unix"
)

// Mounts are made detached, attached nowhere, and placed by descriptor. So a host that is root can make those of its own
// files before it starts init, which is then a user who may not walk to the sprite's folders; and no path of the tree that
// the sprite has filled is ever looked up by the host.

// OpenMounts makes the mount of each step, in order.
func OpenMounts(steps []Step, level spec.Level, ids *idrange.Range) (made []*os.File, err error) {
	for _, s := range steps {
		f, err := s.Open(level, ids)
		if err != nil && s.Local && !spec.Short(err) {
			f, err = openBind(Step{Kind: StepBind, Source: "/" + spec.LocalPath, ReadOnly: true}, nil)
		}
		if err != nil {
			closeMounts(made)
			what := s.Source
			if s.Kind != StepBind {
				what = string(s.Kind) + " /" + s.Path
			}
			return nil, spec.FailedAt("mount "+what, err)
		}
		made = append(made, f)
	}
	return made, nil
}

// Opens reports whether the step begins with a new mount.
func (s Step) Opens() bool {
	switch s.Kind {
	case StepBind, StepOverlay, stepProc, stepTmp, stepPts:
		return true
	default:
		return false
	}
}

func (s Step) Open(level spec.Level, ids *idrange.Range) (*os.File, error) {
	if !s.Own {
		ids = nil
	}
	switch s.Kind {
	case StepBind:
		return openBind(s, ids)
	case StepOverlay:
		return openOverlay(s, level == spec.LevelUser, ids)
	case stepProc:
		return newMount("proc", nil, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
	case stepPts: // without nodev: the terminals are devices
		return newMount("devpts", strings.Split(s.Source, ","), unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC)
	case stepTmp:
		return newMount("tmpfs", strings.Split(s.Source, ","), unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	default:
		return nil, fmt.Errorf("unknown kind %q", s.Kind)
	}
}

// mountAttributes are those of a mount of the host's.
func (s Step) mountAttributes() (attr int) {
	if !s.Suid {
		attr |= unix.MOUNT_ATTR_NOSUID
		if !s.Device {
			attr |= unix.MOUNT_ATTR_NODEV
		}
	}
	if s.ReadOnly {
		attr |= unix.MOUNT_ATTR_RDONLY
	}
	return attr
}

// openBind clones the mount of the step's source.
func openBind(s Step, ids *idrange.Range) (*os.File, error) {
	at, source, flags := unix.AT_FDCWD, s.Source, uint(unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if s.Local {
		local, err := openInTree(s.Source, spec.LocalPath)
		if err != nil {
			return nil, err
		}
		defer unix.Close(local)
		at, source, flags = local, "", flags|unix.AT_EMPTY_PATH
	}
	fd, err := unix.OpenTree(at, source, flags)
	if err != nil {
		return nil, fmt.Errorf("open_tree: %w", err)
	}
	attr := unix.MountAttr{Attr_set: uint64(s.mountAttributes()), Propagation: unix.MS_PRIVATE}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("mount_setattr: %w", err)
	}
	if err := ids.Show(fd); err != nil {
		unix.Close(fd)
		return nil, err
	}
	return os.NewFile(uintptr(fd), s.Source), nil
}

// openInTree opens a folder of a tree that a sprite may have filled.
func openInTree(tree, folder string) (int, error) {
	dir, err := unix.Open(tree, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return -1, fmt.Errorf("open %s: %w", tree, err)
	}
	defer unix.Close(dir)
	return openBelow(dir, folder)
}

// openBelow opens a folder below another, through no link and on the same file system.
func openBelow(dir int, folder string) (int, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV}
	fd, err := unix.Openat2(dir, folder, &how)
	if err != nil {
		return -1, fmt.Errorf("open %s: %w", folder, err)
	}
	return fd, nil
}

// newMount makes a new file system, or another view of one, from options such as "size=4k" and "newinstance".
func newMount(kind string, options []string, attr int) (*os.File, error) {
	ctx, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("fsopen: %w", err)
	}
	defer unix.Close(ctx)
	for _, option := range options {
		key, value, valued := strings.Cut(option, "=")
		if valued {
			err = unix.FsconfigSetString(ctx, key, value)
		} else {
			err = unix.FsconfigSetFlag(ctx, key)
		}
		if err != nil {
			return nil, explainError(ctx, option, err)
		}
	}
	if err := unix.FsconfigCreate(ctx); err != nil {
		return nil, explainError(ctx, "create", err)
	}
	fd, err := unix.Fsmount(ctx, unix.FSMOUNT_CLOEXEC, attr)
	if err != nil {
		return nil, fmt.Errorf("fsmount: %w", err)
	}
	return os.NewFile(uintptr(fd), kind), nil
}

// explainError adds the kernel's message about a failed step of making a mount.
func explainError(ctx int, what string, err error) error {
	text := make([]byte, 512)
	n, readErr := unix.Read(ctx, text)
	if readErr != nil || n <= 2 {
		return fmt.Errorf("fsconfig %s: %w", what, err)
	}
	return fmt.Errorf("fsconfig %s: %w: %s", what, err, strings.TrimSpace(string(text[2:n]))) // after "e "
}

// busyFor is the longest time for which a box that has just ended may still hold a layer: the kernel releases the mounts of a
// dead namespace a little later than its processes, without notice.
const busyFor = 2 * time.Second

// openOverlay mounts the step's layers. Root of the host keeps its notes in attributes that the sprite can neither read nor
// write, and renames of folders and hard links work across layers; an ordinary user's overlay can do neither.
func openOverlay(s Step, user bool, ids *idrange.Range) (*os.File, error) {
	began := time.Now()
	for pause := 200 * time.Microsecond; ; pause *= 2 {
		f, err := tryOverlay(s, user, ids)
		switch {
		case errors.Is(err, unix.EBUSY) && time.Since(began) < busyFor:
			time.Sleep(pause)
		case errors.Is(err, unix.ESTALE) && s.Tree.Upper != "":
			// The index belongs to other lower layers, of the same content: they were copied or merged since.
			if err := forgetOrigin(*s.Tree); err != nil {
				return nil, err
			}
			return tryOverlay(s, user, ids)
		default:
			return f, err
		}
	}
}

// layerFolders opens folders of layers as a box with ids is to see them.
type layerFolders struct {
	ids  *idrange.Range
	in   map[string]int // mounts that show folders of layers, by path: an upper layer and its work folder must be in the same
	open []*os.File
}

// nameFolder opens one, or the folder sub of it, and names it by descriptor: the kernel takes no option longer than 256 bytes.
func (l *layerFolders) nameFolder(path, sub string) (string, error) {
	dir, err := unix.AT_FDCWD, error(nil)
	if l.ids != nil {
		if dir, err = l.openParent(filepath.Dir(path)); err != nil {
			return "", fmt.Errorf("open layer %s: %w", path, err)
		}
		path = filepath.Base(path)
	}
	fd, err := unix.Openat(dir, path, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return "", fmt.Errorf("open layer %s: %w", path, err)
	}
	l.open = append(l.open, os.NewFile(uintptr(fd), path))
	if sub != "" { // in a tree that a sprite may have filled
		if fd, err = openBelow(fd, sub); err != nil {
			return "", fmt.Errorf("layer %s: %w", path, err)
		}
		l.open = append(l.open, os.NewFile(uintptr(fd), sub))
	}
	return fmt.Sprintf("/proc/self/fd/%d", fd), nil
}

func (l *layerFolders) openParent(path string) (int, error) {
	if fd, ok := l.in[path]; ok {
		return fd, nil
	}
	fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return -1, fmt.Errorf("open_tree: %w", err)
	}
	l.open = append(l.open, os.NewFile(uintptr(fd), path))
	l.in[path] = fd
	return fd, l.ids.Show(fd)
}

func tryOverlay(s Step, user bool, ids *idrange.Range) (*os.File, error) {
	folders := layerFolders{ids: ids, in: map[string]int{}}
	defer func() { closeMounts(folders.open) }()
	sub, work, workSub := "", s.Tree.Work, ""
	if s.Local {
		sub, work, workSub = spec.LocalPath, filepath.Dir(work), filepath.Base(work)
	}
	var lower, options []string
	for _, path := range s.Tree.Lower {
		name, err := folders.nameFolder(path, sub)
		if s.Local && (errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP)) {
			continue // this layer has nothing there
		}
		if err != nil {
			return nil, err
		}
		lower = append(lower, name)
	}
	if s.Local {
		name, err := folders.nameFolder("/"+spec.LocalPath, "")
		if err != nil {
			return nil, err
		}
		lower = append(lower, name)
	}
	if s.Tree.Upper != "" {
		for _, l := range []struct{ option, path, sub string }{{"upperdir", s.Tree.Upper, sub}, {"workdir", work, workSub}} {
			name, err := folders.nameFolder(l.path, l.sub)
			if err != nil {
				return nil, err
			}
			options = append(options, l.option+"="+name)
		}
	}
	switch {
	case user:
		options = append(options, "userxattr")
	case s.Local: // an index would refuse a layer that lies in another's
		options = append(options, "redirect_dir=off", "index=off")
	case s.Tree.Upper != "":
		options = append(options, "redirect_dir=on", "index=on")
	default:
		options = append(options, "redirect_dir=follow")
	}
	one := []string{"source=sprite"}
	for _, name := range lower {
		one = append(one, "lowerdir+="+name)
	}
	f, err := newMount("overlay", append(one, options...), s.mountAttributes())
	if errors.Is(err, unix.EINVAL) { // before Linux 6.7 there is only the list
		all := []string{"source=sprite", "lowerdir=" + strings.Join(lower, ":")}
		if old, e := newMount("overlay", append(all, options...), s.mountAttributes()); e == nil {
			f, err = old, nil
		}
	}
	if err != nil || s.ReadOnly {
		return f, err
	}
	// Where the kernel cannot use the work folder it mounts read-only, and says nothing.
	var st unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &st); err != nil || st.Flags&unix.ST_RDONLY != 0 {
		return nil, errors.Join(fmt.Errorf("the overlay came out read-only: %w", cmp.Or(err, checkWork(*s.Tree))), f.Close())
	}
	return f, nil
}

// checkWork finds out why the kernel could not use an overlay's work folder, by repeating its steps.
func checkWork(r spec.Root) error {
	probe := filepath.Join(r.Work, "probe")
	if err := os.Mkdir(probe, 0); err != nil {
		return err
	}
	return errors.Join(errors.New("its work folder was no use to the kernel"), os.Remove(probe))
}

// forgetOrigin has an upper layer take its lower layers for new ones.
func forgetOrigin(r spec.Root) error {
	if err := os.RemoveAll(filepath.Join(r.Work, "index")); err != nil {
		return err
	}
	for _, name := range []string{"trusted.overlay.origin", "user.overlay.origin"} {
		if err := unix.Lremovexattr(r.Upper, name); err != nil && !errors.Is(err, unix.ENODATA) && !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EOPNOTSUPP) {
			return fmt.Errorf("forget the origin of a layer: %w", err)
		}
	}
	return nil
}

func closeMounts(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
