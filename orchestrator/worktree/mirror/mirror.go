// Package mirror keeps a local copy of each remote repository that runs are seeded from. Start with Store. Several stores,
// of several processes, may share one directory. It never writes to a remote, and stores no credentials.
package mirror

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/spritekit/lattice/orchestrator/worktree/gitexec"
	"github.com/spritekit/lattice/orchestrator/worktree/remote"
)

// A mirror is a bare repository with the branches of one URL. The first run fetches all of it, later ones only updates.
//
//	<key>.git    the repository; its configuration names no remote, and no URL or credential is in it
//	<key>.lock   exclusive lock while the mirror changes, shared while its objects are read; its mtime is the last use
//
// A mirror is a cache: a broken one is created again, and after its removal the next run fetches everything.
const (
	updatingMark = "lattice-updating" // exists during a fetch; if it exists before one, the last fetch was killed
	doubtMark    = "lattice-doubt"    // objects could not be read: run git fsck before the next use
	urlMark      = "lattice-url"      // the URL without credentials, for people
)

// maxPacks is the number of packs, one for each fetch, before they are repacked into one.
const maxPacks = 30

// Store holds mirrors in a private directory.
type Store struct {
	Remote remote.Client
	Dir    string
}

// Mirror is a mirror that is held for reading.
type Mirror struct {
	GitDir  string
	Format  string // of its objects: sha1 | sha256
	Head    string // the remote's default branch, "" when it has none
	Release func() // the caller must call it
}

// Name is the name of a URL's mirror. Spellings of one URL, and users of one host, share it.
func Name(remote string) string {
	sum := sha256.Sum256([]byte(normalURL(remote)))
	return hex.EncodeToString(sum[:16])
}

// normalURL normalizes a URL: it removes user and password, the default port and trailing slashes, and lower-cases the
// scheme and the host.
func normalURL(remote string) string {
	scheme, _, ok := strings.Cut(remote, "://")
	if !ok { // user@host:path
		host, path, _ := strings.Cut(remote, ":")
		if _, after, ok := strings.Cut(host, "@"); ok {
			host = after
		}
		return strings.ToLower(host) + ":" + strings.TrimRight(path, "/")
	}
	u, err := url.Parse(remote)
	if err != nil {
		return remote
	}
	u.User, u.Fragment = nil, ""
	u.Scheme, u.Host = strings.ToLower(scheme), strings.ToLower(u.Host)
	if host, port, err := net.SplitHostPort(u.Host); err == nil {
		if port == map[string]string{"https": "443", "http": "80", "ssh": "22", "git": "9418"}[u.Scheme] {
			u.Host = host
		}
	}
	u.Path = strings.TrimRight(u.Path, "/")
	return u.String()
}

// Open updates all branches and want in the mirror of url, and returns it with a shared lock. want is a branch, a tag or a
// commit, or "".
func (s Store) Open(ctx context.Context, url, want string) (Mirror, error) {
	name, shown := filepath.Join(s.Dir, Name(url)), remote.StripCredentials(url)
	for {
		lock, err := openLock(ctx, name+".lock")
		if err != nil {
			return Mirror{}, fmt.Errorf("lock the mirror of %s: %w", shown, err)
		}
		m := mirror{s.Remote, url, shown, name + ".git", lock}
		opened, err := m.updateMirror(ctx, want)
		if err == nil {
			err = lockFile(ctx, lock, syscall.LOCK_SH)
		}
		if err != nil {
			lock.Close()
			return Mirror{}, err
		}
		// Between the two locks it may have been pruned.
		if _, err := os.Stat(filepath.Join(m.dir, "HEAD")); err == nil {
			opened.Release = func() { lock.Close() }
			return opened, nil
		}
		lock.Close()
	}
}

// mirror is a mirror while it is held alone.
type mirror struct {
	remote remote.Client
	url    string
	shown  string // url without credentials
	dir    string
	lock   *os.File
}

