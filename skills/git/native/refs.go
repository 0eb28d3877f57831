package native

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

const heads = "refs/heads/"

// head returns where HEAD is: the full name of its branch, "" when detached, and the commit, zero before the first one.
func (r *repo) head() (branch string, commit plumbing.Hash, err error) {
	ref, err := r.store.Reference(plumbing.HEAD)
	if err != nil {
		return "", plumbing.ZeroHash, err
	}
	if ref.Type() == plumbing.HashReference {
		return "", ref.Hash(), nil
	}
	_, commit, err = r.resolveRef(string(plumbing.HEAD))
	return string(ref.Target()), commit, err
}

// resolveRef follows symbolic refs and returns the last name, and a zero id when there is no such ref.
func (r *repo) resolveRef(name string) (string, plumbing.Hash, error) {
	for range 6 {
		if name == "" {
			return "", plumbing.ZeroHash, nil
		}
		ref, err := r.store.Reference(plumbing.ReferenceName(name))
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

// listedRef is a ref of a list. Target is set for symbolic refs, whose id is that of the ref they lead to.
type listedRef struct {
	name, target string
	id           plumbing.Hash
}

// listRefs returns the refs below the prefix, sorted by name, without symbolic refs that lead nowhere.
func (r *repo) listRefs(prefix string) ([]listedRef, error) {
	refs, err := r.store.IterReferences()
	if err != nil {
		return nil, fmt.Errorf("list refs: %w", err)
	}
	var list []listedRef
	err = refs.ForEach(func(ref *plumbing.Reference) error {
		if ref == nil || !strings.HasPrefix(string(ref.Name()), prefix) || !isRefName(string(ref.Name())) {
			return nil
		}
		l := listedRef{name: string(ref.Name()), id: ref.Hash()}
		if ref.Type() == plumbing.SymbolicReference {
			last, id, err := r.resolveRef(string(ref.Target()))
			if err != nil || id.IsZero() {
				return err
			}
			l.target, l.id = last, id
		}
		if !l.id.IsZero() {
			list = append(list, l)
		}
		return nil
	})
	slices.SortFunc(list, func(a, b listedRef) int { return cmp.Compare(a.name, b.name) })
	return list, err
}

// isRefName reports whether git accepts a name for a ref below refs/.
func isRefName(name string) bool {
	return strings.HasPrefix(name, "refs/") && len(name) <= 4096 && plumbing.ReferenceName(name).Validate() == nil
}

// tracking returns the ref that holds a branch of a remote here, "" for none.
func (r *repo) tracking(remote, ref string) string {
	for _, text := range r.config.Values("remote", remote, "fetch") {
		spec := config.RefSpec(text)
		if spec.Validate() == nil && spec.Match(plumbing.ReferenceName(ref)) {
			if to := string(spec.Dst(plumbing.ReferenceName(ref))); isRefName(to) {
				return to
			}
		}
	}
	return ""
}

// upstream returns the ref that a branch follows, "" for none.
func (r *repo) upstream(branch string) string {
	name, ok := strings.CutPrefix(branch, heads)
	if !ok {
		return ""
	}
	remote, _ := r.config.Value("branch", name, "remote")
	merge, _ := r.config.Value("branch", name, "merge")
	switch {
	case remote == "" || merge == "":
		return ""
	case remote == ".":
		return merge
	}
	return r.tracking(remote, merge)
}

// refChange moves a ref. A zero old id says that the ref must not exist, a nil one accepts any.
type refChange struct {
	name   string
	to     plumbing.Hash
	old    *plumbing.Hash
	by     string // the log's line: who, and why; without why nothing is logged
	reason string
}

// updateRef moves a ref under its lock and logs it, in HEAD's log too when HEAD stands for it.
func (r *repo) updateRef(c refChange) error {
	lock, now, err := r.lockRef(c.name, c.old)
	if err != nil {
		return err
	}
	defer lock.release()
	if now.IsZero() {
		if err := r.checkFree(c.name); err != nil {
			return err
		}
	}
	if err := lock.replace([]byte(c.to.String() + "\n")); err != nil {
		return err
	}
	if c.reason == "" {
		return nil
	}
	if err := r.appendLog(c.name, now, c); err != nil {
		return err
	}
	if ref, err := r.store.Reference(plumbing.HEAD); err == nil && string(ref.Target()) == c.name {
		return r.appendLog(string(plumbing.HEAD), now, c)
	}
	return nil
}

// lockRef takes a ref's lock and returns where the ref is.
func (r *repo) lockRef(name string, want *plumbing.Hash) (*lock, plumbing.Hash, error) {
	if name != string(plumbing.HEAD) && !isRefName(name) {
		return nil, plumbing.ZeroHash, fmt.Errorf("%q is not the name of a ref", name)
	}
	for dir := path.Dir(name); dir != "refs" && dir != "."; dir = path.Dir(dir) {
		if info, err := r.git.Lstat(dir); err == nil && !info.IsDir() {
			return nil, plumbing.ZeroHash, engine.Exists("the ref %s is in the way of %s", dir, name)
		}
	}
	l, err := acquire(r.git, name)
	if err != nil {
		return nil, plumbing.ZeroHash, err
	}
	_, now, err := r.resolveRef(name)
	if err == nil && want != nil && now != *want {
		err = fmt.Errorf("%w: %s is at %s, not at %s", errMoved, name, now, *want)
	}
	if err != nil {
		return nil, plumbing.ZeroHash, errors.Join(err, l.release())
	}
	return l, now, nil
}

// checkFree refuses a new ref whose name is a folder of others, or below another. It removes empty folders of its name.
func (r *repo) checkFree(name string) error {
	refs, err := r.listRefs("refs/")
	if err != nil {
		return err
	}
	for _, ref := range refs {
		if strings.HasPrefix(ref.name, name+"/") || strings.HasPrefix(name, ref.name+"/") {
			return engine.Exists("the ref %s is in the way of %s", ref.name, name)
		}
	}
	for _, folder := range []string{name, "logs/" + name} {
		if info, err := r.git.Lstat(folder); err == nil && info.IsDir() {
			if err := r.git.RemoveAll(folder); err != nil {
				return err
			}
		}
	}
	return nil
}

// appendLog adds a line to the log of a ref that has one, or ought to have one.
func (r *repo) appendLog(name string, old plumbing.Hash, c refChange) error {
	file := "logs/" + name
	flags := os.O_WRONLY | os.O_APPEND | syscall.O_NOFOLLOW | syscall.O_NONBLOCK
	if name == string(plumbing.HEAD) || strings.HasPrefix(name, heads) || strings.HasPrefix(name, "refs/remotes/") {
		flags |= os.O_CREATE
		if err := r.git.MkdirAll(path.Dir(file), 0o777); err != nil {
			return fmt.Errorf("log %s: %w", name, err)
		}
	}
	f, err := r.git.OpenFile(file, flags, 0o666)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("log %s: %w", name, err)
	}
	_, err = fmt.Fprintf(f, "%s %s %s\t%s\n", old, c.to, c.by, strings.Join(strings.Fields(c.reason), " "))
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("log %s: %w", name, err)
	}
	return nil
}

