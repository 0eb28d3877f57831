package files

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"sync"
	"syscall"
	"time"
)

// pollEvery is how often a poller looks.
const pollEvery = time.Second

// maxPolled bounds the files that one poller remembers.
const maxPolled = 64 << 10

// poller reports changes by polling, for systems that cannot notify or whose watchers are exhausted. So it reports late, shows
// a rename as a removal and a creation, and misses files that existed only between two polls.
type poller struct {
	t   Tree
	out *json.Encoder

	mu    sync.Mutex // guards the fields below, and out
	asked []polled
	seen  map[string]look
	full  bool // maxPolled has been reached, and that was told
}

// polled is one path that was asked for.
type polled struct {
	name      string
	recursive bool
}

// look is how a file was found.
type look struct {
	mode fs.FileMode
	size int64
	time time.Time
}

// scanRequests reads the client's requests.
func scanRequests(conn io.Reader) *bufio.Scanner {
	l := bufio.NewScanner(conn)
	l.Buffer(nil, 1<<20)
	return l
}

// pollTree serves a conversation that begins with, or continues after, the subscriptions of begun, of which all but the last have
// been confirmed. It polls at each tick.
func pollTree(t Tree, from *bufio.Scanner, out *json.Encoder, tick <-chan time.Time, begun ...Subscription) error {
	p := &poller{t: t, out: out, seen: map[string]look{}}
	done := make(chan struct{})
	var looking sync.WaitGroup
	defer looking.Wait()
	defer close(done)
	for i, s := range begun {
		if err := p.recordState(s, i == len(begun)-1); err != nil {
			return nil // the asker has gone
		}
	}
	looking.Go(func() {
		for {
			select {
			case <-tick:
				if p.emitChanges() != nil {
					return
				}
			case <-done:
				return
			}
		}
	})
	for from.Scan() {
		var s Subscription
		if json.Unmarshal(from.Bytes(), &s) != nil || p.recordState(s, true) != nil {
			break
		}
	}
	return from.Err()
}

// recordState records the present state, so that only later changes are reported.
func (p *poller) recordState(s Subscription, confirm bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, name := range s.Paths {
		one := polled{string(name), s.Recursive}
		_, err := p.t.Stat(one.name)
		if err == nil {
			p.asked = append(p.asked, one)
			err = p.walkSubscription(one, p.seen)
		}
		if err != nil {
			if err := p.out.Encode(failureEvent(one.name, err)); err != nil {
				return err
			}
		}
	}
	if !confirm {
		return nil
	}
	return p.out.Encode(Event{Type: Subscribed, Time: time.Now()})
}

// emitChanges emits the changes since the last poll.
func (p *poller) emitChanges() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := map[string]look{}
	for _, one := range p.asked {
		// A path that cannot be read counts as removed; a new subscription will report the reason.
		if err := p.walkSubscription(one, now); errors.Is(err, errTold) {
			return err
		}
	}
	names := slices.Collect(maps.Keys(now))
	for name := range p.seen {
		if _, still := now[name]; !still {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		was, before := p.seen[name]
		is, after := now[name]
		for _, kind := range changesBetween(was, before, is, after) {
			e := Event{Type: Changed, Path: []byte(name), Event: kind, Time: time.Now(), Size: is.size, IsDir: is.mode.IsDir() || !after && was.mode.IsDir()}
			if err := p.out.Encode(e); err != nil {
				return err
			}
		}
	}
	p.seen = now
	return nil
}

// changesBetween returns the events that lead from one state of a file to another.
func changesBetween(was look, before bool, is look, after bool) []string {
	switch {
	case !before && after:
		return []string{"create"}
	case before && !after:
		return []string{"remove"}
	case was.mode.Type() != is.mode.Type():
		return []string{"remove", "create"}
	}
	var kinds []string
	if was.mode != is.mode {
		kinds = append(kinds, "chmod")
	}
	if !is.mode.IsDir() && (was.size != is.size || !was.time.Equal(is.time)) {
		kinds = append(kinds, "write")
	}
	return kinds
}

// errTold says that the asker has gone while something was told.
var errTold = errors.New("nobody listens")

// walkSubscription notes how all stands that one asks for.
func (p *poller) walkSubscription(one polled, to map[string]look) error {
	st, err := p.recordFile(one.name, to)
	if err != nil || !st.IsDir() && st.Mode()&fs.ModeSymlink == 0 {
		return err
	}
	return p.recordFolder(one.name, one.recursive, to)
}

// recordFolder records the entries of a folder.
func (p *poller) recordFolder(name string, recursive bool, to map[string]look) error {
	dir, err := p.t.Open(name, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, syscall.ENOTDIR) {
		return nil // a link to a file
	}
	if err != nil {
		return err
	}
	defer dir.Close()
	for {
		names, err := dir.Readdirnames(batch)
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		for _, n := range names {
			within := path.Join(name, n)
			st, err := p.recordFile(within, to)
			if errors.Is(err, errTold) || p.full && len(to) >= maxPolled {
				return err
			}
			if err == nil && recursive && st.IsDir() {
				if err := p.recordFolder(within, true, to); errors.Is(err, errTold) {
					return err
				}
			}
		}
	}
}

// recordFile looks at one file.
func (p *poller) recordFile(name string, to map[string]look) (fs.FileInfo, error) {
	st, err := p.t.Lstat(name)
	if err != nil {
		return nil, err
	}
	if len(to) >= maxPolled {
		if !p.full {
			p.full = true
			if p.out.Encode(failureEvent(name, fmt.Errorf("more than %d files: the rest is not watched", maxPolled))) != nil {
				return nil, errTold
			}
		}
		return st, nil
	}
	to[name] = look{st.Mode(), st.Size(), st.ModTime()}
	return st, nil
}

func failureEvent(name string, err error) Event {
	e := Event{Type: Failed, Path: []byte(name), Time: time.Now(), Text: err.Error()}
	if errno, ok := errors.AsType[syscall.Errno](err); ok {
		e.Code = int(errno)
	}
	return e
}