func (m mirror) updateMirror(ctx context.Context, want string) (Mirror, error) {
	opened := Mirror{GitDir: m.dir, Format: "sha1"}
	refs, err := m.remote.List(ctx, m.url, "HEAD")
	if err != nil {
		return opened, err
	}
	opened.Head = refs.Head
	if len(refs.Values["HEAD"]) == 64 {
		opened.Format = "sha256"
	}
	if err := m.checkState(ctx, opened.Format); err != nil {
		return opened, fmt.Errorf("make a mirror of %s: %w", m.shown, err)
	}
	err = m.fetchRefs(ctx, opened.Head, want)
	var failed *remote.Error
	broken := err == nil && refs.Values["HEAD"] != "" && !m.hasCommit(ctx, "HEAD") || errors.As(err, &failed) && !m.isIntact(ctx, "--connectivity-only")
	if broken && ctx.Err() == nil {
		if err := m.recreateRepo(ctx, opened.Format); err != nil {
			return opened, fmt.Errorf("create the broken mirror of %s again: %w", m.shown, err)
		}
		err = m.fetchRefs(ctx, opened.Head, want)
	}
	if err != nil {
		return opened, err
	}
	now := time.Now()
	return opened, errors.Join(os.Remove(m.filePath(updatingMark)), os.Chtimes(m.lock.Name(), now, now))
}

func (m mirror) filePath(name string) string { return filepath.Join(m.dir, name) }

// gitCommand returns a command that runs in the mirror. It sets GIT_DIR, without which git would search the parent
// directories if the mirror is damaged.
func (m mirror) gitCommand(args ...string) gitexec.Command {
	return gitexec.Command{Dir: m.dir, Env: []string{"GIT_DIR=" + m.dir}, Hold: m.lock, Args: args}
}

// checkState makes the mirror, or makes it again when it has another format, or when it was doubted and is broken. It
// removes the remains of a killed fetch.
func (m mirror) checkState(ctx context.Context, format string) error {
	if _, err := os.Stat(m.filePath("HEAD")); err != nil {
		return m.recreateRepo(ctx, format)
	}
	r, err := m.remote.Git.Run(ctx, m.gitCommand("rev-parse", "--show-object-format", "--is-bare-repository"))
	if err != nil {
		return err
	}
	if r.Exit != 0 || r.StdoutText() != format+"\ntrue" {
		return m.recreateRepo(ctx, format)
	}
	if _, err := os.Stat(m.filePath(doubtMark)); err == nil {
		if !m.isIntact(ctx) && ctx.Err() == nil {
			return m.recreateRepo(ctx, format)
		}
		if err := os.Remove(m.filePath(doubtMark)); err != nil {
			return err
		}
	}
	if _, err := os.Stat(m.filePath(updatingMark)); err == nil {
		return m.clearRepo()
	}
	return os.WriteFile(m.filePath(updatingMark), nil, 0o600)
}

// recreateRepo replaces the mirror with an empty repository.
func (m mirror) recreateRepo(ctx context.Context, format string) error {
	if err := os.RemoveAll(m.dir); err != nil {
		return err
	}
	init := gitexec.Command{Args: []string{"init", "-q", "--bare", "--template=", "--object-format=" + format, m.dir}, Hold: m.lock}
	if _, err := m.remote.Git.MustRun(ctx, init); err != nil {
		return err
	}
	return errors.Join(os.WriteFile(m.filePath(urlMark), []byte(m.shown+"\n"), 0o600), os.WriteFile(m.filePath(updatingMark), nil, 0o600))
}

// clearRepo removes the locks and unfinished packs of a fetch that was killed. No other is at work: the lock is ours, and
// git's processes hold it, too.
func (m mirror) clearRepo() error {
	return filepath.WalkDir(m.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if name := d.Name(); strings.HasSuffix(name, ".lock") || strings.HasPrefix(name, "tmp_") {
			return os.Remove(path)
		}
		return nil
	})
}

