package files

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const watchMask = unix.IN_CREATE | unix.IN_MODIFY | unix.IN_ATTRIB | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO |
	unix.IN_DELETE_SELF | unix.IN_MOVE_SELF | unix.IN_ONLYDIR

// target is why a folder is watched.
type target struct {
	dir       string // as the asker calls it
	only      string // the one name in it that is asked about, "" for all
	recursive bool
	top       bool // asked for itself, not found on the way
}

// watcher watches folders, and files by the folders they are in: so it sees a file that is replaced.
type watcher struct {
	t   Tree
	in  *os.File // the inotify descriptor
	out *json.Encoder

	mu      sync.Mutex // guards the fields below, and out
	targets map[int32][]target
	told    map[string]bool // names in new folders that were told before their events came
	full    bool            // maxWatched has been reached, and that was told
	last    Event
}

// watchTree has the kernel tell. All boxes of a host and the user who made them share the watchers that it has for one user:
// when there are no more, we look for ourselves.
func watchTree(t Tree, conn io.Reader, out *json.Encoder) error {
	from := scanRequests(conn)
	asked, err := serveInotify(t, from, out)
	if !errors.Is(err, errNoWatchers) {
		return err
	}
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	return pollTree(t, from, out, tick.C, asked...)
}

// errNoWatchers says that the kernel gives no more watchers, or folders to watch.
var errNoWatchers = errors.New("no more watchers")

// serveInotify serves the conversation until it ends, or until errNoWatchers; asked then holds the subscriptions, of which all but
// the last are confirmed.
func serveInotify(t Tree, from *bufio.Scanner, out *json.Encoder) (asked []Subscription, err error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, errNoWatchers
	}
	w := &watcher{t: t, in: os.NewFile(uintptr(fd), "inotify"), out: out, targets: map[int32][]target{}, told: map[string]bool{}}
	var reader sync.WaitGroup
	defer reader.Wait()
	defer w.in.Close() // which ends read
	reader.Go(w.readEvents)
	for from.Scan() {
		var s Subscription
		if json.Unmarshal(from.Bytes(), &s) != nil {
			break
		}
		asked = append(asked, s)
		if err := w.startWatch(s); errors.Is(err, errNoWatchers) {
			return asked, err
		} else if err != nil {
			break
		}
	}
	return nil, from.Err()
}

// startWatch starts to watch the path of s, and then confirms it.
func (w *watcher) startWatch(s Subscription) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range s.Paths {
		name := string(p)
		if err := w.addSubscription(name, s.Recursive); errors.Is(err, errNoWatchers) {
			return err
		} else if err != nil {
			if err := w.out.Encode(failureEvent(name, err)); err != nil {
				return err
			}
		}
	}
	return w.out.Encode(Event{Type: Subscribed, Time: time.Now()})
}

func (w *watcher) addSubscription(name string, recursive bool) error {
	st, err := w.t.Stat(name)
	if err != nil {
		return err
	}
	if !st.IsDir() {
		return w.addFolder(target{dir: path.Dir(name), only: path.Base(name), top: true}, nil)
	}
	return w.addFolder(target{dir: name, recursive: recursive, top: true}, nil)
}

// addFolder watches a folder and, recursively, those in it. found is told of all that is in it.
func (w *watcher) addFolder(g target, found func(name string, st fs.FileInfo) error) error {
	if len(w.targets) >= maxWatched {
		if w.full {
			return nil
		}
		w.full = true
		return w.out.Encode(failureEvent(g.dir, fmt.Errorf("more than %d folders: the rest is not watched", maxWatched)))
	}
	dir, err := w.t.Open(g.dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer dir.Close()
	var wd int
	err = w.withDescriptor(func(fd int) (err error) {
		wd, err = unix.InotifyAddWatch(fd, "/proc/self/fd/"+strconv.Itoa(int(dir.Fd())), watchMask)
		return err
	})
	if err != nil {
		if errors.Is(err, unix.ENOSPC) {
			return fmt.Errorf("the system's limit of watched folders (fs.inotify.max_user_watches) is reached: %w: %w", errNoWatchers, err)
		}
		return err
	}
	if slices.Contains(w.targets[int32(wd)], g) {
		return nil
	}
	w.targets[int32(wd)] = append(w.targets[int32(wd)], g)
	if !g.recursive {
		return nil
	}
	for {
		names, err := dir.Readdirnames(batch)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		for _, n := range names {
			if err := w.reportName(path.Join(g.dir, n), found); err != nil {
				return err
			}
		}
	}
}

// reportName looks at one name in a folder that has just been added.
func (w *watcher) reportName(name string, found func(string, fs.FileInfo) error) error {
	st, err := w.t.Lstat(name)
	if err != nil {
		return nil
	}
	if found != nil {
		if err := found(name, st); err != nil {
			return err
		}
	}
	if !st.IsDir() {
		return nil
	}
	return ignoreFolder(w.addFolder(target{dir: name, recursive: true}, found))
}

// readEvents emits events until the inotify descriptor is closed.
func (w *watcher) readEvents() {
	buf := make([]byte, 64<<10)
	for {
		w.caughtUp()
		n, err := w.in.Read(buf)
		if err != nil {
			return
		}
		if w.decodeEvents(buf[:n]) != nil {
			return
		}
	}
}

// caughtUp forgets the entries that were reported ahead once no earlier event can follow.
func (w *watcher) caughtUp() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.told) == 0 {
		return
	}
	var waiting int
	err := w.withDescriptor(func(fd int) (err error) {
		waiting, err = unix.IoctlGetInt(fd, unix.TIOCINQ)
		return err
	})
	if err == nil && waiting == 0 {
		clear(w.told)
	}
}

