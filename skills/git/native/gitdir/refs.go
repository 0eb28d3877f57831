package gitdir

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing"

	"github.com/spritekit/lattice/skills/git/engine"
)

// Heads is where branches are.
const Heads = "refs/heads/"

// Head returns where HEAD is: the full name of its branch, "" when detached, and the commit, zero before the first one.
func (d *Dir) Head() (branch string, commit plumbing.Hash, err error) {
	ref, err := d.Store.Reference(plumbing.HEAD)
	if err != nil {
		return "", plumbing.ZeroHash, err
	}
	if ref.Type() == plumbing.HashReference {
		return "", ref.Hash(), nil
	}
	_, commit, err = d.ResolveRef(string(plumbing.HEAD))
	return string(ref.Target()), commit, err
}

// ResolveRef follows symbolic refs and returns the last name, and a zero id when there is no such ref.
func (d *Dir) ResolveRef(name string) (string, plumbing.Hash, error) {
	for range 6 {
		if name == "" {
			return "", plumbing.ZeroHash, nil
		}
		ref, err := d.Store.Reference(plumbing.ReferenceName(name))
		if errors.Is(err, plumbing.ErrReferenceNotFound) || errors.Is(err, syscall.ENOTDIR) || errors.Is(err, syscall.EISDIR) {
			return name, plumbing.ZeroHash, nil
		}
		if err != nil {
			return name, plumbing.ZeroHash, fmt.Errorf("read ref %s: %w", name, err)
		}
		if ref.Type() == plumbing.HashReference {
			return name, ref.Hash(), nil
		}
		name = string(ref.Target())
	}
	return name, plumbing.ZeroHash, fmt.Errorf("%s is a symbolic ref that leads in a circle", name)
}

// ListedRef is a ref of a list. Target is set for symbolic refs, whose id is that of the ref they lead to.
type ListedRef struct {
	Name, Target string
	ID           plumbing.Hash
}

// ListRefs returns the refs below the prefix, sorted by name, without symbolic refs that lead nowhere.
func (d *Dir) ListRefs(prefix string) ([]ListedRef, error) {
	refs, err := d.Store.IterReferences()
	if err != nil {
		return nil, fmt.Errorf("list refs: %w", err)
	}
	var list []ListedRef
	err = refs.ForEach(func(ref *plumbing.Reference) error {
		if ref == nil || !strings.HasPrefix(string(ref.Name()), prefix) || !IsRefName(string(ref.Name())) {
			return nil
		}
		l := ListedRef{Name: string(ref.Name()), ID: ref.Hash()}
		if ref.Type() == plumbing.SymbolicReference {
			last, id, err := d.ResolveRef(string(ref.Target()))
			if err != nil || id.IsZero() {
				return err
			}
			l.Target, l.ID = last, id
		}
		if !l.ID.IsZero() {
			list = append(list, l)
		}
		return nil
	})
	slices.SortFunc(list, func(a, b ListedRef) int { return cmp.Compare(a.Name, b.Name) })
	return list, err
}

// IsRefName reports whether git accepts a name for a ref below refs/.
func IsRefName(name string) bool {
	return strings.HasPrefix(name, "refs/") && len(name) <= 4096 && plumbing.ReferenceName(name).Validate() == nil
}

// tracking returns the ref that holds a branch of a remote here, "" for none.
func (d *Dir) tracking(remote, ref string) string {
	for _, text := range d.Config.Values("remote", remote, "fetch") {
		spec := config.RefSpec(text)
		if spec.Validate() == nil && spec.Match(plumbing.ReferenceName(ref)) {
			if to := string(spec.Dst(plumbing.ReferenceName(ref))); IsRefName(to) {
				return to
			}
		}
	}
	return ""
}

// Upstream returns the ref that a branch follows, "" for none.
func (d *Dir) Upstream(branch string) string {
	name, ok := strings.CutPrefix(branch, Heads)
	if !ok {
		return ""
	}
	remote, _ := d.Config.Value("branch", name, "remote")
	merge, _ := d.Config.Value("branch", name, "merge")
	switch {
	case remote == "" || merge == "":
		return ""
	case remote == ".":
		return merge
	}
	return d.tracking(remote, merge)
}

// RefChange moves a ref. A zero old id says that the ref must not exist, a nil one accepts any.
type RefChange struct {
	Name   string
	To     plumbing.Hash
	Old    *plumbing.Hash
	By     string // who, for the log
	Reason string // for the log; "" logs nothing
}

// UpdateRef moves a ref under its lock and logs it, in HEAD's log too when HEAD stands for it.
func (d *Dir) UpdateRef(c RefChange) error {
	lock, now, err := d.lockRef(c.Name, c.Old)
	if err != nil {
		return err
	}
	defer lock.Release()
	if now.IsZero() {
		if err := d.checkFree(c.Name); err != nil {
			return err
		}
	}
	if err := lock.Replace([]byte(c.To.String() + "\n")); err != nil {
		return err
	}
	if c.Reason == "" {
		return nil
	}
	if err := d.appendLog(c.Name, now, c); err != nil {
		return err
	}
	if ref, err := d.Store.Reference(plumbing.HEAD); err == nil && string(ref.Target()) == c.Name {
		return d.appendLog(string(plumbing.HEAD), now, c)
	}
	return nil
}