// identify returns the line that names a person and a time in logs and commits.
func identify(s engine.Signature) string {
	return fmt.Sprintf("%s <%s> %d %s", cleanName(s.Name), cleanName(s.Email), s.When.Unix(), s.When.Format("-0700"))
}

// committer returns who the logs of refs name when the caller does not say.
func (r *repo) committer() string {
	name, _ := r.config.Value("user", "", "name")
	email, _ := r.config.Value("user", "", "email")
	return identify(engine.Signature{
		Name: cmp.Or(strings.TrimSpace(name), "Lattice"), Email: cmp.Or(strings.TrimSpace(email), "lattice@localhost"), When: time.Now(),
	})
}

// cleanName removes the characters that git removes from names and addresses.
func cleanName(s string) string {
	trimmed := strings.TrimFunc(s, func(c rune) bool { return c <= ' ' || strings.ContainsRune(".,:;<>\"\\'", c) })
	return strings.NewReplacer("\n", "", "<", "", ">", "").Replace(trimmed)
}

// lock is a lock as git takes it: the file NAME.lock, made exclusively, which becomes NAME. A reader of NAME sees the old
// or the new content and nothing between.
type lock struct {
	root *os.Root
	name string
	file *os.File
}

func acquire(root *os.Root, name string) (*lock, error) {
	if err := root.MkdirAll(path.Dir(name), 0o777); err != nil {
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	f, err := root.OpenFile(name+".lock", os.O_RDWR|os.O_CREATE|os.O_EXCL|syscall.O_NOFOLLOW, 0o666)
	if errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("%w: another git holds %s.lock", errLocked, name)
	}
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	return &lock{root, name, f}, nil
}

// replace makes data the content of the file and releases the lock.
func (l *lock) replace(data []byte) error {
	_, err := l.file.Write(data)
	if err = errors.Join(err, l.file.Sync()); err != nil {
		return fmt.Errorf("write %s: %w", l.name, err)
	}
	return l.commit()
}

// commit makes the content of the lock file the content of the file and releases the lock.
func (l *lock) commit() error {
	if err := l.root.Rename(l.name+".lock", l.name); err != nil {
		return fmt.Errorf("write %s: %w", l.name, err)
	}
	err := l.file.Close()
	l.file = nil
	return err
}

// release removes the lock, unless it was committed or released before.
func (l *lock) release() error {
	if l.file == nil {
		return nil
	}
	err := errors.Join(l.file.Close(), l.root.Remove(l.name+".lock"))
	l.file = nil
	return err
}

// maxSmall bounds git's own files that are read whole, in bytes.
const maxSmall = 64 << 20

// readSmall reads a small file of the .git folder; it returns nil when there is none.
func (r *repo) readSmall(name string) ([]byte, error) {
	f, err := r.git.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
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