// withDescriptor does something with the inotify descriptor unless it is closed.
func (w *watcher) withDescriptor(do func(fd int) error) error {
	raw, err := w.in.SyscallConn()
	if err != nil {
		return err
	}
	return errors.Join(raw.Control(func(fd uintptr) { err = do(int(fd)) }), err)
}

// decodeEvents decodes the kernel's events: sixteen bytes each, followed by a name of the length that they state.
func (w *watcher) decodeEvents(raw []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.last = Event{}
	for len(raw) >= unix.SizeofInotifyEvent {
		wd := int32(binary.NativeEndian.Uint32(raw))
		mask := binary.NativeEndian.Uint32(raw[4:])
		end := min(unix.SizeofInotifyEvent+int(binary.NativeEndian.Uint32(raw[12:])), len(raw))
		name, _, _ := bytes.Cut(raw[unix.SizeofInotifyEvent:end], []byte{0})
		raw = raw[end:]
		if err := w.handleEvent(wd, mask, string(name)); err != nil {
			return err
		}
	}
	return nil
}

func (w *watcher) handleEvent(wd int32, mask uint32, name string) error {
	if mask&unix.IN_Q_OVERFLOW != 0 {
		return w.out.Encode(failureEvent("", errors.New("overflow: more happened than could be told; look at the files themselves")))
	}
	targets := w.targets[wd]
	if mask&unix.IN_IGNORED != 0 {
		delete(w.targets, wd)
		return nil
	}
	for _, g := range targets {
		if err := w.emitFor(g, mask, name); err != nil {
			return err
		}
	}
	return nil
}

// emitFor emits the event that a kernel event means for one target.
func (w *watcher) emitFor(g target, mask uint32, name string) error {
	if name == "" { // the folder itself
		if !g.top || g.only != "" {
			return nil // its parent is watched, too
		}
		switch {
		case mask&unix.IN_DELETE_SELF != 0:
			return w.sendEvent(g.dir, "remove", true)
		case mask&unix.IN_MOVE_SELF != 0:
			return w.sendEvent(g.dir, "rename", true)
		case mask&unix.IN_ATTRIB != 0:
			return w.sendEvent(g.dir, "chmod", true)
		}
		return nil
	}
	if g.only != "" && name != g.only {
		return nil
	}
	name = path.Join(g.dir, name)
	isDir := mask&unix.IN_ISDIR != 0
	if mask&unix.IN_MOVED_FROM != 0 && isDir && g.recursive {
		w.forgetFolder(name)
	}
	for _, k := range []struct {
		mask uint32
		kind string
	}{{unix.IN_CREATE | unix.IN_MOVED_TO, "create"}, {unix.IN_MODIFY, "write"}, {unix.IN_ATTRIB, "chmod"}, {unix.IN_DELETE, "remove"}, {unix.IN_MOVED_FROM, "rename"}} {
		if mask&k.mask == 0 {
			continue
		}
		if k.kind == "create" && w.told[name] {
			delete(w.told, name)
			continue
		}
		if err := w.sendEvent(name, k.kind, isDir); err != nil {
			return err
		}
	}
	if mask&(unix.IN_CREATE|unix.IN_MOVED_TO) == 0 || !isDir || !g.recursive {
		return nil
	}
	// Report the entries that were made in the new folder before the watch began.
	err := w.addFolder(target{dir: name, recursive: true}, func(name string, st fs.FileInfo) error {
		if w.told[name] {
			return nil
		}
		if len(w.told) < maxWatched {
			w.told[name] = true
		}
		return w.sendEvent(name, "create", st.IsDir())
	})
	if errors.Is(err, errNoWatchers) { // the rest goes on
		return w.out.Encode(failureEvent(name, err))
	}
	return ignoreFolder(err)
}

// forgetFolder stops watching a folder that goes away under its old name, with those in it.
func (w *watcher) forgetFolder(dir string) {
	for wd, targets := range w.targets {
		kept := targets[:0:0]
		for _, g := range targets {
			if g.top || g.dir != dir && !strings.HasPrefix(g.dir, dir+"/") {
				kept = append(kept, g)
			}
		}
		if w.targets[wd] = kept; len(kept) == 0 {
			delete(w.targets, wd)
			_ = w.withDescriptor(func(fd int) error { // gone is as good
				_, err := unix.InotifyRmWatch(fd, uint32(wd))
				return err
			})
		}
	}
}

// sendEvent tells one event. One that only repeats the last of its batch is left out.
func (w *watcher) sendEvent(name, kind string, isDir bool) error {
	e := Event{Type: Changed, Path: []byte(name), Event: kind, Time: time.Now(), IsDir: isDir}
	if st, err := w.t.Lstat(name); err == nil {
		e.Size, e.IsDir = st.Size(), st.IsDir()
	}
	if e.Event == w.last.Event && bytes.Equal(e.Path, w.last.Path) && e.Event == "write" {
		return nil
	}
	w.last = e
	return w.out.Encode(e)
}