// lockRef takes a ref's lock and returns where the ref is.
func (d *Dir) lockRef(name string, want *plumbing.Hash) (*Lock, plumbing.Hash, error) {
	if name != string(plumbing.HEAD) && !IsRefName(name) {
		return nil, plumbing.ZeroHash, fmt.Errorf("%q is not the name of a ref", name)
	}
	for dir := path.Dir(name); dir != "refs" && dir != "."; dir = path.Dir(dir) {
		if info, err := d.Root.Lstat(dir); err == nil && !info.IsDir() {
			return nil, plumbing.ZeroHash, engine.Exists("the ref %s is in the way of %s", dir, name)
		}
	}
	l, err := Acquire(d.Root, name)
	if err != nil {
		return nil, plumbing.ZeroHash, err
	}
	_, now, err := d.ResolveRef(name)
	if err == nil && want != nil && now != *want {
		err = fmt.Errorf("%w: %s is at %s, not at %s", ErrMoved, name, now, *want)
	}
	if err != nil {
		return nil, plumbing.ZeroHash, errors.Join(err, l.Release())
	}
	return l, now, nil
}

// checkFree refuses a new ref whose name is a folder of others, or below another. It removes empty folders of its name.
func (d *Dir) checkFree(name string) error {
	refs, err := d.ListRefs("refs/")
	if err != nil {
		return err
	}
	for _, ref := range refs {
		if strings.HasPrefix(ref.Name, name+"/") || strings.HasPrefix(name, ref.Name+"/") {
			return engine.Exists("the ref %s is in the way of %s", ref.Name, name)
		}
	}
	for _, top := range []string{name, "logs/" + name} {
		var folders []string
		_ = fs.WalkDir(d.Root.FS(), top, func(name string, e fs.DirEntry, err error) error {
			if err == nil && e.IsDir() {
				folders = append(folders, name)
			}
			return nil
		})
		for _, folder := range slices.Backward(folders) {
			_ = d.Root.Remove(folder) // one that is in use stays, and the ref cannot be written
		}
	}
	return nil
}

// appendLog adds a line to the log of a ref that has one, or ought to have one.
func (d *Dir) appendLog(name string, old plumbing.Hash, c RefChange) error {
	file := "logs/" + name
	flags := os.O_WRONLY | os.O_APPEND | syscall.O_NOFOLLOW | syscall.O_NONBLOCK
	if name == string(plumbing.HEAD) || strings.HasPrefix(name, Heads) || strings.HasPrefix(name, "refs/remotes/") {
		flags |= os.O_CREATE
		if err := d.Root.MkdirAll(path.Dir(file), 0o777); err != nil {
			return fmt.Errorf("log %s: %w", name, err)
		}
	}
	f, err := d.Root.OpenFile(file, flags, 0o666)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("log %s: %w", name, err)
	}
	_, err = fmt.Fprintf(f, "%s %s %s\t%s\n", old, c.To, c.By, strings.Join(strings.Fields(c.Reason), " "))
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("log %s: %w", name, err)
	}
	return nil
}

// Identify returns the line that names a person and a time in logs and commits.
func Identify(s engine.Signature) string {
	return fmt.Sprintf("%s <%s> %d %s", cleanName(s.Name), cleanName(s.Email), s.When.Unix(), s.When.Format("-0700"))
}

// Committer returns who the logs of refs name when the caller does not say.
func (d *Dir) Committer() string {
	name, _ := d.Config.Value("user", "", "name")
	email, _ := d.Config.Value("user", "", "email")
	return Identify(engine.Signature{
		Name: cmp.Or(strings.TrimSpace(name), "Lattice"), Email: cmp.Or(strings.TrimSpace(email), "lattice@localhost"), When: time.Now(),
	})
}

// cleanName removes the characters that git removes from names and addresses.
func cleanName(s string) string {
	trimmed := strings.TrimFunc(s, func(c rune) bool { return c <= ' ' || strings.ContainsRune(".,:;<>\"\\'", c) })
	return strings.NewReplacer("\n", "", "<", "", ">", "").Replace(trimmed)
}

// Lock is a lock as git takes it: the file NAME.lock, made exclusively, which becomes NAME. A reader of NAME sees the old
// or the new content and nothing between.
type Lock struct {
	root *os.Root
	name string
	File *os.File
}

// Acquire takes the lock of a file; folders on the way are made.
func Acquire(root *os.Root, name string) (*Lock, error) {
	if err := root.MkdirAll(path.Dir(name), 0o777); err != nil {
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	f, err := root.OpenFile(name+".lock", os.O_RDWR|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o666)
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("%w: another git holds %s.lock", ErrLocked, name)
	}
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	return &Lock{root, name, f}, nil
}

// Replace makes data the content of the file and releases the lock.
func (l *Lock) Replace(data []byte) error {
	_, err := l.File.Write(data)
	if err = errors.Join(err, l.File.Sync()); err != nil {
		return fmt.Errorf("write %s: %w", l.name, err)
	}
	return l.Commit()
}

// Commit makes the content of the lock file the content of the file and releases the lock.
func (l *Lock) Commit() error {
	if err := l.root.Rename(l.name+".lock", l.name); err != nil {
		return fmt.Errorf("write %s: %w", l.name, err)
	}
	err := l.File.Close()
	l.File = nil
	return err
}

// Release removes the lock, unless it was committed or released before.
func (l *Lock) Release() error {
	if l.File == nil {
		return nil
	}
	// The file stays open until its name is removed: a lock that no process has open counts as stale.
	err := errors.Join(l.root.Remove(l.name+".lock"), l.File.Close())
	l.File = nil
	return err
}

// maxSmall bounds git's own files that are read whole, in bytes.
const maxSmall = 64 << 20

// ReadSmall reads a small file of the .git folder; it returns nil when there is none.
func (d *Dir) ReadSmall(name string) ([]byte, error) {
	f, err := d.Root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() || info.Size() > maxSmall {
		return nil, errors.Join(err, fmt.Errorf("%s is not a file of at most %d bytes", name, maxSmall))
	}
	return io.ReadAll(io.LimitReader(f, maxSmall))
}