// fetchRefs fetches all branches, and the tag or commit that want names.
func (m mirror) fetchRefs(ctx context.Context, head, want string) error {
	if err := m.pullRefs(ctx, "--prune", "+refs/heads/*:refs/heads/*"); err != nil {
		return err
	}
	if head != "" {
		if _, err := m.remote.Git.MustRun(ctx, m.gitCommand("symbolic-ref", "HEAD", "refs/heads/"+head)); err != nil {
			return err
		}
	}
	if err := m.fetchOne(ctx, want); err != nil {
		return err
	}
	packs, err := filepath.Glob(m.filePath("objects/pack/*.pack"))
	if err != nil || len(packs) <= maxPacks {
		return err
	}
	// Unreachable commits are kept: they may be the base of a waiting run.
	_, err = m.remote.Git.MustRun(ctx, m.gitCommand("repack", "-a", "-d", "-k", "-q"))
	return err
}

func (m mirror) pullRefs(ctx context.Context, args ...string) error {
	c := m.gitCommand(append([]string{"fetch", "-q", "--no-tags", "--no-write-fetch-head", "--no-auto-maintenance"}, args[:len(args)-1]...)...)
	c.User = true
	c.Args = append(c.Args, "--end-of-options", m.url, args[len(args)-1])
	r, err := m.remote.Run(ctx, m.url, c)
	if err == nil && r.Exit != 0 {
		err = &remote.Error{Doing: "fetch " + m.shown, Stderr: r.Stderr}
	}
	return err
}

// fetchOne fetches a tag or a commit. That the remote has neither is for resolve to find.
func (m mirror) fetchOne(ctx context.Context, want string) error {
	var failed *remote.Error
	switch {
	case want == "" || m.hasCommit(ctx, "refs/heads/"+strings.TrimPrefix(want, "refs/heads/")):
		return nil
	case remote.IsOID(want):
		if m.hasCommit(ctx, want) {
			return nil
		}
		if err := m.pullRefs(ctx, want); !errors.As(err, &failed) {
			return err
		}
		return nil
	}
	tag := "refs/tags/" + strings.TrimPrefix(want, "refs/tags/")
	if err := m.pullRefs(ctx, "+"+tag+":"+tag); !errors.As(err, &failed) {
		return err
	}
	// A tag that was there before has been removed since, or never was.
	_, err := m.remote.Git.Run(ctx, m.gitCommand("update-ref", "-d", tag))
	return err
}

func (m mirror) hasCommit(ctx context.Context, rev string) bool {
	r, err := m.remote.Git.Run(ctx, m.gitCommand("cat-file", "-e", rev+"^{commit}"))
	return err == nil && r.Exit == 0
}

// isIntact runs git fsck, which reads all objects, or with --connectivity-only checks that they exist.
func (m mirror) isIntact(ctx context.Context, args ...string) bool {
	r, err := m.remote.Git.Run(ctx, m.gitCommand(append([]string{"fsck", "--no-dangling", "--no-progress"}, args...)...))
	return err != nil || r.Exit == 0
}

// Doubt marks the mirror of a URL from which a bundle could not be made, so that it is looked through when it is used
// next; false when the error has other causes.
func (s Store) Doubt(spec string, err error) bool {
	var failed *remote.Error
	if !remote.IsURL(spec) || gitexec.IsRefusal(err) || errors.As(err, &failed) || errors.Is(err, syscall.ENOSPC) {
		return false
	}
	return os.WriteFile(filepath.Join(s.Dir, Name(spec)+".git", doubtMark), nil, 0o600) == nil
}

// openLock opens a lock file and locks it alone.
func openLock(ctx context.Context, path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lockFile(ctx, f, syscall.LOCK_EX); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// lockPause is how often a lock that another process holds is tried: the system call that waits cannot be cancelled.
const lockPause = 20 * time.Millisecond

func lockFile(ctx context.Context, f *os.File, how int) error {
	tick := time.NewTicker(lockPause)
	defer tick.Stop()
	for {
		err := syscall.Flock(int(f.Fd()), how|syscall.LOCK_NB)
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}
